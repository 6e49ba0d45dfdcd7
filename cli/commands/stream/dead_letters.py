"""`tracline stream dead-letters`: what could not be read or judged, and sending it once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ...options import Command, format_option, note
from ...settings import kafka_settings
from ...shown import clean, plain_console
from ..audit.audit import Instant
from .group import broker_option

if TYPE_CHECKING:
    from ....stream.kafka.care.dead_letters import DeadLetterRecord, RecordPlace, ReplayOutcome


class Numbers(click.ParamType):
    """Some dead letters by their numbers: one, or the first and the last."""

    name = "range"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Read `17` or `17-25`."""
        first, dash, last = str(value).partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True):
            self.fail(f"{value!r} is no range of numbers: write 17 or 17-25", param, ctx)
        return int(first), int(last or first)


@click.command("dead-letters", cls=Command)
@click.option("--code", metavar="CODE", help="Only those with this code.")
@click.option(
    "--process", metavar="NAME", help="Only those of this process: rekey, monitor, archive, alerts."
)
@click.option("--since", type=Instant(), metavar="TIME", help="Only of records from this time or day on.")
@click.option("--numbers", type=Numbers(), metavar="N[-M]", help="Only those with these numbers.")
@click.option(
    "--replay",
    is_flag=True,
    help="Send the records once more, to their topic and partition: those of spans, and of sessions' events.",
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
    """List what could not be read or judged: where it stands, why, a digest; never what is in it.

    With --replay, and --code, --process or --numbers, the records that the letters are about are read at
    their places and sent to their topic once more, each once; exit code 1 where one could not be. Do so when
    what was wrong is mended, and soon: what a record tells of a session that has long been over is judged
    once more, as an occurrence of its own.
    """
    from ....rules.model.problem import counted
    from ....stream.kafka.care.dead_letters import DeadLetterFilter, ReplayOutcome, read_dead_letters
    from ....stream.kafka.care.dead_letters import replay as send

    if replay and code is None and process is None and numbers is None:
        raise click.UsageError("--replay needs --code, --process or --numbers: say which.")
    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    read = read_dead_letters(kafka, DeadLetterFilter(code, process, since, numbers))
    if read.damaged:
        note(f"{counted(read.damaged, 'record')} of the topic: no dead letter; look who else writes to it")
    if not replay:
        _write([_row(one) for one in read.letters], format)
        return
    told = send(kafka, read.letters)
    _write([_outcome(place, outcome) for place, outcome in told], format)
    replayed = sum(outcome is ReplayOutcome.REPLAYED for _, outcome in told)
    note(f"replayed {replayed} of {counted(len(told), 'record')}")
    if replayed < len(told):
        click.get_current_context().exit(1)


def _row(one: DeadLetterRecord) -> dict[str, object]:
    """A letter as it is shown."""
    from ....schemas.time import rfc3339

    letter = one.letter
    return {
        "number": one.number,
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
    """Return what became of a record, as it is shown."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": place.offset,
        "outcome": outcome.value,
    }


def _write(rows: Sequence[dict[str, object]], format: str) -> None:
    """The rows on standard output; in JSON what is not ASCII is escaped."""
    match format:
        case "json":
            click.echo(json.dumps(rows, indent=2))
        case "jsonl":
            for row in rows:
                click.echo(json.dumps(row))
        case _:
            _print(rows)


def _print(rows: Sequence[dict[str, object]]) -> None:
    """The rows as a table; there is room for the beginning of a digest."""
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
