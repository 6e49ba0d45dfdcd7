"""`tracline stream dead-letters`: list or replay records that could not be processed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ...options import Command, Instant, format_option, note
from ...settings import kafka_settings
from ...terminal import clean, plain_console
from .group import broker_option

if TYPE_CHECKING:
    from ....stream.kafka.care.dead_letters import DeadLetterRecord, RecordPlace, ReplayOutcome


class Numbers(click.ParamType):
    """A range of dead letters by number: `17`, or `17-25`."""

    name = "range"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Read `17` or `17-25`."""
        first, dash, last = str(value).partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True):
            self.fail(f"{value!r} is not a range of numbers: use 17 or 17-25", param, ctx)
        return int(first), int(last or first)


@click.command("dead-letters", cls=Command)
@click.option("--code", metavar="CODE", help="Select dead letters with this code.")
@click.option(
    "--process", metavar="NAME", help="Select those of one process: rekey, monitor, archive or alerts."
)
@click.option("--since", type=Instant(), metavar="TIME", help="Select records from this time or day on.")
@click.option("--numbers", type=Numbers(), metavar="N[-M]", help="Select dead letters by number.")
@click.option(
    "--replay",
    is_flag=True,
    help="Send the selected records of spans and of session events again, to their topic and partition.",
)
@broker_option()
@format_option("table", "json", "jsonl")
def command(
    code: str | None,
    process: str | None,
    since: int | None,
    numbers: tuple[int, int] | None,
    replay: bool,
    bootstrap_servers: str | None,
    format: str,
) -> None:
    """List records that could not be processed: their place, the reason and a digest, never their content.

    --replay, with --code, --process or --numbers, reads the records at their places and sends each to its
    topic again; exit code 1 if a record could not be sent. Replay soon after the cause is fixed: a record of
    a session that closed long ago is judged as a new occurrence of that session.
    """
    from ....rules.model.problem import counted
    from ....stream.kafka.care.dead_letters import DeadLetterFilter, ReplayOutcome, read_dead_letters
    from ....stream.kafka.care.dead_letters import replay as send

    if replay and code is None and process is None and numbers is None:
        raise click.UsageError("--replay requires --code, --process or --numbers.")
    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    read = read_dead_letters(kafka, DeadLetterFilter(code, process, since, numbers))
    if read.damaged:
        records = counted(read.damaged, "record")
        note(f"skipped {records} of the topic: not a dead letter; check what else writes to the topic")
    if not replay:
        _write([_row(numbered) for numbered in read.letters], format)
        return
    outcomes = send(kafka, read.letters)
    _write([_outcome(place, outcome) for place, outcome in outcomes], format)
    replayed = sum(outcome is ReplayOutcome.REPLAYED for _, outcome in outcomes)
    note(f"replayed {replayed} of {counted(len(outcomes), 'record')}")
    if replayed < len(outcomes):
        click.get_current_context().exit(1)


def _row(numbered: DeadLetterRecord) -> dict[str, object]:
    """Return the fields of a dead letter."""
    from ....schemas.time import rfc3339

    letter = numbered.letter
    return {
        "number": numbered.number,
        "process": letter.process,
        "code": letter.code,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "time": rfc3339(letter.time),
        "place": letter.place,
        "reason": letter.reason,
        "sha256": letter.sha256,
    }


def _outcome(place: RecordPlace, outcome: ReplayOutcome) -> dict[str, object]:
    """Return the outcome of a replayed record."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": place.offset,
        "outcome": outcome.value,
    }


def _write(rows: Sequence[dict[str, object]], format: str) -> None:
    """Write the rows to standard output, as ASCII in JSON."""
    match format:
        case "json":
            click.echo(json.dumps(rows, indent=2))
        case "jsonl":
            for row in rows:
                click.echo(json.dumps(row))
        case _:
            _print(rows)


def _print(rows: Sequence[dict[str, object]]) -> None:
    """Print the rows as a table, with the first digits of digests."""
    from rich.table import Table

    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, value in rows[0].items():
        is_number = isinstance(value, int)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(clean(str(row[name]), 12 if name == "sha256" else None) for name in row))
    plain_console().print(table)
