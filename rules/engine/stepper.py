"""The stepper: machines stepped in Python, one event at a time, to show how a verdict came about.

The kernel judges many sessions at once. Monitors, witnesses, pack examples and the console's replay follow
one session, and step with this module. It imports no NumPy, so commands that only step start fast.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...schemas.verdict import Verdict
from ..model.machine import (
    APPLIES,
    PENDING,
    SATISFIED,
    STAYS_VIOLATED,
    VERDICT_MASK,
    VERDICTS,
    VIOLATED,
    Machine,
)


class MachineStep(NamedTuple):
    """The effect of one event on the runs of a machine.

    The verdict is that of all runs, `pending` where they differ; `possible` has the verdict of each.
    `is_recorded` is true where the event decided it, false where final states repeat it. `is_split` is true
    where some runs violate the rule here and some do not. `residual` is what the coming events must satisfy,
    `true` or `false` where the verdict is final here. `is_changed` is true where the event decided the runs
    or changed their residual. `applies` is true where the rule applies in all runs.
    """

    verdict: Verdict
    is_recorded: bool
    residual: str
    is_changed: bool
    applies: bool
    possible: frozenset[Verdict]
    is_split: bool


@dataclass(slots=True)
class MachineRun:
    """The runs of a machine over some events of a session, or of one slice of it.

    It is one run unless something was unknown; then it is every run that some completion of the unknown
    allows. The runs in the states `broken` have violated the rule, those in `unbroken` have not.
    """

    machine: Machine
    unbroken: frozenset[int] = frozenset((0,))
    broken: frozenset[int] = frozenset()

    def step(self, true: Collection[str]) -> MachineStep:
        """Step on an event at which just these propositions are true; unknown names are ignored."""
        return self.step_letters((self.machine.letters[self.machine.word(true)],))

    def step_letters(self, letters: Collection[int | None]) -> MachineStep:
        """Step on an event with one of these letters of the machine; the runs of None do not see it."""
        if len(letters) == 1 and len(self.broken) + len(self.unbroken) == 1:
            return self._step_single(next(iter(letters)))
        machine, before = self.machine, self.residual
        outputs: set[int] = set()
        broken, unbroken = set[int](), set[int]()
        for state in self.broken | self.unbroken:
            for letter in letters:
                output = PENDING if letter is None else machine.output[state][letter]
                target = state if letter is None else machine.next[state][letter]
                violates = VERDICTS[output & VERDICT_MASK] is Verdict.VIOLATED
                outputs.add(output)
                broken |= {target} if violates or state in self.broken else set()
                unbroken |= {target} if not violates and state in self.unbroken else set()
        self.broken, self.unbroken = frozenset(broken), frozenset(unbroken)
        possible = frozenset(VERDICTS[output & VERDICT_MASK] for output in outputs)
        verdict = next(iter(possible)) if len(possible) == 1 else Verdict.PENDING
        is_decided = any(output & VERDICT_MASK in (VIOLATED, SATISFIED) for output in outputs)
        is_recorded = verdict is not Verdict.PENDING and is_decided
        residual = self.residual
        is_changed = is_recorded or residual != before
        if verdict is not Verdict.PENDING:
            residual = "false" if verdict is Verdict.VIOLATED else "true"
        applies = all(output & APPLIES for output in outputs)
        is_split = Verdict.VIOLATED in possible and len(possible) > 1
        return MachineStep(verdict, is_recorded, residual, is_changed, applies, possible, is_split)

    def _step_single(self, letter: int | None) -> MachineStep:
        """Step the only run: the same as `step_letters` with one letter, which takes five times as long."""
        machine, was_broken = self.machine, bool(self.broken)
        (state,) = self.broken or self.unbroken
        output = PENDING if letter is None else machine.output[state][letter]
        target = state if letter is None else machine.next[state][letter]
        verdict = VERDICTS[output & VERDICT_MASK]
        if was_broken or verdict is Verdict.VIOLATED:
            self.broken, self.unbroken = frozenset((target,)), frozenset()
        else:
            self.unbroken = frozenset((target,))
        is_recorded = output & VERDICT_MASK in (VIOLATED, SATISFIED)
        residual = machine.residual[target]
        is_changed = is_recorded or residual != machine.residual[state]
        if verdict is not Verdict.PENDING:
            residual = "false" if verdict is Verdict.VIOLATED else "true"
        applies = bool(output & APPLIES)
        return MachineStep(
            verdict, is_recorded, residual, is_changed, applies, frozenset((verdict,)), is_split=False
        )

    @property
    def is_final(self) -> bool:
        """Return whether no coming event can have a verdict: the rule has stopped after one."""
        outputs = (output for state in self.broken | self.unbroken for output in self.machine.output[state])
        return all(output & VERDICT_MASK >= STAYS_VIOLATED for output in outputs)

    @property
    def residual(self) -> str:
        """Return what the coming events must satisfy, as text; after a restart, the formula itself.

        Where the runs have several residuals, the text has each.
        """
        texts = {self.machine.residual[state] for state in self.broken | self.unbroken}
        return " or else ".join(sorted(texts))

    @property
    def closing(self) -> Verdict | None:
        """Return the finite-trace reading if the session ended here; None where no instance is pending.

        It is `unjudged` where some runs would be unmet and some not, and None where the others differ.
        """
        found = {self.machine.closing[state] for state in self.broken | self.unbroken}
        if len(found) == 1:
            return next(iter(found))
        return Verdict.UNJUDGED if Verdict.UNMET in found else None


class RuleEvent(NamedTuple):
    """One event of a session as one rule reads it: its letter, and the slice value that it carries.

    An event that may have one of several letters has them as `possible`. `is_value_unknown` is true where the
    event may carry a value that cannot be read.
    """

    seq: int
    letter: int
    value: str | None = None
    is_value_unknown: bool = False
    possible: tuple[int, ...] = ()


class SliceStep(NamedTuple):
    """The step of one slice at one event; `slice` is None for the run of the events without a value.

    `is_reported` is true where the engine writes a verdict record for this event and slice.
    """

    slice: str | None
    step: MachineStep
    is_reported: bool


@dataclass(slots=True)
class SliceRun:
    """The run of one slice, its last step and the `seq` of that event."""

    machine_run: MachineRun
    last: SliceStep | None = None
    seq: int = 0


@dataclass(slots=True)
class RuleRun:
    """One rule over the events of one session, with a run of its machine for each slice.

    `skip` is the letter of an event that the rule does not see, `unknown` that of one it cannot judge; both
    are letters of the kernel's program. `applies` is the `seq` of the event at which the rule first applied,
    `unjudged` that of the event at which it became unjudged; None where there is none. A rule `is_stopped`
    where it judges no later event.
    """

    machine: Machine
    skip: int
    unknown: int
    is_sliced: bool
    slices_max: int
    applies: int | None = None
    unjudged: int | None = None
    is_stopped: bool = False
    valueless: SliceRun = field(init=False)
    slices: dict[str, SliceRun] = field(default_factory=dict[str, SliceRun])

    def __post_init__(self) -> None:
        self.valueless = SliceRun(MachineRun(self.machine))

    def step(self, event: RuleEvent) -> list[SliceStep]:
        """Step on an event and return a step for each slice that it belongs to.

        Return none where the rule does not see the event, has stopped already, or stops here.
        """
        if event.letter == self.skip or self.is_stopped:
            return []
        value = event.value
        is_new = value is not None and value not in self.slices
        has_room = not is_new or len(self.slices) < self.slices_max
        may_begin = is_new and self.skip in event.possible
        if event.letter == self.unknown or event.is_value_unknown or not has_room or may_begin:
            self._become_unjudged(event)
            self.is_stopped = True
            return []
        if value is None:
            runs = [(None, self.valueless), *self.slices.items()]
        else:
            # A slice begins in the state that the events without a value have led to.
            runs = [(value, self.slices.setdefault(value, SliceRun(replace(self.valueless.machine_run))))]
        return [self._step_slice(event, name, run) for name, run in runs]

    def _step_slice(self, event: RuleEvent, name: str | None, run: SliceRun) -> SliceStep:
        letters = event.possible or (event.letter,)
        step = run.machine_run.step_letters([None if each == self.skip else each for each in letters])
        if step.applies and self.applies is None:
            self.applies = event.seq
        # The run without a value reports violations only, and those only until a slice begins.
        is_silent = name is None and (
            bool(self.slices) or (self.is_sliced and step.verdict is Verdict.SATISFIED)
        )
        if step.is_split and not (name is None and self.slices):
            self._become_unjudged(event)
        run.last, run.seq = SliceStep(name, step, step.is_recorded and not is_silent), event.seq
        return run.last

    def _become_unjudged(self, event: RuleEvent) -> None:
        if self.unjudged is None:
            self.unjudged = event.seq
