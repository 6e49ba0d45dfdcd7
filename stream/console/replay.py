"""The replay of a session: each rule's verdict and residual after each event.

The verdicts are in the store; this shows the way to them. `rules/engine/stepper.py` steps the rules, and
this module makes of its steps what the page shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...rules.engine.judge import CompiledRules
from ...rules.engine.status import event_labels, label_runs, status_of
from ...rules.engine.stepper import RuleEvent, RuleRun, SliceStep
from ...schemas.event import Event
from ...schemas.verdict import Verdict

EVENTS_REPLAYED_MAX = 1_000
"""Events of an occurrence that are replayed; later ones are shown without the rules."""
STEPS_AN_EVENT_MAX = 8
"""Steps of one rule at one event that are shown: an event without a value steps every slice."""


@dataclass(frozen=True, slots=True)
class SliceMark:
    """One step of a rule, in one slice (None: the whole session, or its events without a value).

    `reported` states that the rule gives its verdict at this event, so that the store has a record of it;
    `moved` that the residual changed. `residual` is what the rule requires of the next event, `true` or
    `false` once a verdict is given.
    """

    slice: str | None
    verdict: Verdict
    residual: str
    reported: bool
    moved: bool


@dataclass(frozen=True, slots=True)
class RuleSteps:
    """The steps of one rule at one event, changes first; `more` steps are left out."""

    shown: tuple[SliceMark, ...] = ()
    more: int = 0

    @property
    def is_change(self) -> bool:
        """Return whether the event changed anything for the rule."""
        return any(step.reported or step.moved for step in self.shown)


@dataclass(frozen=True, slots=True)
class SliceView:
    """The status of a slice: its last step, the event of that, and the verdict if the session ended there."""

    last: SliceMark
    seq: int
    closing: Verdict | None


@dataclass(frozen=True, slots=True)
class RuleReplay:
    """The replay of one rule: its steps at each event, and the status of each slice after the last.

    `number` is the rule's in the rule set. `applies` is the `seq` of the event at which the rule first
    applies, `unjudged` that of the event at which it becomes unjudged; None where there is none.
    """

    number: int
    steps: tuple[RuleSteps, ...]
    slices: tuple[SliceView, ...]
    applies: int | None
    unjudged: int | None


def replay(compiled: CompiledRules, events: Sequence[Event]) -> tuple[RuleReplay, ...]:
    """Return the replay of every rule, in the set's order, over an occurrence's first judged events."""
    if not events:
        return tuple(RuleReplay(number, (), (), None, None) for number in range(len(compiled.rules)))
    runs = label_runs(compiled, event_labels(compiled, events))
    replays = [_replay(number, run, read) for number, run, read in runs]
    return tuple(sorted(replays, key=lambda replayed: replayed.number))


def _replay(number: int, run: RuleRun, events: Sequence[RuleEvent]) -> RuleReplay:
    steps = tuple(_steps(run, event) for event in events)
    slices = tuple(SliceView(_mark(each.last), each.seq, each.closing) for each in status_of(run))
    return RuleReplay(number, steps, slices, run.applies, run.unjudged)


def _steps(run: RuleRun, event: RuleEvent) -> RuleSteps:
    """Step the rule on the event and return the steps to show."""
    marks = [_mark(step) for step in run.step(event)]
    if run.unjudged == event.seq:
        return RuleSteps((SliceMark(None, Verdict.UNJUDGED, "", reported=True, moved=True),))
    marks.sort(key=lambda mark: (not mark.reported, not mark.moved))
    return RuleSteps(tuple(marks[:STEPS_AN_EVENT_MAX]), max(0, len(marks) - STEPS_AN_EVENT_MAX))


def _mark(slice_step: SliceStep) -> SliceMark:
    step = slice_step.step
    return SliceMark(slice_step.slice, step.verdict, step.residual, slice_step.is_reported, step.is_changed)
