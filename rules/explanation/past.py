"""The events that a run of a rule saw before a verdict, and at which of them the rule's parts are true."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..model.arrays import Mask
from ..model.formula import BOOLEAN, PAST, Formula, Op, names
from ..model.rule import ExampleSession, Rule
from .rule_status import past_truth


@dataclass(frozen=True)
class RunPast:
    """The first events that a run of a rule saw, by `seq`, with the propositions that are true at each.

    It ends before the first event at which something that the rule reads was not captured.
    """

    rule: Rule
    seqs: Sequence[int]
    trace: ExampleSession

    def until(self, seq: int) -> RunPast | None:
        """Return the past of an event, with the event; None where something in it was not captured."""
        count = bisect_right(self.seqs, seq)
        if not count or self.seqs[count - 1] != seq:
            return None
        return RunPast(self.rule, self.seqs[:count], self.trace[:count])

    @cached_property
    def _basic(self) -> dict[Formula, Mask]:
        return past_truth(self.rule.formula, self.trace, self.rule.transitions)

    def truth(self, formula: Formula) -> Mask:
        """Return at which events a part of the rule without future operators is true."""
        if formula.op is Op.PROP or formula.op in PAST:
            return self._basic[formula]
        assert formula.op in BOOLEAN, formula
        args = [self.truth(arg) for arg in formula.args]
        match formula.op:
            case Op.NOT:
                return ~args[0]
            case Op.AND:
                return np.logical_and.reduce(args)
            case Op.OR:
                return np.logical_or.reduce(args)
            case Op.IMPLIES:
                return ~args[0] | args[1]
            case Op.IFF:
                return args[0] == args[1]
            case _:
                return np.full(len(self.seqs), formula.op is Op.TRUE)

    def last(self, formula: Formula, at: int) -> int | None:
        """Return the place of the last event up to place `at` at which the part is true, None for none."""
        found = np.flatnonzero(self.truth(formula)[: at + 1])
        return int(found[-1]) if len(found) else None

    def first_false(self, formula: Formula, after: int, at: int) -> int | None:
        """Return the place of the first event after `after`, up to `at`, at which the part is false."""
        found = np.flatnonzero(~self.truth(formula)[after + 1 : at + 1])
        return after + 1 + int(found[0]) if len(found) else None

    def names_at(self, formula: Formula, at: int) -> list[str]:
        """Return the propositions of a part that are true at an event."""
        return sorted(names(formula) & self.trace[at])
