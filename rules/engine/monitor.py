"""A monitor for one formula: step it, read what is left, close it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from ...schemas.verdict import Recover, Unknown, Verdict
from ..compiler.compile import compile_formula
from ..compiler.limits import FOLLOWED_STATES_MAX, cannot_follow
from ..language.parse import parse_formula
from ..model.completions import possible_letters
from ..model.formula import Formula
from .stepper import MachineRun


class Monitor:
    """A monitor of one formula over one session, event by event (TRAC, Alg. 1 and 2).

    Every name in the formula is a proposition. With `recover="both"` the obligation restarts after a verdict
    (TRAC_R), with `"violation"` after violations only, with `"none"` never (TRAC). With `unknown="follow"`
    the monitor follows every completion of what is unknown; with `"stop"` it is unjudged from there on.

    Raises:
        RuleError: the text is no formula, or its machine would be too large.
        ValueError: `recover` or `unknown` is none of its words.
    """

    def __init__(
        self,
        formula: str | Formula,
        recover: str | Recover = Recover.BOTH,
        unknown: str | Unknown = Unknown.FOLLOW,
    ) -> None:
        self.formula = parse_formula(formula) if isinstance(formula, str) else formula
        self.machine = compile_formula(self.formula, recover=Recover(recover))
        self.unknown = Unknown(unknown)
        self.possible: frozenset[Verdict] = frozenset()
        self._run, self._is_stopped = MachineRun(self.machine), False

    def step(self, true: Collection[str], unknown: Collection[str] = ()) -> Verdict:
        """Return the verdict after an event at which just these propositions are true.

        Those in `unknown` may be true or false. Names that the formula does not use are ignored. The verdict
        is that of all completions, `pending` where they differ; `possible` has the verdict of each. A monitor
        that stops returns `unjudged` from the first unknown proposition on.

        Raises:
            RuleError: something is unknown that the machine is too large to follow (TRL304).
        """
        assert not isinstance(true, str), "step takes a set of names, not a text"
        assert not isinstance(unknown, str), "`unknown` is a set of names, not a text"
        names = frozenset(self.machine.propositions)
        open_names = names & frozenset(unknown)
        holding = (names & frozenset(true)) - open_names
        self._is_stopped |= self.unknown is Unknown.STOP and bool(open_names)
        if self._is_stopped:
            self.possible = frozenset((Verdict.UNJUDGED,))
            return Verdict.UNJUDGED
        if open_names and len(self.machine.next) > FOLLOWED_STATES_MAX:
            raise cannot_follow("formula", len(self.machine.next))
        step = self._run.step_letters(possible_letters(self.machine, holding, open_names))
        self.possible = step.possible
        return step.verdict

    @property
    def residual(self) -> str:
        """Return what the coming events must satisfy, as text; after a restart, the formula itself.

        Where completions differ, the text has the residual of each.
        """
        return self._run.residual

    @property
    def broken(self) -> Literal["no", "possible", "certain"]:
        """Return whether the session has violated the formula: in no, in some or in all completions."""
        if not self._run.broken:
            return "no"
        return "possible" if self._run.unbroken else "certain"

    def close(self) -> Verdict | None:
        """Return the finite-trace reading if the session ended here; None where no instance is pending.

        It is `unjudged` where an unknown decides whether the formula is unmet, and of a stopped monitor.
        """
        return Verdict.UNJUDGED if self._is_stopped else self._run.closing
