"""Malformed step bounds, and bounds on something that takes none."""

from __future__ import annotations

from ...model.formula import STEPPED, Op
from ...model.keywords import SPELLINGS, TEMPORAL
from ...model.problem import Problem
from .rejected_text import ParseFailure


def step_bounds(failure: ParseFailure) -> Problem | None:
    """Check for malformed step bounds, or bounds on something that takes none."""
    if failure.start != "formula":
        return None
    here, before = failure.here, failure.neighbour(-1)
    inside = failure.in_square_brackets_of
    if inside is None and here.text not in ("[", "[]", "{", "<", "<=", "^", "_"):
        return None
    operator = inside or before
    if operator.text in TEMPORAL:
        one_number = SPELLINGS[operator.text] in STEPPED | {Op.AT_MOST}
        form = f"{operator.text}[2]" if one_number else f"{operator.text}[0,3]"
        hint = f"write whole numbers from 0, such as `{form}`; for no upper bound, `next[2] eventually p`"
        return failure.problem("TRL110", f"invalid step bounds of `{operator.text}`", hint)
    if here.text == "[":
        hint = "write them after a temporal operator, such as `eventually[0,3] p`"
        return failure.problem("TRL112", f"`{before.text}` takes no step bounds", hint)
    return None
