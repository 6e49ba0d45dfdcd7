"""Rules whose verdict contradicts the finite-trace reading of the session up to that event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from ..model.problem import Location, Problem
from ..model.rule import Rule
from .product import PROPOSITIONS_MAX, StepResult, product_reaches
from .rewrites import past_form


def finite_trace_warnings(rule: Rule, location: Location, work: Work) -> Iterator[Problem]:
    """Yield a warning if a verdict of the rule contradicts its finite-trace reading."""
    if finite_trace_disagrees(rule.formula, rule.transitions, work):
        message = f"rule `{rule.id}` gets a verdict that would be the opposite if the session ended there"
        yield Problem("TRL507", message, past_form(rule.formula), location)


def finite_trace_disagrees(formula: Formula, transitions: Mapping[str, Formula], work: Work) -> bool:
    """Return whether some session's verdict over infinite traces contradicts its finite-trace reading.

    Both readings are machines: the rule's, and that of the rule translated to traces with an explicit end.
    Raises TooLarge if that machine is too large, or the search takes more than `work` allows.
    """
    if not _depends_on_position(formula, transitions):
        return False
    end = _end_name(formula, transitions)
    infinite = compile_within(work, formula, transitions)
    if len(infinite.propositions) > PROPOSITIONS_MAX:
        return False
    finite = compile_within(work, _with_end(formula, end), transitions)
    last = finite.word({end})

    def found(left: StepResult, right: StepResult) -> bool:
        verdict = left[1] & VERDICT_MASK
        return verdict != PENDING and _finite_verdict(finite, *right, last, work) == CONTRADICTING[verdict]

    return product_reaches(infinite, finite, found, work, never={end})


CONTRADICTING = {
    VIOLATED: SATISFIED,
    STAYS_VIOLATED: SATISFIED,
    SATISFIED: VIOLATED,
    STAYS_SATISFIED: VIOLATED,
}
"""The finite-trace reading that contradicts each verdict."""

FINAL = {SATISFIED: SATISFIED, STAYS_SATISFIED: SATISFIED, VIOLATED: VIOLATED, STAYS_VIOLATED: VIOLATED}


def _finite_verdict(machine: Machine, state: int, output: int, last: int, work: Work) -> int:
    """Return the verdict of the translated rule if only the end follows; an earlier verdict is final."""
    passed: set[int] = set()
    while output & VERDICT_MASK == PENDING and state not in passed:
        passed.add(state)
        state, output = machine.step(state, last)
    work.spend(len(passed))
    return FINAL.get(output & VERDICT_MASK, PENDING)


def _depends_on_position(formula: Formula, transitions: Mapping[str, Formula]) -> bool:
    """Return whether a formula distinguishes an event from its repetition.

    Any other formula has the same value if the last event repeats for ever, so its verdict never contradicts
    the finite-trace reading.
    """
    parts = list(walk(formula))
    stepped = any(node.op in STEPPED or node.bounds is not None for node in parts)
    return any(node.op in FUTURE for node in parts) and (
        stepped or not names(formula).isdisjoint(transitions)
    )


def _end_name(formula: Formula, transitions: Mapping[str, Formula]) -> str:
    """Return an unused name for the end."""
    taken = {*names(formula), *transitions}.union(*map(names, transitions.values()))
    return "~" * (1 + max((len(name) for name in taken), default=0))


def _with_end(formula: Formula, end: str) -> Formula:
    """Translate the finite-trace reading to infinite traces on which `end` holds after the last event.

    After De Giacomo and Vardi's translation of LTLf (2013), with every operator decided at the end.
    """

    def read(node: Formula) -> Formula:
        if node.op not in FUTURE:
            return replace(node, args=tuple(map(read, node.args))) if has_future(node) else node
        return _decided_at_end(node, [read(arg) for arg in node.args], end)

    return read(formula)


def _decided_at_end(node: Formula, args: Sequence[Formula], end: str) -> Formula:
    """Return a future operator over translated arguments, so that it is decided where `end` begins."""
    over, on = prop(end), Formula(Op.NOT, (prop(end),))
    strong = [_both(on, arg) for arg in args]
    weak = [_either(over, arg) for arg in args]
    match node.op:
        case Op.EVENTUALLY if node.bounds is None:
            return Formula(Op.UNTIL, (on, strong[0]))
        case Op.ALWAYS if node.bounds is None:
            return Formula(Op.WEAK_UNTIL, (args[0], over))
        case Op.NEXT | Op.EVENTUALLY:
            return replace(node, args=(strong[0],))
        case Op.WEAK_NEXT | Op.ALWAYS:
            return replace(node, args=(weak[0],))
        case Op.UNTIL:
            return Formula(Op.UNTIL, (strong[0], strong[1]))
        case Op.WEAK_UNTIL:
            return Formula(Op.WEAK_UNTIL, (strong[0], _either(over, args[1])))
        case Op.RELEASE:
            return Formula(Op.WEAK_UNTIL, (strong[1], _either(over, _both(args[0], args[1]))))
        case _:
            return Formula(Op.UNTIL, (strong[1], _both(strong[0], strong[1])))


def _both(a: Formula, b: Formula) -> Formula:
    return Formula(Op.AND, (a, b))


def _either(a: Formula, b: Formula) -> Formula:
    return Formula(Op.OR, (a, b))
