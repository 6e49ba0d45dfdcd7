"""Losses of a rule when it restarts: open obligations, and parts that were already satisfied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce

from ...schemas.verdict import Recover, Verdict
from ..compiler.compile import compile_within
from ..compiler.limits import Work
from ..model.formula import FUTURE, Formula, Op, has_future, walk
from ..model.machine import PENDING, SATISFIED, STAYS_SATISFIED, VERDICT_MASK, VIOLATED, Machine
from ..model.printer import to_text
from ..model.problem import Location, Problem
from ..model.rule import Rule
from .product import StepResult, product_reaches
from .rewrites import without_restart

DUAL = {
    Op.ALWAYS: Op.EVENTUALLY,
    Op.EVENTUALLY: Op.ALWAYS,
    Op.NEXT: Op.WEAK_NEXT,
    Op.WEAK_NEXT: Op.NEXT,
}
"""not (op p)  =  dual (not p)"""


def restart_warnings(rule: Rule, machine: Machine, location: Location, work: Work) -> Iterator[Problem]:
    """Yield the warnings about the restarts of a rule."""
    if rule.recover is not Recover.NONE:
        pair = lost_obligations(rule.formula, rule.transitions, work)
        if pair is not None:
            lost, violated = map(to_text, pair)
            message = f"rule `{rule.id}` restarts after a violation and loses its open obligations"
            yield Problem("TRL504", message, f"split it into two rules: `{lost}` and `{violated}`", location)
    if rule.recover is Recover.BOTH and violable_after_satisfied(machine):
        message = f"rule `{rule.id}` restarts after it is satisfied and can then be violated"
        yield Problem("TRL505", message, without_restart(rule.formula), location)


def conjuncts(formula: Formula) -> tuple[Formula, ...]:
    """Split a formula into conjuncts: `always (p -> q and r)` has two."""
    return tuple(dict.fromkeys(_conjuncts(formula, True)))


def _conjuncts(formula: Formula, wanted: bool) -> Iterator[Formula]:
    """Yield the conjuncts of the formula, or with `wanted` false those of its negation."""
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
    """Yield the conjuncts of a disjunction, as implications whose right side is about the future."""
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
    """Return the negation, with `not` pushed inside the unary operators."""
    if formula.op is Op.NOT:
        return formula.args[0]
    if formula.op in DUAL:
        return replace(formula, op=DUAL[formula.op], args=(_negated(formula.args[0]),))
    return Formula(Op.NOT, (formula,))


def lost_obligations(
    formula: Formula, transitions: Mapping[str, Formula], work: Work
) -> tuple[Formula, Formula] | None:
    """Return a conjunct that loses something when another conjunct is violated, and that other one.

    It loses its open obligations or, if it was satisfied, must be satisfied again. Two conjuncts about a
    fixed number of first events lose nothing. Raises TooLarge if the search takes more than `work` allows.
    """
    found = conjuncts(formula)
    later = {(part.op, part.bounds) for part in found}
    if len(later) == 1 and found[0].op in (Op.NEXT, Op.WEAK_NEXT):
        # All conjuncts start later, and before that no conjunct is in its start state.
        inner = lost_obligations(_all(part.args[0] for part in found), transitions, work)
        return None if inner is None else (_later(found[0], inner[0]), _later(found[0], inner[1]))
    if len(found) == 1:
        return None
    machines = [(part, compile_within(work, part, transitions)) for part in found]
    violable = [(part, machine) for part, machine in machines if _has(machine, VIOLATED)]
    for lost, left in machines:
        for violated, right in violable:
            fixed = _is_anchored(lost) and _is_anchored(violated)
            if lost != violated and not fixed and _loses(left, right, work):
                return lost, violated
    return None


def _later(model: Formula, part: Formula) -> Formula:
    return replace(model, args=(part,))


def _all(formulas: Iterator[Formula]) -> Formula:
    return reduce(lambda left, right: Formula(Op.AND, (left, right)), formulas)


def _is_anchored(formula: Formula) -> bool:
    """Return whether a formula only depends on a fixed number of first events."""
    return not any(
        node.op in FUTURE and node.op not in (Op.NEXT, Op.WEAK_NEXT) and node.bounds is None
        for node in walk(formula)
    )


def violable_after_satisfied(machine: Machine) -> bool:
    """Return whether a rule can be violated or unmet after it was satisfied."""
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
    """Return the states that are reachable from these, with these."""
    found, todo = set(starts), list(starts)
    while todo:
        new = set(machine.next[todo.pop()]) - found
        found |= new
        todo += new
    return found


def _has(machine: Machine, verdict: int) -> bool:
    return any(output & VERDICT_MASK == verdict for row in machine.output for output in row)


def _loses(left: Machine, right: Machine, work: Work) -> bool:
    """Return whether the right machine can be violated when the left one is not in its start state."""
    if not _has(left, VIOLATED) and Verdict.UNMET not in left.closing:
        return False

    def found(lost: StepResult, violated: StepResult) -> bool:
        verdict = lost[1] & VERDICT_MASK
        has_obligations = verdict == PENDING and left.residual[lost[0]] != left.residual[0]
        was_done = verdict in (SATISFIED, STAYS_SATISFIED)
        return violated[1] & VERDICT_MASK == VIOLATED and (has_obligations or was_done)

    def goes_on(lost: StepResult, violated: StepResult) -> bool:
        return lost[1] & VERDICT_MASK != VIOLATED and violated[1] & VERDICT_MASK == PENDING

    return product_reaches(left, right, found, work, goes_on)
