"""A monitor for one formula: step it, read what is left, close it."""

from __future__ import annotations

from collections.abc import Collection

from ...schemas.verdict import Recover, Verdict
from ..compiler.compile import compile_formula
from ..language.parse import parse_formula
from ..model.formula import Formula
from .stepper import MachineRun


class Monitor:
    """A monitor of one formula over one session, event by event (TRAC, Alg. 1 and 2).

    Every name in the formula is a proposition. With `recover="both"` the obligation restarts after a verdict
    (TRAC_R), with `"violation"` after violations only, with `"none"` never (TRAC).

    Raises:
        RuleError: the text is no formula, or its machine would be too large.
        ValueError: `recover` is none of the three words.
    """

    def __init__(self, formula: str | Formula, recover: str | Recover = Recover.BOTH) -> None:
        self.formula = parse_formula(formula) if isinstance(formula, str) else formula
        self.machine = compile_formula(self.formula, recover=Recover(recover))
        self._run = MachineRun(self.machine)

    def step(self, true: Collection[str]) -> Verdict:
        """Return the verdict after an event at which just these propositions are true.

        Names that the formula does not use are ignored.
        """
        assert not isinstance(true, str), "step takes a set of names, not a text"
        return self._run.step(true).verdict

    @property
    def residual(self) -> str:
        """Return what the coming events must satisfy, as text; after a restart, the formula itself."""
        return self._run.residual

    def close(self) -> Verdict | None:
        """Return the finite-trace reading if the session ended here; None where no instance is pending."""
        return self._run.closing
