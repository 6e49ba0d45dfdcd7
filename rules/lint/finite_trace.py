"""Where a rule is decided although the session, ended there, would read the other way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..compiler.compile import compile_within
from ..compiler.limits import Work
from ..model.formula import FUTURE, STEPPED, Formula, Op, has_future, names, prop, walk
from ..model.machine import (
    PENDING,
    SATISFIED,
    STAYS_SATISFIED,
    STAYS_VIOLATED,
    VERDICT_MASK,
    VIOLATED,
    Machine,
)
from .product import PROPOSITIONS_MAX, StepResult, product_reaches


def finite_trace_disagrees(formula: Formula, transitions: Mapping[str, Formula], work: Work) -> bool:
    """Whether some session is decided one way over infinite traces and reads the other way if it ends there.

    Both readings are machines: the rule's own, and one of the rule with an end written into it, which is
    given that end after every event. Raises TooLarge where
    that machine would be too large, or the search takes more than `work` allows.
    """
    if not _depends_on_position(formula, transitions):
        return False
    end = _end_name(formula, transitions)
    own = compile_within(work, formula, transitions)
    if len(own.propositions) > PROPOSITIONS_MAX:
        return False
    finite = compile_within(work, _with_end(formula, end), transitions)
    last = finite.word({end})

    def found(one: StepResult, two: StepResult) -> bool:
        verdict = one[1] & VERDICT_MASK
        return verdict != PENDING and _finite_verdict(finite, *two, last, work) == OTHER[verdict]

    return product_reaches(own, finite, found, work, never={end})


OTHER = {
    VIOLATED: SATISFIED,
    STAYS_VIOLATED: SATISFIED,
    SATISFIED: VIOLATED,
    STAYS_SATISFIED: VIOLATED,
}
"""What the finite reading contradicts a verdict with."""


FIRST = {SATISFIED: SATISFIED, STAYS_SATISFIED: SATISFIED, VIOLATED: VIOLATED, STAYS_VIOLATED: VIOLATED}


def _finite_verdict(machine: Machine, state: int, output: int, last: int, work: Work) -> int:
    """Return what the ended rule says when only the end follows; what it said before stays said."""
    passed: set[int] = set()
    while output & VERDICT_MASK == PENDING and state not in passed:
        passed.add(state)
        state, output = machine.step(state, last)
    work.spend(len(passed))
    return FIRST.get(output & VERDICT_MASK, PENDING)


def _depends_on_position(formula: Formula, transitions: Mapping[str, Formula]) -> bool:
    """Return whether it can tell an event from its repetition.

    What cannot reads a session as it reads the session with its last event repeated for ever, so it is
    never decided the other way.
    """
    parts = list(walk(formula))
    stepped = any(node.op in STEPPED or node.bounds is not None for node in parts)
    return any(node.op in FUTURE for node in parts) and (
        stepped or not names(formula).isdisjoint(transitions)
    )


def _end_name(formula: Formula, transitions: Mapping[str, Formula]) -> str:
    """A name for the end that nothing else has."""
    taken = {*names(formula), *transitions}.union(*map(names, transitions.values()))
    return "~" * (1 + max((len(name) for name in taken), default=0))


def _with_end(formula: Formula, end: str) -> Formula:
    """The finite reading, as a formula over endless traces on which `end` holds once events are over.

    Of De Giacomo and Vardi's translation of LTLf (2013), but with every operator decided at the end.
    """
    over, on = prop(end), Formula(Op.NOT, (prop(end),))

    def both(a: Formula, b: Formula) -> Formula:
        return Formula(Op.AND, (a, b))

    def either(a: Formula, b: Formula) -> Formula:
        return Formula(Op.OR, (a, b))

    def read(node: Formula) -> Formula:
        if node.op not in FUTURE:
            return replace(node, args=tuple(map(read, node.args))) if has_future(node) else node
        args = [read(arg) for arg in node.args]
        strong = [both(on, arg) for arg in args]
        weak = [either(over, arg) for arg in args]
        match node.op:
            case Op.NEXT:
                return replace(node, args=(strong[0],))
            case Op.WEAK_NEXT:
                return replace(node, args=(weak[0],))
            case Op.EVENTUALLY if node.bounds is None:
                return Formula(Op.UNTIL, (on, strong[0]))
            case Op.EVENTUALLY:
                return replace(node, args=(strong[0],))
            case Op.ALWAYS if node.bounds is None:
                return Formula(Op.WEAK_UNTIL, (args[0], over))
            case Op.ALWAYS:
                return replace(node, args=(weak[0],))
            case Op.UNTIL:
                return Formula(Op.UNTIL, (strong[0], strong[1]))
            case Op.WEAK_UNTIL:
                return Formula(Op.WEAK_UNTIL, (strong[0], either(over, args[1])))
            case Op.RELEASE:
                return Formula(Op.WEAK_UNTIL, (strong[1], either(over, both(args[0], args[1]))))
            case _:
                return Formula(Op.UNTIL, (strong[1], both(strong[0], strong[1])))

    return read(formula)
