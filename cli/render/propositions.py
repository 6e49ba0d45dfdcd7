"""Counts and samples of propositions as text for a person, and as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...rules.model.printer import predicate_text
from ..rule_mistakes import rule_mistake_lines
from ..terminal import clean, plain_console
from .content import event_text
from .fitted import FittedTable

if TYPE_CHECKING:
    from ...batch.audit.proposition_counts import PropositionCensus, PropositionCount, Sample
    from ...rules.labels.matches import TextMatch

TEXT_WIDTH = 200
"""Characters of a sample event's text in JSON, and of a sample in a pipe."""
MATCH_WIDTH = 160
"""Characters of a text near a match, in JSON and in a pipe."""
MIN_WIDTH = 20
"""Columns that the text of a sample has at least."""
BEGIN, END = ">>", "<<"
"""The marks of a match."""


def census_data(counted: PropositionCensus, *, show_matches: bool) -> dict[str, Any]:
    """Return the census as plain data, with cleaned and cut texts."""
    return {
        "events": counted.events,
        "sessions": counted.sessions,
        "rejected": counted.population.rejected.total(),
        "propositions": [_count_data(count, show_matches=show_matches) for count in counted.counts],
        **asdict(counted.mistakes),
    }


def _count_data(count: PropositionCount, *, show_matches: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "pack": count.pack,
        "name": count.name,
        "true": count.true,
        "unknown": count.unknown,
        "sessions": count.sessions,
    }
    if count.where is not None:
        fields |= {"where": predicate_text(count.where), "missed": count.missed}
    samples = [_sample_data(sample, show_matches=show_matches) for sample in count.samples]
    return {**fields, "samples": samples}


def _sample_data(sample: Sample, *, show_matches: bool) -> dict[str, Any]:
    event = sample.event
    fields: dict[str, Any] = {
        "session_id": clean(event["session_id"]),
        "seq": event["seq"],
        "kind": event["kind"],
        "tool": None if event["tool"] is None else clean(event["tool"]),
        "text": event_text(event, TEXT_WIDTH),
    }
    if show_matches:
        parts = [(match.path, _cut_out(match, MATCH_WIDTH)) for match in sample.matches]
        fields["matches"] = [
            {"path": path, "before": before, "match": found, "after": after}
            for path, (before, found, after) in parts
        ]
    return fields


def print_census(counted: PropositionCensus, *, show_matches: bool) -> None:
    """Print the propositions as a table, then the samples of each."""
    console = plain_console()
    console.print(f"{counted.events:,} events in {counted.sessions:,} sessions")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("proposition", no_wrap=True)
    for name in ("true", "unknown", "sessions"):
        table.add_column(name, justify="right", no_wrap=True)
    for count in counted.counts:
        name = Text(_name(count), style="bold" if count.true else "yellow")
        unknown = f"{count.unknown:,}" if count.unknown else "·"
        table.add_row(name, f"{count.true:,}", unknown, f"{count.sessions:,}")
    console.print(FittedTable(table), crop=False)
    for line in rule_mistake_lines(asdict(counted.mistakes)):
        console.print(Text(line))
    for count in counted.counts:
        if not count.samples and count.where is None:
            continue
        console.print()
        console.print(_heading(count))
        for sample in count.samples:
            for line in _lines(sample, console, show_matches=show_matches):
                console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _heading(count: PropositionCount) -> Text:
    """Return the line above the samples of a proposition."""
    name = Text(_name(count), style="bold")
    if count.where is None:
        return name
    shown = f": false at {count.missed:,} events where {clean(predicate_text(count.where))}"
    return name.append(shown)


def _name(count: PropositionCount) -> str:
    return clean(f"{count.pack}/{count.name}")


def _lines(sample: Sample, console: Console, *, show_matches: bool) -> Iterator[Text]:
    """Yield the lines of a sample: its place and text, or its place and a line for each match."""
    event = sample.event
    tool = f" {clean(event['tool'])}" if event["tool"] else ""
    place = f"  {clean(event['session_id'])} {event['seq']:>3}  {event['kind']}{tool}"
    if show_matches and sample.matches:
        yield Text(place)
        for match in sample.matches:
            yield _marked(match, console.width)
        return
    left = console.width - len(place) - 2
    # A long session id leaves no room: the text gets a line of its own.
    if left < MIN_WIDTH:
        yield Text(place)
        yield Text(f"    {event_text(event, max(console.width - 4, MIN_WIDTH))}")
    else:
        yield Text(f"{place}  {event_text(event, left)}")


def _marked(match: TextMatch, width: int) -> Text:
    """Return a line with the text beside a match, which is marked."""
    indent = f"    {clean(match.path)}: "
    room = min(width, MATCH_WIDTH + len(indent)) - len(indent) - len(BEGIN + END)
    before, found, after = _cut_out(match, max(room, MIN_WIDTH))
    return Text.assemble(indent, before, (f"{BEGIN}{found}{END}", "bold"), after)


def _cut_out(match: TextMatch, width: int) -> tuple[str, str, str]:
    """Return the text before the match, the match and the text after it, cut to so many characters."""
    found = clean(_one_line(match.text[match.start : match.end]), width)
    room = max(width - len(found), 0)
    before = clean(_one_line(match.text[max(0, match.start - width) : match.start]))
    after = clean(_one_line(match.text[match.end : match.end + width]))
    half = max(room // 2, room - len(after))
    is_cut = len(before) > half or match.start > width
    before = f"…{before[len(before) - max(half - 1, 0) :]}" if is_cut and half else before[:half]
    return before, found, clean(after, max(room - len(before), 1))


def _one_line(text: str) -> str:
    """Return the text with each run of white space as one space."""
    squeezed = " ".join(text.split())
    return f"{' ' if text[:1].isspace() and squeezed else ''}{squeezed}{' ' if text[-1:].isspace() else ''}"
