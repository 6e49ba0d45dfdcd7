"""The drawings of a report as paths of SVG: timelines of sessions, and trends by day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ...schemas.verdict import BREACHES
from .figures import DayRate

WIDTH = 720
STEP_MAX = 16
"""The width of a timeline, and the largest width of one of its events."""
ROW = 19
"""The height of a row of a timeline."""
RUNS_DRAWN_MAX = 6
"""Runs of rules that a timeline has: those with verdicts come first."""
BREACHES_NAMED_MAX = 5
"""Verdicts of a run that are named; all are drawn."""
BARS_HEIGHT = 36
"""The height of the bars of a trend; a full bar is the highest rate that is possible on a day."""
BARS_WIDTH, BAR_MIN, BAR_MAX = 280, 4, 12
"""The width that the bars of a few days have together, and the least and largest width of a bar."""


@dataclass(frozen=True, slots=True)
class DrawnPath:
    """A path of SVG of one class."""

    name: str
    d: str


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """The row of a run of a rule: its statuses, the events of witnesses and the verdicts, as paths."""

    rule: str
    slice: str | None
    y: int
    paths: tuple[DrawnPath, ...]
    outcome: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A session as a drawing: the kinds of its events, and the rows of the rules; `cut` runs are left out."""

    width: int
    height: int
    kinds: tuple[DrawnPath, ...]
    rows: tuple[TimelineRow, ...]
    cut: int
    words: str

    @property
    def size(self) -> int:
        """Return the characters of the paths."""
        rows = (path for row in self.rows for path in row.paths)
        return sum(len(path.d) for path in (*self.kinds, *rows))


Witnesses = Mapping[tuple[str, str, str | None], frozenset[int]]
"""The `seq` of the events in the witnesses of a session, by pack, rule and slice."""


def timeline(session: Mapping[str, Any], witnesses: Witnesses) -> Timeline:
    """Return the timeline of a line of `sessions.jsonl`."""
    events: Sequence[Mapping[str, Any]] = session["events"]
    places, step = event_places(events)
    runs = sorted(session["rules"], key=lambda run: not breaches(run))
    rows = tuple(
        _row(run, places, step, (2 * number + 3) * ROW, witnesses)
        for number, run in enumerate(runs[:RUNS_DRAWN_MAX])
    )
    kinds = sorted({event["kind"] for event in events})
    drawn = [
        DrawnPath(
            kind,
            "".join(_glyph(kind, places[event["seq"]], step) for event in events if event["kind"] == kind),
        )
        for kind in kinds
    ]
    outcomes = "; ".join(f"{row.rule}: {row.outcome}" for row in rows)
    return Timeline(
        width=WIDTH,
        height=(2 * len(rows) + 2) * ROW,
        kinds=tuple(drawn),
        rows=rows,
        cut=len(runs) - len(rows),
        words=f"{len(events)} events. {outcomes}",
    )


def event_places(events: Sequence[Mapping[str, Any]]) -> tuple[dict[int, float], float]:
    """Return the left end of each event of a timeline by its `seq`, and the width of one."""
    step = min(STEP_MAX, WIDTH / max(len(events), 1))
    return {event["seq"]: place * step for place, event in enumerate(events)}, step


