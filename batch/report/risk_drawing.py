"""The drawings of a session's risks as paths of SVG, each below the timeline and in line with its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ...predict.following.risk_courses import RiskCourse
from .drawing import WIDTH, DrawnPath, breaches, event_places

LINES_MAX = 3
"""Risks of a session that are drawn, the greatest ones of those worth a look."""
LINE_HEIGHT, TEXT_HEIGHT = 40, 16
"""The height of a drawing of a risk, and that of the text above it."""


@dataclass(frozen=True, slots=True)
class RiskLine:
    """The risk of a rule over the events of a session: its drawing, and its rises in words."""

    course: RiskCourse
    width: int
    height: int
    paths: tuple[DrawnPath, ...]

    @property
    def rule(self) -> str:
        """Return the name of the rule."""
        return f"{self.course.pack}/{self.course.rule}"

    @property
    def size(self) -> int:
        """Return the characters of the paths."""
        return sum(len(path.d) for path in self.paths)


def risk_lines(session: Mapping[str, Any]) -> tuple[RiskLine, ...]:
    """Return the drawings of the risks in a line of `sessions.jsonl` that warn, or whose rule is broken."""
    courses = [msgspec.convert(each, RiskCourse) for each in session.get("risks", ())]
    places, step = event_places(session["events"])
    broken = {(run["pack"], run["rule"], run["slice"]) for run in session["rules"] if breaches(run)}
    drawn = [
        each
        for each in courses
        if each.greatest > 0 and (each.is_warned or (each.pack, each.rule, each.slice) in broken)
    ]
    return tuple(_line(each, places, step) for each in drawn[:LINES_MAX])


def _line(course: RiskCourse, places: Mapping[int, float], step: float) -> RiskLine:
    bottom = TEXT_HEIGHT + LINE_HEIGHT
    drawn = course.drawn(places, step, bottom, LINE_HEIGHT)
    paths = {"floor": f"M0 {bottom}h{WIDTH}", "limit": f"M0 {drawn.limit}h{WIDTH}", "risk": drawn.path}
    return RiskLine(course, WIDTH, bottom + 2, tuple(DrawnPath(name, d) for name, d in paths.items()))
