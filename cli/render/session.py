"""Sessions and their events as text for a person, in a layout that fits narrow terminals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ...schemas.time import UNDATED
from ..terminal import clean, plain_console
from .content import event_text
from .styles import KINDS, VERDICTS

if TYPE_CHECKING:
    from ...batch.survey.sessions import SessionLine, SessionView
    from ...schemas.records.verdict_record import VerdictRecord

TEXT_WIDTH = 1_000
"""Characters of an event's text in the table; JSON has the whole text."""
NAME_WIDTH = 200
VERDICTS_SHOWN = 10
"""Verdicts that the list shows of a session."""
SPANS_SHOWN = 3
NO_TIMES = "no times"
ROWS_AT_ONCE = 500
WIDE = 72
"""The minimum width of a terminal for a column of times."""

_FLAGS = ("history", "late", "nested")
_DAY = 10


def print_sessions(lines: Iterable[SessionLine]) -> None:
    """Print each session, and their number."""
    console = plain_console()
    sessions = events = 0
    rest = iter(lines)
    # Printing line by line takes several times as long.
    while block := list(islice(rest, ROWS_AT_ONCE)):
        sessions += len(block)
        events += sum(line.events for line in block)
        console.print(Text("\n").join(text for line in block for text in _listed(line)))
    console.print(f"{events:,} events in {sessions:,} sessions")


def _listed(line: SessionLine) -> Iterator[Text]:
    """Yield the lines of a session in the list: its summary, its tools and its verdicts."""
    yield _brief(line)
    if line.tools:
        yield Text(f"  {clean(', '.join(line.tools), NAME_WIDTH)}", style="dim")
    for verdict in (line.verdicts or ())[:VERDICTS_SHOWN]:
        yield Text("  ").append(_verdict(verdict)).append(f" at {verdict.seq}")
    more = len(line.verdicts or ()) - VERDICTS_SHOWN
    if more > 0:
        yield Text(f"  and {more:,} more verdicts")


def print_session(view: SessionView) -> None:
    """Print the events of a session with their verdicts and dropped claims, then the other dropped claims."""
    console = plain_console()
    dropped: dict[str | None, list[Mapping[str, Any]]] = {}
    for claim in view.dropped:
        dropped.setdefault(claim["of"], []).append(claim)
    rest = iter(view.events)
    for line in view.occurrences:
        console.print(_brief(line))
        events = [event for event, _ in zip(rest, range(line.events), strict=False)]
        for chains in _chains(events):
            console.print(chains)
        for start in range(0, len(events), ROWS_AT_ONCE):
            block = events[start : start + ROWS_AT_ONCE]
            has_times = console.width >= WIDE and not line.occurrence.startswith(UNDATED)
            console.print(_grid(block, line, dropped, has_times=has_times))
    if dropped.get(None):
        console.print(Text("Dropped, and equal to no event", style="bold"))
        for start in range(0, len(dropped[None]), ROWS_AT_ONCE):
            console.print(_unmatched(dropped[None][start : start + ROWS_AT_ONCE]))


def _brief(line: SessionLine) -> Text:
    """Return the summary of a session, one line."""
    return brief(line.session_id, line.occurrence, line.events, line.agent, closed=line.closed)


def brief(session_id: str, occurrence: str, events: int, agent: str | None, *, closed: bool) -> Text:
    """Return a summary of an occurrence, one line."""
    state = "closed" if closed else "open"
    count = f"{events:,} {'event' if events == 1 else 'events'}"
    by = f"  {clean(agent, NAME_WIDTH)}" if agent else ""
    about = f"  {_second(occurrence)}  {count}  {state}{by}"
    return Text.assemble((clean(session_id, NAME_WIDTH), "bold"), about)