def breaches(run: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the `seq` and the verdict of the violated and unmet verdicts of a run."""
    return [
        (run["steps"][each["step"] - 1], each["verdict"])
        for each in run["verdicts"]
        if each["verdict"] in BREACHES and each["sentence"] is not None
    ]


def _row(
    run: Mapping[str, Any], places: Mapping[int, float], step: float, y: int, witnesses: Witnesses
) -> TimelineRow:
    """Return the row of a run: at each event the status of the rule's condition from it on."""
    statuses = _statuses(run)
    spans: dict[str, list[str]] = {}
    for status, group in groupby(zip(run["steps"], statuses, strict=True), key=lambda each: each[1]):
        for begin, end in _adjacent([places[seq] for seq, _ in group], step):
            spans.setdefault(status, []).append(f"M{begin:.4g} {y}h{end - begin:.4g}")
    found = breaches(run)
    seen = witnesses.get((run["pack"], run["rule"], run["slice"]), frozenset())
    dots = [f"M{places[seq] + step / 2:.4g} {y - 8}h0" for seq in sorted(seen) if seq in places]
    crosses = [_cross(places[seq] + step / 2, y) for seq, _ in found]
    paths = [DrawnPath(status, "".join(parts)) for status, parts in sorted(spans.items())]
    paths += [DrawnPath("witness", "".join(dots)), DrawnPath("breach", "".join(crosses))]
    named = [f"{verdict} at event {seq}" for seq, verdict in found[:BREACHES_NAMED_MAX]]
    named += [f"{len(found) - len(named):,} more"] if len(found) > len(named) else []
    outcome = ", ".join(named) or run["close"] or "pending"
    if run["unjudged"] is not None:
        outcome += f", unjudged from event {run['unjudged']['seq']} on"
    name = f"{run['pack']}/{run['rule']}"
    return TimelineRow(name, run["slice"], y, tuple(path for path in paths if path.d), outcome)


def _statuses(run: Mapping[str, Any]) -> list[str]:
    """Return the status, at each step from it on, of the rule, or of its operand if the rule is `always`."""
    nodes = run["nodes"]
    is_always = nodes[0]["formula"].startswith("always ") and [n["parent"] for n in nodes].count("0") == 1
    node = nodes[1] if is_always else nodes[0]
    found: list[str] = []
    for t, (end, is_open) in enumerate(zip(node["ends"], node["open"], strict=True), start=1):
        if is_open:
            found.append("open")
        elif end is None:
            found.append("violated")
        else:
            found.append("inactive" if end < t else "satisfied" if end == t else "active")
    return found


def _adjacent(places: Iterable[float], step: float) -> list[tuple[float, float]]:
    """Return the spans of places that stand side by side."""
    spans: list[tuple[float, float]] = []
    for place in places:
        if spans and place - spans[-1][1] < step / 2:
            spans[-1] = (spans[-1][0], place + step)
        else:
            spans.append((place, place + step))
    return spans


def _glyph(kind: str, x: float, step: float) -> str:
    """Return the outline of an event's kind, which differs without colour: a shape for each kind."""
    width, left = step * 0.7, x + step * 0.15
    match kind:
        case "user":
            return f"M{left:.4g} 22v-8h{width:.4g}v8z"
        case "assistant":
            return f"M{left:.4g} 22v-16h{width:.4g}v16z"
        case "tool_call":
            return f"M{left:.4g} 22l{width / 2:.4g} -14l{width / 2:.4g} 14z"
        case "tool_result":
            return f"M{left:.4g} 8h{width:.4g}l{-width / 2:.4g} 14z"
        case _:
            return f"M{left:.4g} 16h{width:.4g}v3h{-width:.4g}z"


def _cross(x: float, y: int) -> str:
    return f"M{x - 4:.4g} {y - 4}l8 8m0 -8l-8 8"


@dataclass(frozen=True, slots=True)
class Trend:
    """A rate by day as bars: the certain rate, and above it what is possible."""

    width: int
    height: int
    certain: str
    possible: str
    words: str


def trend(days: Sequence[DayRate]) -> Trend:
    """Return the bars of a rule's days."""
    certain: list[str] = []
    possible: list[str] = []
    bar = max(BAR_MIN, min(BAR_MAX, BARS_WIDTH // max(len(days), 1)))
    top = max((each.rate.high or 0.0 for each in days), default=0.0) or 1.0
    for place, each in enumerate(days):
        low, high = (each.rate.low or 0.0) / top, (each.rate.high or 0.0) / top
        x, y = place * (bar + 1), BARS_HEIGHT * (1 - low)
        if low:
            certain.append(f"M{x} {BARS_HEIGHT}V{y:.4g}h{bar}V{BARS_HEIGHT}z")
        if high > low:
            possible.append(f"M{x} {y:.4g}V{BARS_HEIGHT * (1 - high):.4g}h{bar}V{y:.4g}z")
    worst = max(days, key=lambda each: (each.rate.low or 0.0, each.day), default=None)
    words = "no day" if worst is None else f"{len(days)} days; the highest rate on {worst.day}: "
    words += "" if worst is None else f"{worst.rate.described}; a full bar is {top:.1%}"
    return Trend(max(len(days) * (bar + 1), 1), BARS_HEIGHT, "".join(certain), "".join(possible), words)
