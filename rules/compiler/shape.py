"""The shape of a rule: is it an invariant, and when does it apply to a session?"""

from __future__ import annotations

from collections.abc import Collection

from ..formula import TRUE, Formula, Op, has_future, has_past, names


def _body(formula: Formula) -> Formula:
    """The formula less one outermost unbounded `always` or `historically`."""
    wrapped = formula.op in (Op.ALWAYS, Op.HISTORICALLY) and formula.bounds is None
    return formula.args[0] if wrapped else formula


def invariant_body(formula: Formula, bits: Collection[str]) -> Formula | None:
    """What an invariant asks of every event, or None where the rule is an ordinary one.

    An invariant has a past operator (or a transition bit) and no future operator but at most one outermost
    unbounded `always`.
    """
    remembers = has_past(formula) or not names(formula).isdisjoint(bits)
    asks_future = has_future(
        formula.args[0] if formula.op is Op.ALWAYS and formula.bounds is None else formula
    )
    return _body(formula) if remembers and not asks_future else None


def antecedent(formula: Formula) -> Formula:
    """What makes a rule apply: the antecedent of its outermost implication, else `true` (the first event).

    Looked for under one outermost `always` or `historically`; an antecedent about the future does not count.
    """
    inner = _body(formula)
    return inner.args[0] if inner.op is Op.IMPLIES and not has_future(inner.args[0]) else TRUE
