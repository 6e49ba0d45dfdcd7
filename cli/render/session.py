"""Sessions and their events as text for a person, one under the other, so that it fits narrow screens too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ...schemas.verdict import Verdict
from ..commands.rules.label import event_text as text_of
from ..terminal import clean, plain_console

if TYPE_CHECKING:
    from ...batch.survey.sessions import SessionLine, SessionView

TEXT_WIDTH = 1_000
"""Characters of what an event says that the table shows; JSON has all of it."""
NAME_WIDTH = 200
VERDICTS_SHOWN = 10
"""Verdicts of a session that its line shows."""
SPANS_SHOWN = 3
ROWS_AT_ONCE = 500
WIDE = 72
"""Characters of a line from which times stand in a column."""

_STYLES = {Verdict.VIOLATED.value: "bold red", Verdict.UNMET.value: "red", Verdict.UNJUDGED.value: "yellow"}
_KINDS = {"user": "cyan", "assistant": "green", "tool_call": "magenta", "tool_result": "blue"}
_FLAGS = ("history", "late", "nested")
_DAY = 10


def print_sessions(lines: Iterable[SessionLine]) -> None:
    """Print each session, and how many there are."""
    console = plain_console()
    sessions = events = 0
    rest = iter(lines)
    # To print line by line takes several times as long.
    while some := list(islice(rest, ROWS_AT_ONCE)):
        sessions += len(some)
        events += sum(line.events for line in some)
        console.print(Text("\n").join(text for line in some for text in _listed(line)))
    console.print(f"{events:,} events in {sessions:,} sessions")


def _listed(line: SessionLine) -> Iterator[Text]:
    """Yield what the list shows of a session: who it is, its tools, and what rules found."""
    yield _brief(line)
    if line.tools:
        yield Text(f"  {clean(', '.join(line.tools), NAME_WIDTH)}", style="dim")
    for verdict in (line.verdicts or ())[:VERDICTS_SHOWN]:
        yield Text("  ").append(_verdict(verdict)).append(f" at {verdict['seq']}")
    more = len(line.verdicts or ()) - VERDICTS_SHOWN
    if more > 0:
        yield Text(f"  and {more:,} more verdicts")


def print_session(view: SessionView) -> None:
    """Print the events of a session, below each what stands at it, then what belongs to none of them."""
    console = plain_console()
    dropped: dict[str | None, list[Mapping[str, Any]]] = {}
    for one in view.dropped:
        dropped.setdefault(one["of"], []).append(one)
    rest = iter(view.events)
    for line in view.occurrences:
        console.print(_brief(line))
        own = [event for event, _ in zip(rest, range(line.events), strict=False)]
        for begin in range(0, len(own), ROWS_AT_ONCE):
            console.print(_grid(own[begin : begin + ROWS_AT_ONCE], line, dropped, wide=console.width >= WIDE))
    if dropped.get(None):
        console.print(Text("Dropped, and no event says the same", style="bold"))
        for begin in range(0, len(dropped[None]), ROWS_AT_ONCE):
            console.print(_left_over(dropped[None][begin : begin + ROWS_AT_ONCE]))


def _brief(line: SessionLine) -> Text:
    """Return who a session is, in one line."""
    state = "closed" if line.closed else "open"
    count = f"{line.events:,} {'event' if line.events == 1 else 'events'}"
    agent = f"  {clean(line.agent, NAME_WIDTH)}" if line.agent else ""
    about = f"  {_second(line.occurrence)}  {count}  {state}{agent}"
    return Text.assemble((clean(line.session_id, NAME_WIDTH), "bold"), about)


def _grid(
    events: Sequence[Mapping[str, Any]],
    line: SessionLine,
    dropped: Mapping[str | None, Sequence[Mapping[str, Any]]],
    *,
    wide: bool,
) -> Table:
    """Return events as rows: their place, their time where there is room, their kind, and what they say."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", width=len(str(line.events)), no_wrap=True)
    if wide:
        grid.add_column(no_wrap=True)
    grid.add_column(width=len("tool_result"), no_wrap=True)
    grid.add_column(overflow="fold")
    for event in events:
        kind = Text(event["kind"], style=_KINDS.get(event["kind"], "yellow"))
        time = [Text(_time(event["time"], line.occurrence), style="dim")] if wide else []
        about = _about(event, line.agent, dropped.get(event["event_id"], ()))
        grid.add_row(Text(str(event["seq"])), *time, kind, about)
    return grid


