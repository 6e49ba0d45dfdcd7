"""What a rule loses when it begins anew: obligations that were open, and what was fulfilled once for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce

from ...schemas.verdict import Verdict
from ..compiler.compile import compile_within
from ..compiler.limits import Work
from ..model.formula import FUTURE, Formula, Op, has_future, walk
from ..model.machine import PENDING, SATISFIED, STAYS_SATISFIED, VERDICT_MASK, VIOLATED, Machine
from .product import StepResult, product_reaches

DUAL = {
    Op.ALWAYS: Op.EVENTUALLY,
    Op.EVENTUALLY: Op.ALWAYS,
    Op.NEXT: Op.WEAK_NEXT,
    Op.WEAK_NEXT: Op.NEXT,
}
"""not (op p)  =  dual (not p)"""


def conjuncts(formula: Formula) -> tuple[Formula, ...]:
    """The formulas that must all hold where this one must: `always (p -> q and r)` is two."""
    return tuple(dict.fromkeys(_conjuncts(formula, True)))


def _conjuncts(formula: Formula, wanted: bool) -> Iterator[Formula]:
    """The parts of the formula, or with `wanted` false those of its negation."""
    match formula.op, wanted:
        case Op.NOT, _:
            yield from _conjuncts(formula.args[0], not wanted)
        case (Op.AND, True) | (Op.OR, False):
            for arg in formula.args:
                yield from _conjuncts(arg, wanted)
        case Op.IMPLIES, False:
            yield from _conjuncts(formula.args[0], True)
            yield from _conjuncts(formula.args[1], False)
        case (Op.ALWAYS, True) | (Op.EVENTUALLY, False):
            # always (a and b)  =  (always a) and (always b), with bounds as well
            for part in _conjuncts(formula.args[0], wanted):
                yield Formula(Op.ALWAYS, (part,), bounds=formula.bounds)
        case (Op.IMPLIES, True) | (Op.OR, True) | (Op.AND, False):
            yield from _disjunction_conjuncts(formula, wanted)
        case _:
            yield formula if wanted else _negated(formula)


def _disjunction_conjuncts(formula: Formula, wanted: bool) -> Iterator[Formula]:
    """The parts of a formula of which one side must hold, as implications of the side about the future."""
    # g -> a and b  =  (g -> a) and (g -> b)
    left, right = formula.args
    if formula.op is not Op.IMPLIES and has_future(left) and not has_future(right):
        left, right = right, left
    if has_future(left) or not has_future(right):
        yield formula if wanted else _negated(formula)
        return
    guard = _negated(left) if formula.op is Op.OR else left
    for part in _conjuncts(right, wanted):
        yield Formula(Op.IMPLIES, (guard, part))


def _negated(formula: Formula) -> Formula:
    """The negation, its `not` as far inside as the unary operators let it go."""
    if formula.op is Op.NOT:
        return formula.args[0]
    if formula.op in DUAL:
        return replace(formula, op=DUAL[formula.op], args=(_negated(formula.args[0]),))
    return Formula(Op.NOT, (formula,))


def lost_obligations(
    formula: Formula, transitions: Mapping[str, Formula], work: Work
) -> tuple[Formula, Formula] | None:
    """A part that loses something when another part is broken, and that other part.

    It loses the obligations that are open then, or, where it was satisfied, is asked for again. Two parts
    about a fixed number of first events lose nothing that would not end with them. Raises TooLarge where the
    search takes more than `work` allows.
    """
    found = conjuncts(formula)
    later = {(part.op, part.bounds) for part in found}
    if len(later) == 1 and found[0].op in (Op.NEXT, Op.WEAK_NEXT):
        # All begins later: what a part asks before that is not what it asks at its start.
        inner = lost_obligations(_all(part.args[0] for part in found), transitions, work)
        return None if inner is None else (_later(found[0], inner[0]), _later(found[0], inner[1]))
    if len(found) == 1:
        return None
    machines = [(part, compile_within(work, part, transitions)) for part in found]
    breakable = [(part, machine) for part, machine in machines if _has(machine, VIOLATED)]
    for kept, left in machines:
        for broken, right in breakable:
            fixed = _is_anchored(kept) and _is_anchored(broken)
            if kept != broken and not fixed and _loses(left, right, work):
                return kept, broken
    return None


def _later(model: Formula, part: Formula) -> Formula:
    return replace(model, args=(part,))


def _all(formulas: Iterator[Formula]) -> Formula:
    return reduce(lambda left, right: Formula(Op.AND, (left, right)), formulas)


def _is_anchored(formula: Formula) -> bool:
    """Return whether it speaks of a fixed number of events from the first."""
    return not any(
        node.op in FUTURE and node.op not in (Op.NEXT, Op.WEAK_NEXT) and node.bounds is None
        for node in walk(formula)
    )


def violable_after_satisfied(machine: Machine) -> bool:
    """Return whether the rule, once satisfied, can still be violated or end unmet."""
    starts = {
        target
        for targets, outputs in zip(machine.next, machine.output, strict=True)
        for target, output in zip(targets, outputs, strict=True)
        if output & VERDICT_MASK == SATISFIED
    }
    return any(
        machine.closing[state] is Verdict.UNMET
        or any(output & VERDICT_MASK == VIOLATED for output in machine.output[state])
        for state in _reachable_states(machine, starts)
    )


def _reachable_states(machine: Machine, starts: set[int]) -> set[int]:
    """The states that can be reached from these, themselves included."""
    found, todo = set(starts), list(starts)
    while todo:
        new = set(machine.next[todo.pop()]) - found
        found |= new
        todo += new
    return found


def _has(machine: Machine, verdict: int) -> bool:
    return any(output & VERDICT_MASK == verdict for row in machine.output for output in row)


def _loses(left: Machine, right: Machine, work: Work) -> bool:
    """Whether the right machine can be violated where the left one asks otherwise than at its start."""
    if not _has(left, VIOLATED) and Verdict.UNMET not in left.closing:
        return False

    def found(kept: StepResult, broken: StepResult) -> bool:
        verdict = kept[1] & VERDICT_MASK
        asks_more = verdict == PENDING and left.residual[kept[0]] != left.residual[0]
        was_done = verdict in (SATISFIED, STAYS_SATISFIED)
        return broken[1] & VERDICT_MASK == VIOLATED and (asks_more or was_done)

    def goes_on(kept: StepResult, broken: StepResult) -> bool:
        return kept[1] & VERDICT_MASK != VIOLATED and broken[1] & VERDICT_MASK == PENDING

    return product_reaches(left, right, found, work, goes_on)
