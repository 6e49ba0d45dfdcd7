"""Rewrites of formulas that the hints of warnings suggest."""

from __future__ import annotations

from ..model.formula import FUTURE, STEPPED, Formula, Op, has_future, has_past, walk
from ..model.printer import to_text


def at_cause(body: Formula) -> str:
    """Return an invariant that is false only at the event that falsifies `body`, not at every later one."""
    match body:
        case Formula(Op.AT_MOST, (counted,)):
            return to_text(_always(Formula(Op.IMPLIES, (counted, body))))
        case Formula(Op.HISTORICALLY, (required,), _, None):
            return to_text(_always(required))
        case Formula(Op.NOT, (Formula(Op.ONCE, (banned,), _, None),)):
            return to_text(_always(Formula(Op.NOT, (banned,))))
        case _:
            return to_text(_always(Formula(Op.IMPLIES, (Formula(Op.WEAK_PREVIOUS, (body,)), body))))


def past_form(formula: Formula) -> str:
    """Return a hint to rewrite a formula that depends on the end of the session with past operators."""
    match formula:
        case Formula(Op.ALWAYS, (Formula(Op.IMPLIES, (last, end)),)) if _is_end(end):
            # last -> weak_next false  =  no event after one with last
            never_after = Formula(Op.NOT, (Formula(Op.PREVIOUS, (Formula(Op.ONCE, (last,)),)),))
            return f"use past operators: `{to_text(_always(never_after))}`"
        case _:
            ahead = [part for part in walk(formula) if part.op in FUTURE]
            first = min(ahead, key=lambda part: part.op not in STEPPED and part.bounds is None)
            reason = f"`{to_text(first)}` depends on whether the session goes on"
            return f"{reason}: use past operators at the later event"


def _is_end(formula: Formula) -> bool:
    """Return whether a formula is `weak_next false` or `not next p`."""
    match formula:
        case Formula(Op.WEAK_NEXT, (Formula(Op.FALSE),)) | Formula(Op.NOT, (Formula(Op.NEXT),)):
            return True
        case _:
            return False


def without_restart(formula: Formula) -> str:
    """Return a hint to check a formula once, or at every event."""
    if not (has_future(formula) or has_past(formula)):
        return f"write `{to_text(_always(formula))}` for every event, or `recover: none` for the first"
    once = "write `recover: violation` to keep it satisfied"
    match formula:
        case Formula(Op.UNTIL | Op.WEAK_UNTIL, (Formula(Op.NOT, (early,)), first)) if not (
            has_future(early) or has_future(first)
        ):
            every = _always(Formula(Op.IMPLIES, (early, Formula(Op.ONCE, (first,)))))
        case Formula(Op.IMPLIES, (antecedent, _)) if not has_future(antecedent):
            every = _always(formula)
        case _:
            return once
    return f"{once}, or check every event: `{to_text(every)}`"


def _always(formula: Formula) -> Formula:
    return Formula(Op.ALWAYS, (formula,))
