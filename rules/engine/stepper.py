"""The stepper: machines stepped in Python, one event at a time, to show how a verdict came about.

The kernel judges many sessions at once. Monitors, witnesses, pack examples and the console's replay follow
one session, and step with this module. It imports no NumPy, so commands that only step start fast.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from ...schemas.verdict import Verdict
from ..model.machine import APPLIES, PENDING, SATISFIED, VERDICT_MASK, VERDICTS, VIOLATED, Machine


class MachineStep(NamedTuple):
    """The effect of one event on one run of a machine.

    `is_recorded` is true where the event decided the run, false where a final state repeats its verdict.
    `residual` is what the coming events must satisfy, `true` or `false` where the verdict is final here.
    `is_changed` is true where the event decided the run or changed its residual.
    """

    verdict: Verdict
    is_recorded: bool
    residual: str
    is_changed: bool
    applies: bool


@dataclass(slots=True)
class MachineRun:
    """A machine in its state after some events of a session, or of one slice of it."""

    machine: Machine
    state: int = 0

    def step(self, true: Collection[str]) -> MachineStep:
        """Step on an event at which just these propositions are true; unknown names are ignored."""
        return self.step_letter(self.machine.letters[self.machine.word(true)])

    def step_letter(self, letter: int) -> MachineStep:
        """Step on an event with this letter of the machine."""
        machine, before = self.machine, self.residual
        output = machine.output[self.state][letter]
        self.state = machine.next[self.state][letter]
        code = output & VERDICT_MASK
        verdict, residual, is_recorded = VERDICTS[code], self.residual, code in (VIOLATED, SATISFIED)
        is_changed = is_recorded or residual != before
        if code != PENDING:
            residual = "false" if verdict is Verdict.VIOLATED else "true"
        return MachineStep(verdict, is_recorded, residual, is_changed, bool(output & APPLIES))

    @property
    def residual(self) -> str:
        """Return what the coming events must satisfy, as text; after a restart, the formula itself."""
        return self.machine.residual[self.state]

    @property
    def closing(self) -> Verdict | None:
        """Return the finite-trace reading if the session ended here; None where no instance is pending."""
        return self.machine.closing[self.state]


class RuleEvent(NamedTuple):
    """One event of a session as one rule reads it: its letter, and the slice value that it carries.

    `is_value_unknown` is true where the event may carry a value that cannot be read.
    """

    seq: int
    letter: int
    value: str | None = None
    is_value_unknown: bool = False


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
    `unjudged` that of the event from which on it cannot judge; None where there is none.
    """

    machine: Machine
    skip: int
    unknown: int
    is_sliced: bool
    slices_max: int
    applies: int | None = None
    unjudged: int | None = None
    valueless: SliceRun = field(init=False)
    slices: dict[str, SliceRun] = field(default_factory=dict[str, SliceRun])

    def __post_init__(self) -> None:
        self.valueless = SliceRun(MachineRun(self.machine))

    def step(self, event: RuleEvent) -> list[SliceStep]:
        """Step on an event and return a step for each slice that it belongs to.

        Return none where the rule does not see the event, is unjudged already, or becomes unjudged here.
        """
        if event.letter == self.skip or self.unjudged is not None:
            return []
        value = event.value
        is_new = value is not None and value not in self.slices
        has_room = not is_new or len(self.slices) < self.slices_max
        if event.letter == self.unknown or event.is_value_unknown or not has_room:
            self.unjudged = event.seq
            return []
        if value is None:
            runs = [(None, self.valueless), *self.slices.items()]
        else:
            # A slice begins in the state that the events without a value have led to.
            state = self.valueless.machine_run.state
            runs = [(value, self.slices.setdefault(value, SliceRun(MachineRun(self.machine, state))))]
        return [self._step_slice(event, name, run) for name, run in runs]

    def _step_slice(self, event: RuleEvent, name: str | None, run: SliceRun) -> SliceStep:
        step = run.machine_run.step_letter(event.letter)
        if step.applies and self.applies is None:
            self.applies = event.seq
        # The run without a value reports violations only, and those only until a slice begins.
        is_silent = name is None and (
            bool(self.slices) or (self.is_sliced and step.verdict is Verdict.SATISFIED)
        )
        run.last, run.seq = SliceStep(name, step, step.is_recorded and not is_silent), event.seq
        return run.last
