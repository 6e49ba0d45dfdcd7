"""A session told again: what every rule said, and still asked, after each of its events.

The verdicts are in the store; this shows the way to them. `rules/engine/stepper.py` steps the rules, and
this module makes of its steps what the page shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...rules.engine.judge import CompiledRules
from ...rules.engine.status import rule_runs, status_of
from ...rules.engine.stepper import RuleEvent, RuleRun, SliceStep
from ...schemas.event import Event
from ...schemas.verdict import Verdict

EVENTS_REPLAYED_MAX = 1_000
"""Events of an occurrence that are told again; what comes after is shown without the rules."""
MARKS_AN_EVENT_MAX = 8
"""Marks of one rule at one event: an event without a value steps every slice."""


@dataclass(frozen=True, slots=True)
class SliceMark:
    """One rule at one event, in one slice (None: the whole session, or its events without a value).

    `reported` says that the verdict is one of the event's own, which the store has a record of; `moved` that
    the rule asks something else than before. `residual` is what the next event will be asked, `true` or
    `false` where the verdict was given.
    """

    slice: str | None
    verdict: Verdict
    residual: str
    reported: bool
    moved: bool


@dataclass(frozen=True, slots=True)
class RuleSteps:
    """The marks of one rule at one event, those first that say something new; `more` are left out."""

    shown: tuple[SliceMark, ...] = ()
    more: int = 0

    @property
    def is_news(self) -> bool:
        """Return whether the event changed anything for the rule."""
        return any(mark.reported or mark.moved for mark in self.shown)


@dataclass(frozen=True, slots=True)
class SliceStatus:
    """Where a slice of a rule stands: its last mark, the event of it, and what an end would read there."""

    mark: SliceMark
    seq: int
    closing: Verdict | None


@dataclass(frozen=True, slots=True)
class RuleReplay:
    """One rule over the events: its marks at each, and where it stands after the last, slice by slice.

    `number` is the rule's in the rule set. `applies` is the `seq` of the event at which the rule first
    applied, `unjudged` that of the event from which on it could not judge; None where there is none.
    """

    number: int
    marks: tuple[RuleSteps, ...]
    standings: tuple[SliceStatus, ...]
    applies: int | None
    unjudged: int | None


def replay(compiled: CompiledRules, events: Sequence[Event]) -> tuple[RuleReplay, ...]:
    """The course of every rule, as the set has them, over an occurrence's first events in judged order."""
    if not events:
        return tuple(RuleReplay(number, (), (), None, None) for number in range(len(compiled.rules)))
    courses = [_course(number, run, read) for number, run, read in rule_runs(compiled, events)]
    return tuple(sorted(courses, key=lambda course: course.number))


def _course(number: int, run: RuleRun, events: Sequence[RuleEvent]) -> RuleReplay:
    marks = tuple(_marks(run, event) for event in events)
    standings = tuple(SliceStatus(_mark(each.last), each.seq, each.closing) for each in status_of(run))
    return RuleReplay(number, marks, standings, run.applies, run.unjudged)


def _marks(run: RuleRun, event: RuleEvent) -> RuleSteps:
    """Step the rule on the event, and show it."""
    marks = [_mark(step) for step in run.step(event)]
    if run.unjudged == event.seq:
        return RuleSteps((SliceMark(None, Verdict.UNJUDGED, "", reported=True, moved=True),))
    marks.sort(key=lambda mark: (not mark.reported, not mark.moved))
    return RuleSteps(tuple(marks[:MARKS_AN_EVENT_MAX]), max(0, len(marks) - MARKS_AN_EVENT_MAX))


def _mark(slice_step: SliceStep) -> SliceMark:
    step = slice_step.step
    return SliceMark(slice_step.slice, step.verdict, step.residual, slice_step.is_reported, step.is_changed)
