"""The drawings of a session's risks as paths of SVG, each below the timeline and in line with its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...predict.explaining.words import horizon, percent, rise_words
from .drawing import WIDTH, DrawnPath, breaches, event_places

LINES_MAX = 3
"""Risks of a session that are drawn, the greatest ones of those worth a look."""
LINE_HEIGHT, TEXT_HEIGHT = 40, 16
"""The height of a drawing of a risk, and that of the text above it."""
TOP_SHARE = 1.25
"""The height of the drawing in thresholds, where no risk is greater."""


@dataclass(frozen=True, slots=True)
class RiskLine:
    """The risk of a rule over the events of a session: its drawing, and its rises in words."""

    rule: str
    slice: str | None
    width: int
    height: int
    paths: tuple[DrawnPath, ...]
    words: str
    rises: tuple[str, ...]

    @property
    def size(self) -> int:
        """Return the characters of the paths."""
        return sum(len(path.d) for path in self.paths)


def risk_lines(session: Mapping[str, Any]) -> tuple[RiskLine, ...]:
    """Return the drawings of the risks in a line of `sessions.jsonl` that warn, or whose rule is broken."""
    found: Sequence[Mapping[str, Any]] = session.get("risks", ())
    places, step = event_places(session["events"])
    broken = {(run["pack"], run["rule"], run["slice"]) for run in session["rules"] if breaches(run)}
    drawn = [
        each
        for each in found
        if (each["pack"], each["rule"], each["slice"]) in broken
        or any(risk is not None and risk >= each["threshold"] for risk in each["risks"])
    ]
    return tuple(_line(each, places, step) for each in drawn[:LINES_MAX] if any(each["risks"]))


def _line(found: Mapping[str, Any], places: Mapping[int, float], step: float) -> RiskLine:
    points = [(seq, risk) for seq, risk in zip(found["seqs"], found["risks"], strict=True)]
    known = [(risk, seq) for seq, risk in points if risk is not None]
    greatest, at = max(known, key=lambda each: (each[0], -each[1]))
    threshold: float = found["threshold"]
    top = max(greatest, min(1.0, TOP_SHARE * threshold))
    bottom = TEXT_HEIGHT + LINE_HEIGHT

    def y_of(risk: float) -> float:
        return bottom - LINE_HEIGHT * risk / top

    line, is_down = list[str](), False
    for seq, risk in points:
        if risk is None:
            is_down = False
            continue
        x, y = places[seq], y_of(risk)
        line.append(f"{'L' if is_down else 'M'}{x:.4g} {y:.4g}h{step:.4g}")
        is_down = True
    limit = f"M0 {y_of(threshold):.4g}h{WIDTH}"
    paths = (
        DrawnPath("floor", f"M0 {bottom}h{WIDTH}"),
        DrawnPath("limit", limit),
        DrawnPath("risk", "".join(line)),
    )
    words = f"risk {horizon(found['within'])}, at most {percent(greatest)} (event {at})"
    return RiskLine(
        rule=f"{found['pack']}/{found['rule']}",
        slice=found["slice"],
        width=WIDTH,
        height=bottom + 2,
        paths=paths,
        words=f"{words}; warning from {percent(threshold)}",
        rises=tuple(
            rise_words(rise["before"], rise["after"], rise["seq"], rise["symbol"]) for rise in found["rises"]
        ),
    )
