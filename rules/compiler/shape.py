"""The shape of a rule: the body of an invariant, and the antecedent that makes a rule apply."""

from __future__ import annotations

from collections.abc import Collection

from ..model.formula import TRUE, Formula, Op, has_future, has_past, names


def invariant_body(formula: Formula, bits: Collection[str]) -> Formula | None:
    """Return the condition of an invariant on every event, or None where the rule is not an invariant.

    An invariant has a past operator (or a transition bit) and no future operator except at most one outermost
    unbounded `always`. Its body is the formula without an outermost unbounded `always` or `historically`.
    """
    wrapped = formula.op in (Op.ALWAYS, Op.HISTORICALLY) and formula.bounds is None
    body = formula.args[0] if wrapped else formula
    remembers = has_past(formula) or not names(formula).isdisjoint(bits)
    return body if remembers and not has_future(body) else None


def always_body(formula: Formula) -> Formula:
    """Return the formula without an outermost unbounded `always`."""
    return formula.args[0] if formula.op is Op.ALWAYS and formula.bounds is None else formula


def antecedent(formula: Formula) -> Formula:
    """Return the antecedent of the rule's outermost implication, else `true` (the rule applies at once).

    The implication may be under one outermost `always` or `historically`, with step bounds or without. An
    antecedent with future operators does not count.
    """
    inner = formula.args[0] if formula.op in (Op.ALWAYS, Op.HISTORICALLY) else formula
    return inner.args[0] if inner.op is Op.IMPLIES and not has_future(inner.args[0]) else TRUE
