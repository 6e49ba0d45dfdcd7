"""A session told again: what every rule said, and still asked, after each of its events.

The verdicts are in the store; this shows the way to them. Labels come from the labeler, letters from the
kernel's table, and the machines are stepped here one event at a time, slices included, as in
`rules/reference/slow_stepper.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...rules.engine.judge import CompiledRules, label_columns
from ...rules.engine.kernel import SLICES_MAX
from ...rules.engine.letters import LabelWords, letters
from ...rules.model.machine import APPLIES, PENDING, SATISFIED, VERDICT_MASK, VERDICTS, VIOLATED, Machine
from ...schemas.event import Event
from ...schemas.frames.events import event_frame
from ...schemas.verdict import Verdict

EVENTS_REPLAYED_MAX = 1_000
"""Events of an occurrence that are told again; what comes after is shown without the rules."""
MARKS_AN_EVENT_MAX = 8
"""Marks of one rule at one event: an event without a value steps every slice."""


@dataclass(frozen=True, slots=True)
class Mark:
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
class Marks:
    """The marks of one rule at one event, those first that say something new; `more` are left out."""

    shown: tuple[Mark, ...] = ()
    more: int = 0

    @property
    def is_news(self) -> bool:
        """Return whether the event changed anything for the rule."""
        return any(mark.reported or mark.moved for mark in self.shown)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a slice of a rule stands: its last mark, the event of it, and what an end would read there."""

    mark: Mark
    seq: int
    closing: Verdict | None


@dataclass(frozen=True, slots=True)
class Course:
    """One rule over the events: its marks at each, and where it stands after the last, slice by slice.

    `number` is the rule's in the rule set. `applies` is the `seq` of the event at which the rule first
    applied, `unjudged` that of the event from which on it could not judge; None where there is none.
    """

    number: int
    marks: tuple[Marks, ...]
    standings: tuple[Standing, ...]
    applies: int | None
    unjudged: int | None


def replay(compiled: CompiledRules, events: Sequence[Event]) -> tuple[Course, ...]:
    """The course of every rule, as the set has them, over an occurrence's first events in judged order."""
    if not events:
        return tuple(Course(number, (), (), None, None) for number in range(len(compiled.rules)))
    program = compiled.program
    told = compiled.labeler.label_few(event_frame(events), ["seq"]).select(label_columns(compiled))
    words = LabelWords(_bits(told, "t", compiled.labeler.words), _bits(told, "u", compiled.labeler.words))
    table = letters(program, compiled.rules, compiled.machines, compiled.propositions, words)
    courses: list[Course] = []
    for column, number in enumerate(cast("list[int]", program.order.tolist())):
        key = int(program.groups[column])
        run = _Run(
            compiled.machines[number],
            int(program.skip[column]),
            int(program.unknown[column]),
            sliced=key >= 0,
        )
        values: list[str | None] = told[f"s{key}"].to_list() if run.sliced else [None] * len(events)
        unsaid: list[bool] = told[f"su{key}"].to_list() if run.sliced else [False] * len(events)
        met = zip(cast("list[int]", table[:, column].tolist()), values, unsaid, strict=True)
        for event, (letter, value, open_) in zip(events, met, strict=True):
            run.meet(event.seq, letter, value, open_)
        courses.append(run.course(number))
    return tuple(sorted(courses, key=lambda course: course.number))


def _bits(told: pl.DataFrame, letter: str, words: int) -> NDArray[np.uint64]:
    """The words of a letter, a row per event."""
    if not words:
        return np.empty((told.height, 0), dtype=np.uint64)
    return told.select(f"{letter}{word}" for word in range(words)).to_numpy()


@dataclass(slots=True)
class _Instance:
    """One run of the machine over the events of one slice, and its last mark."""

    state: int = 0
    mark: Mark | None = None
    seq: int = 0


@dataclass(slots=True)
class _Run:
    """One rule over one session, event by event."""

    machine: Machine
    skip: int
    unknown: int
    sliced: bool
    valueless: _Instance = field(default_factory=_Instance)
    slices: dict[str, _Instance] = field(default_factory=dict[str, _Instance])
    marks: list[Marks] = field(default_factory=list[Marks])
    applies: int | None = None
    unjudged: int | None = None

    def meet(self, seq: int, letter: int, value: str | None, unsaid: bool) -> None:
        """Step on the event."""
        if letter == self.skip or self.unjudged is not None:
            self.marks.append(Marks())
            return
        crowded = value is not None and value not in self.slices and len(self.slices) == SLICES_MAX
        if letter == self.unknown or unsaid or crowded:
            self.unjudged = seq
            self.marks.append(Marks((Mark(None, Verdict.UNJUDGED, "", reported=True, moved=True),)))
            return
        if value is None:
            runs = [(None, self.valueless), *self.slices.items()]
        else:
            runs = [(value, self.slices.setdefault(value, _Instance(self.valueless.state)))]
        marks = [self._step(seq, letter, name, run) for name, run in runs]
        marks.sort(key=lambda mark: (not mark.reported, not mark.moved))
        self.marks.append(Marks(tuple(marks[:MARKS_AN_EVENT_MAX]), max(0, len(marks) - MARKS_AN_EVENT_MAX)))

    def _step(self, seq: int, letter: int, name: str | None, run: _Instance) -> Mark:
        before = self.machine.residual[run.state]
        output = self.machine.output[run.state][letter]
        run.state = self.machine.next[run.state][letter]
        if output & APPLIES and self.applies is None:
            self.applies = seq
        kind = output & VERDICT_MASK
        verdict, residual = VERDICTS[kind], self.machine.residual[run.state]
        silent = name is None and (bool(self.slices) or (self.sliced and kind == SATISFIED))
        run.seq = seq
        run.mark = Mark(
            slice=name,
            verdict=verdict,
            residual=residual if kind == PENDING else str(verdict is Verdict.SATISFIED).lower(),
            reported=kind in (VIOLATED, SATISFIED) and not silent,
            moved=kind in (VIOLATED, SATISFIED) or residual != before,
        )
        return run.mark

    def course(self, number: int) -> Course:
        """Return what was met, and where it stands."""
        ends = self.slices.values() if self.slices else (self.valueless,)
        standings = [Standing(run.mark, run.seq, self._closing(run)) for run in ends if run.mark is not None]
        standings.sort(key=lambda standing: -standing.seq)
        return Course(number, tuple(self.marks), tuple(standings), self.applies, self.unjudged)

    def _closing(self, run: _Instance) -> Verdict | None:
        if self.unjudged is not None or (self.sliced and run is self.valueless):
            return None
        return self.machine.closing[run.state]
