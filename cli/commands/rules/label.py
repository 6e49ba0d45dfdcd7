"""`tracline label`: show how often each proposition is true, with sample events."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...options import Command, format_option, load_selected, rules_option, selection_options
from ...source import allow_rejected_option, audit_options, report_rejected, timezone_option
from ...terminal import clean, plain_console

if TYPE_CHECKING:
    from ....batch.audit.proposition_counts import PropositionCensus, PropositionCount

TEXT_WIDTH = 200
"""Characters of a sample event's text in `--format json`."""

SESSION_WIDTH = 24


@click.command("label", cls=Command)
@click.argument("archive")
@rules_option()
@selection_options()
@timezone_option()
@allow_rejected_option()
@format_option("table", "json")
def command(
    archive: str,
    rules: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Show how often each proposition is true, with sample events.

    ARCHIVE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps. A
    proposition is unknown at events that lack a field which it reads. Samples show the content of events.
    """
    from ....batch.audit.proposition_counts import census

    rule_set, options = load_selected(rules, select, ignore), audit_options(timezone)
    with tempfile.TemporaryDirectory() as scratch:
        counted = census(archive, rule_set, Path(scratch), options)
    if format == "json":
        click.echo(json.dumps(as_data(counted), indent=2, ensure_ascii=False))
    else:
        print_counts(counted)
    population = counted.population
    report_rejected(population.rejects, population.rejected, archive, allow_rejected)


def as_data(counted: PropositionCensus) -> dict[str, Any]:
    """Return the census as plain data, with cleaned and cut texts."""
    return {
        "events": counted.events,
        "sessions": counted.sessions,
        "rejected": counted.population.rejected.total(),
        "propositions": [
            {
                "pack": count.pack,
                "name": count.name,
                "true": count.true,
                "unknown": count.unknown,
                "sessions": count.sessions,
                "samples": [
                    {
                        "session_id": clean(event["session_id"]),
                        "seq": event["seq"],
                        "kind": event["kind"],
                        "tool": None if event["tool"] is None else clean(event["tool"]),
                        "text": event_text(event, TEXT_WIDTH),
                    }
                    for event in count.samples
                ],
            }
            for count in counted.counts
        ],
        "never_true": [asdict(each) for each in counted.never_true],
    }


def event_text(event: dict[str, Any], width: int) -> str:
    """Return the content of an event on one line, safe to print."""
    parts = (
        event["text"],
        event["args"] if event["kind"] == "tool_call" else event["result"],
        event["error"],
    )
    # Cleaning never lengthens text, so the first characters are enough, however long it is.
    return clean(" ".join(" ".join(part[: 4 * width] for part in parts if part).split()), width)


def print_counts(counted: PropositionCensus) -> None:
    """Print the propositions as a table, then the samples of each."""
    from rich.table import Table
    from rich.text import Text

    from ...never_true import never_true_lines

    console = plain_console()
    console.print(f"{counted.events:,} events in {counted.sessions:,} sessions")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("proposition", no_wrap=True)
    for name in ("true", "unknown", "sessions"):
        table.add_column(name, justify="right", no_wrap=True)
    for count in counted.counts:
        name = Text(_name(count), style="bold" if count.true else "yellow")
        table.add_row(
            name, f"{count.true:,}", f"{count.unknown:,}" if count.unknown else "·", f"{count.sessions:,}"
        )
    console.print(table)
    for line in never_true_lines(map(asdict, counted.never_true)):
        console.print(Text(line))
    for count in counted.counts:
        if not count.samples:
            continue
        console.print()
        console.print(Text(_name(count), style="bold"))
        for event in count.samples:
            console.print(_line(event, console.width), no_wrap=True, overflow="ellipsis")


def _name(count: PropositionCount) -> str:
    return clean(f"{count.pack}/{count.name}")


def _line(event: dict[str, Any], width: int) -> str:
    tool = f" {clean(event['tool'], 40)}" if event["tool"] else ""
    place = f"  {clean(event['session_id'], SESSION_WIDTH)} {event['seq']:>3}  {event['kind']}{tool}"
    return f"{place}  {event_text(event, max(width - len(place) - 2, 20))}"
