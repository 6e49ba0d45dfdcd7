"""The modules of Rule Status Assessment as the paper writes them: sets of steps, for each start again.

Brindise and Langbort, Tables II and III. In the paper's release the condition that lasts comes first; in the
rule language it comes second. The paper has no past operators, no weak next and no bounds; these follow the
design's words: what is settled at the start is active and satisfied there alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tracline.rules.model.formula import PAST, Formula, Op
from tracline.rules.reference.ltl3 import Label
from tracline.rules.reference.semantics import holds

NO_BITS: Mapping[str, Formula] = {}


class Timesets(NamedTuple):
    """The steps at which a formula has each status, on the trace from one start."""

    active: frozenset[int]
    satisfied: frozenset[int]
    inactive: frozenset[int]
    violated: frozenset[int]


class Modules:
    """The modules over one trace; steps count from 1."""

    def __init__(self, trace: Sequence[Label], transitions: Mapping[str, Formula] = NO_BITS) -> None:
        self._trace, self._transitions = trace, transitions
        self._known: dict[tuple[Formula, int], Timesets] = {}

    def timesets(self, formula: Formula, t0: int) -> Timesets:
        """Return the timesets of a formula from a start."""
        key = formula, t0
        if key not in self._known:
            self._known[key] = self._module(formula, t0)
        return self._known[key]

    def _holds(self, formula: Formula, t0: int) -> bool:
        return not self.timesets(formula, t0).violated

    def _active(self, t0: int, last: int) -> Timesets:
        every = frozenset(range(t0, len(self._trace) + 1))
        active = frozenset(range(t0, last + 1))
        return Timesets(active, frozenset({last}) & active, every - active, frozenset())

    def _violated(self, t0: int) -> Timesets:
        none = frozenset[int]()
        return Timesets(none, none, none, frozenset(range(t0, len(self._trace) + 1)))

    def _at_once(self, true: bool, t0: int) -> Timesets:
        return self._active(t0, t0) if true else self._violated(t0)

    def _module(self, formula: Formula, t0: int) -> Timesets:
        end, args = len(self._trace), formula.args
        if formula.op in PAST or formula.op is Op.PROP:
            return self._at_once(holds(formula, self._trace, t0, self._transitions), t0)
        match formula.op:
            case Op.TRUE | Op.FALSE:
                return self._at_once(formula.op is Op.TRUE, t0)
            case Op.NOT:
                return self._at_once(not self._holds(args[0], t0), t0)
            case Op.OR:
                return self._at_once(any(self._holds(arg, t0) for arg in args), t0)
            case Op.AND:
                return self._at_once(all(self._holds(arg, t0) for arg in args), t0)
            case Op.IFF:
                return self._at_once(self._holds(args[0], t0) is self._holds(args[1], t0), t0)
            case Op.IMPLIES:
                if not self._holds(args[0], t0):
                    return self._active(t0, t0 - 1)
                return self._at_once(self._holds(args[1], t0), t0)
            case Op.NEXT | Op.WEAK_NEXT | Op.EVENTUALLY | Op.ALWAYS:
                return self._window(formula, t0)
            case _:
                pass
        is_release = formula.op in (Op.RELEASE, Op.STRONG_RELEASE)
        first, second = (args[1], args[0]) if is_release else args
        for step in range(t0, end + 1):
            lasts, ends = self._holds(first, step), self._holds(second, step)
            if ends and (lasts or not is_release):
                return self._active(t0, step)
            if not lasts:
                return self._violated(t0)
        is_weak = formula.op in (Op.WEAK_UNTIL, Op.RELEASE)
        return self._active(t0, end) if is_weak else self._violated(t0)

    def _window(self, formula: Formula, t0: int) -> Timesets:
        end, (arg,) = len(self._trace), formula.args
        a, b = formula.bounds or ((1, 1) if formula.op in (Op.NEXT, Op.WEAK_NEXT) else (0, end))
        steps = range(t0 + a, min(t0 + b, end) + 1)
        if formula.op in (Op.NEXT, Op.EVENTUALLY):
            found = [step for step in steps if self._holds(arg, step)]
            return self._active(t0, found[0]) if found else self._violated(t0)
        if all(self._holds(arg, step) for step in steps):
            return self._active(t0, min(t0 + b, end))
        return self._violated(t0)
