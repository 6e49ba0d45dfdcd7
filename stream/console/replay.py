"""The replay of a session: each rule's verdict and residual after each event.

The store has the verdicts; a replay shows how the rules came to them. Labels come from the labeler, letters
from the kernel's table, and this module steps the machines one event at a time, slices included, as
`rules/reference/stepper.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...rules.engine.judge import Statute, label_columns
from ...rules.engine.kernel import SLICES_MAX
from ...rules.engine.letters import Words, letters
from ...rules.model.machine import APPLIES, PENDING, SATISFIED, VERDICT_MASK, VERDICTS, VIOLATED, Machine
from ...schemas.event import Event
from ...schemas.frames.events import event_frame
from ...schemas.verdict import Verdict

EVENTS_REPLAYED_MAX = 1_000
"""Events of an occurrence that are replayed; later ones are shown without the rules."""
STEPS_AN_EVENT_MAX = 8
"""Steps of one rule at one event that are shown: an event without a value steps every slice."""


@dataclass(frozen=True, slots=True)
class SliceStep:
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

    shown: tuple[SliceStep, ...] = ()
    more: int = 0

    @property
    def is_change(self) -> bool:
        """Return whether the event changed anything for the rule."""
        return any(step.reported or step.moved for step in self.shown)


@dataclass(frozen=True, slots=True)
class SliceStatus:
    """The status of a slice: its last step, the event of that, and the verdict if the session ended there."""

    last: SliceStep
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
    slices: tuple[SliceStatus, ...]
    applies: int | None
    unjudged: int | None


def replay(statute: Statute, events: Sequence[Event]) -> tuple[RuleReplay, ...]:
    """Return the replay of every rule, in the set's order, over an occurrence's first judged events."""
    if not events:
        return tuple(RuleReplay(number, (), (), None, None) for number in range(len(statute.rules)))
    program = statute.program
    labels = statute.labeler.label_few(event_frame(events), ["seq"]).select(label_columns(statute))
    words = Words(_bits(labels, "t", statute.labeler.words), _bits(labels, "u", statute.labeler.words))
    table = letters(program, statute.rules, statute.machines, statute.propositions, words)
    replays: list[RuleReplay] = []
    for column, number in enumerate(cast("list[int]", program.order.tolist())):
        key = int(program.groups[column])
        run = _RuleRun(
            statute.machines[number], int(program.skip[column]), int(program.unknown[column]), sliced=key >= 0
        )
        values: list[str | None] = labels[f"s{key}"].to_list() if run.sliced else [None] * len(events)
        unknown_value: list[bool] = labels[f"su{key}"].to_list() if run.sliced else [False] * len(events)
        inputs = zip(cast("list[int]", table[:, column].tolist()), values, unknown_value, strict=True)
        for event, (letter, value, open_) in zip(events, inputs, strict=True):
            run.step(event.seq, letter, value, open_)
        replays.append(run.replay(number))
    return tuple(sorted(replays, key=lambda replay: replay.number))


def _bits(labels: pl.DataFrame, letter: str, words: int) -> NDArray[np.uint64]:
    """Return the label words of one kind, a row per event."""
    if not words:
        return np.empty((labels.height, 0), dtype=np.uint64)
    return labels.select(f"{letter}{word}" for word in range(words)).to_numpy()


@dataclass(slots=True)
class _SliceRun:
    """The run of the machine over the events of one slice, and its last step."""

    state: int = 0
    last: SliceStep | None = None
    seq: int = 0


@dataclass(slots=True)
class _RuleRun:
    """The run of one rule over one session."""

    machine: Machine
    skip: int
    unknown: int
    sliced: bool
    valueless: _SliceRun = field(default_factory=_SliceRun)
    slices: dict[str, _SliceRun] = field(default_factory=dict[str, _SliceRun])
    steps: list[RuleSteps] = field(default_factory=list[RuleSteps])
    applies: int | None = None
    unjudged: int | None = None

    def step(self, seq: int, letter: int, value: str | None, unknown_value: bool) -> None:
        """Step the rule at an event."""
        if letter == self.skip or self.unjudged is not None:
            self.steps.append(RuleSteps())
            return
        crowded = value is not None and value not in self.slices and len(self.slices) == SLICES_MAX
        if letter == self.unknown or unknown_value or crowded:
            self.unjudged = seq
            self.steps.append(RuleSteps((SliceStep(None, Verdict.UNJUDGED, "", reported=True, moved=True),)))
            return
        if value is None:
            runs = [(None, self.valueless), *self.slices.items()]
        else:
            runs = [(value, self.slices.setdefault(value, _SliceRun(self.valueless.state)))]
        steps = [self._step(seq, letter, name, run) for name, run in runs]
        steps.sort(key=lambda step: (not step.reported, not step.moved))
        self.steps.append(
            RuleSteps(tuple(steps[:STEPS_AN_EVENT_MAX]), max(0, len(steps) - STEPS_AN_EVENT_MAX))
        )

    def _step(self, seq: int, letter: int, name: str | None, run: _SliceRun) -> SliceStep:
        before = self.machine.residual[run.state]
        output = self.machine.output[run.state][letter]
        run.state = self.machine.next[run.state][letter]
        if output & APPLIES and self.applies is None:
            self.applies = seq
        kind = output & VERDICT_MASK
        verdict, residual = VERDICTS[kind], self.machine.residual[run.state]
        silent = name is None and (bool(self.slices) or (self.sliced and kind == SATISFIED))
        run.seq = seq
        run.last = SliceStep(
            slice=name,
            verdict=verdict,
            residual=residual if kind == PENDING else str(verdict is Verdict.SATISFIED).lower(),
            reported=kind in (VIOLATED, SATISFIED) and not silent,
            moved=kind in (VIOLATED, SATISFIED) or residual != before,
        )
        return run.last

    def replay(self, number: int) -> RuleReplay:
        """Return the replay up to the last event."""
        ends = self.slices.values() if self.slices else (self.valueless,)
        slices = [SliceStatus(run.last, run.seq, self._closing(run)) for run in ends if run.last is not None]
        slices.sort(key=lambda status: -status.seq)
        return RuleReplay(number, tuple(self.steps), tuple(slices), self.applies, self.unjudged)

    def _closing(self, run: _SliceRun) -> Verdict | None:
        if self.unjudged is not None or (self.sliced and run is self.valueless):
            return None
        return self.machine.closing[run.state]