def _chains(events: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Yield a line with the learned chains that followed the events live, where the archive names any."""
    counts = Counter(event["chain"] for event in events if "chain" in event)
    if not counts:
        return
    none = counts.pop(None, 0)
    counted = [f"chain {clean(chain, NAME_WIDTH)} followed {count:,}" for chain, count in counts.items()]
    counted += [f"no chain followed {none:,}"] if none else []
    yield Text(f"  live, {', '.join(counted)} of {len(events):,} events", style="dim")


def _grid(
    events: Sequence[Mapping[str, Any]],
    line: SessionLine,
    dropped: Mapping[str | None, Sequence[Mapping[str, Any]]],
    *,
    has_times: bool,
) -> Table:
    """Return events as rows: their place, with `has_times` their time, their kind and content."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", width=len(str(line.events)), no_wrap=True)
    if has_times:
        grid.add_column(no_wrap=True)
    grid.add_column(width=len("tool_result"), no_wrap=True)
    grid.add_column(overflow="fold")
    for event in events:
        kind = Text(event["kind"], style=KINDS.get(event["kind"], "yellow"))
        time = [Text(_time(event["time"], line.occurrence), style="dim")] if has_times else []
        about = _about(event, line.agent, dropped.get(event["event_id"], ()))
        grid.add_row(Text(str(event["seq"])), *time, kind, about)
    return grid


def _unmatched(dropped: Sequence[Mapping[str, Any]]) -> Table:
    """Return the dropped claims that equal no event, with their content."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    for claim in dropped:
        content = _content(claim)
        time = _second(claim["time"])
        place = f"{claim['kind']} {'at ' if time != NO_TIMES else ''}{time}"
        about = Text(f"{place}, {claim['dropped']}{_spans([claim])}", style="dim")
        grid.add_row("", Text("\n").join([Text(content), about] if content else [about]))
    return grid


def _about(event: Mapping[str, Any], agent: str | None, dropped: Sequence[Mapping[str, Any]]) -> Text:
    """Return an event's content, its flags and spans, its verdicts and its dropped claims."""
    lines = [Text(_content(event))]
    flags = [flag for flag in _FLAGS if event[flag]]
    flags += [event["content"]] if event["content"] != "captured" else []
    if event["agent"] not in (None, agent):
        flags.append(f"agent {clean(event['agent'], NAME_WIDTH)}")
    if event["spans"]:
        more = f" and {len(event['spans']) - 1:,} more" if len(event["spans"]) > 1 else ""
        flags.append(f"span {clean(event['spans'][0], NAME_WIDTH)}{more}")
    if flags:
        lines.append(Text(", ".join(flags), style="dim"))
    lines += map(_verdict, event.get("verdicts", ()))
    lines += _dropped(dropped)
    return Text("\n").join(lines)


def _content(event: Mapping[str, Any]) -> str:
    """Return the tool of an event and its text."""
    tool = "" if event["tool"] is None else f"{clean(event['tool'], NAME_WIDTH)} "
    return f"{tool}{event_text(event, TEXT_WIDTH)}".rstrip()


def _verdict(verdict: VerdictRecord) -> Text:
    name = clean(f"{verdict.verdict} {verdict.pack}/{verdict.rule}", NAME_WIDTH)
    sliced = "" if verdict.slice is None else f" for {clean(verdict.slice, NAME_WIDTH)}"
    history = " (history)" if verdict.history else ""
    return Text(f"{name}{sliced}{history}", style=VERDICTS.get(verdict.verdict, ""))


def _dropped(dropped: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Yield a line for each reason why claims on an event were dropped."""
    by_reason: dict[str, list[Mapping[str, Any]]] = {}
    for claim in dropped:
        by_reason.setdefault(claim["dropped"], []).append(claim)
    for reason, claims in by_reason.items():
        yield Text(f"dropped {len(claims):,} {reason}{_spans(claims)}", style="dim")


def _spans(dropped: Sequence[Mapping[str, Any]]) -> str:
    """Return the spans of dropped claims, the first ones by id."""
    spans = [span for span in dict.fromkeys(claim["span_id"] for claim in dropped) if span]
    more = f" and {len(spans) - SPANS_SHOWN:,} more" if len(spans) > SPANS_SHOWN else ""
    return f": span {clean(', '.join(spans[:SPANS_SHOWN]), NAME_WIDTH)}{more}" if spans else ""


def _second(time: str) -> str:
    """Return a time without the fraction of its second, or that a log without times has none."""
    return NO_TIMES if time.startswith(UNDATED) else f"{time.split('.', maxsplit=1)[0]}Z"


def _time(time: str, beginning: str) -> str:
    """Return a time of day with milliseconds, and the day if it differs from that of the beginning."""
    shown = time[: -len("000000Z")]
    return shown[_DAY + 1 :] if time[:_DAY] == beginning[:_DAY] else shown