def _left_over(dropped: Sequence[Mapping[str, Any]]) -> Table:
    """Return what was dropped and says what no event says, with what it says."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    for one in dropped:
        said = _said(one)
        about = Text(f"{one['kind']} at {_second(one['time'])}, {one['dropped']}{_spans([one])}", style="dim")
        grid.add_row("", Text("\n").join([Text(said), about] if said else [about]))
    return grid


def _about(event: Mapping[str, Any], agent: str | None, dropped: Sequence[Mapping[str, Any]]) -> Text:
    """Return what an event says, which spans say it, what rules found there, what was dropped for it."""
    lines = [Text(_said(event))]
    flags = [flag for flag in _FLAGS if event[flag]]
    flags += [event["content"]] if event["content"] != "captured" else []
    if event["agent"] not in (None, agent):
        flags.append(f"agent {clean(event['agent'], NAME_WIDTH)}")
    if event["spans"]:
        others = f" and {len(event['spans']) - 1:,} more" if len(event["spans"]) > 1 else ""
        flags.append(f"span {clean(event['spans'][0], NAME_WIDTH)}{others}")
    if flags:
        lines.append(Text(", ".join(flags), style="dim"))
    lines += map(_verdict, event.get("verdicts", ()))
    lines += _dropped(dropped)
    return Text("\n").join(lines)


def _said(event: Mapping[str, Any]) -> str:
    """Return the tool of an event and what it says."""
    tool = "" if event["tool"] is None else f"{clean(event['tool'], NAME_WIDTH)} "
    return f"{tool}{text_of(dict(event), TEXT_WIDTH)}".rstrip()


def _verdict(verdict: Mapping[str, Any]) -> Text:
    name = clean(f"{verdict['verdict']} {verdict['pack']}/{verdict['rule']}", NAME_WIDTH)
    sliced = "" if verdict["slice"] is None else f" for {clean(verdict['slice'], NAME_WIDTH)}"
    history = " (history)" if verdict["history"] else ""
    return Text(f"{name}{sliced}{history}", style=_STYLES.get(verdict["verdict"], ""))


def _dropped(dropped: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Yield a line for each reason for which readings of an event were dropped."""
    by_reason: dict[str, list[Mapping[str, Any]]] = {}
    for one in dropped:
        by_reason.setdefault(one["dropped"], []).append(one)
    for reason, some in by_reason.items():
        yield Text(f"dropped {len(some):,} {reason}{_spans(some)}", style="dim")


def _spans(dropped: Sequence[Mapping[str, Any]]) -> str:
    """Return the spans of readings, the first ones by id."""
    spans = [span for span in dict.fromkeys(one["span_id"] for one in dropped) if span]
    more = f" and {len(spans) - SPANS_SHOWN:,} more" if len(spans) > SPANS_SHOWN else ""
    return f": span {clean(', '.join(spans[:SPANS_SHOWN]), NAME_WIDTH)}{more}" if spans else ""


def _second(time: str) -> str:
    """Return a time of JSON without the fraction of its second."""
    return f"{time.split('.', maxsplit=1)[0]}Z"


def _time(time: str, beginning: str) -> str:
    """Return a time of day with milliseconds, and its day where that is not the one of the beginning."""
    shown = time[: -len("000000Z")]
    return shown[_DAY + 1 :] if time[:_DAY] == beginning[:_DAY] else shown
