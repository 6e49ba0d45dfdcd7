"""The shape of a rule: is it an invariant, and when does it apply to a session?"""

from __future__ import annotations

from collections.abc import Collection

from ..model.formula import TRUE, Formula, Op, has_future, has_past, names


def invariant_body(formula: Formula, bits: Collection[str]) -> Formula | None:
    """Return what an invariant asks of every event, or None where the rule is an ordinary one.

    An invariant has a past operator (or a transition bit) and no future operator but at most one outermost
    unbounded `always`. Its body is the formula less one outermost unbounded `always` or `historically`.
    """
    wrapped = formula.op in (Op.ALWAYS, Op.HISTORICALLY) and formula.bounds is None
    body = formula.args[0] if wrapped else formula
    remembers = has_past(formula) or not names(formula).isdisjoint(bits)
    return body if remembers and not has_future(body) else None


def antecedent(formula: Formula) -> Formula:
    """What makes a rule apply: the antecedent of its outermost implication, else `true` (the first event).

    Looked for under one outermost `always` or `historically`, with step bounds or without; an antecedent
    about the future does not count.
    """
    inner = formula.args[0] if formula.op in (Op.ALWAYS, Op.HISTORICALLY) else formula
    return inner.args[0] if inner.op is Op.IMPLIES and not has_future(inner.args[0]) else TRUE
