"""Conditions on an event inside formulas, and temporal operators inside predicates."""

from __future__ import annotations

from ...model.keywords import TEMPORAL
from ...model.problem import Problem
from .rejected_text import COMPARISONS, TEST_WORDS, ParseFailure


def mixed_languages(failure: ParseFailure) -> Problem | None:
    """Check for a condition inside a formula, or a temporal operator inside a predicate."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.start == "formula":
        is_condition = here.text in COMPARISONS | TEST_WORDS or here.kind in ("string", "regex")
        if not is_condition and here.text != ".":
            return None
        hint = 'define it under `propositions:` (`asked: kind == "user"`) and use its name here'
        if here.text in ("=", "=="):
            hint += "; for `both or neither` write `<->`"
        return failure.problem("TRL114", "a condition on an event is not allowed in a formula", hint)
    if failure.start == "predicate":
        for lexeme in (here, before):
            arrow = lexeme.text in ("->", "<->", "implies", "iff")
            if lexeme.text in TEMPORAL or arrow:
                message = f"`{lexeme.text}` is only allowed in formulas"
                hint = "define this condition as a proposition and use the operator in a rule's `formula:`"
                return failure.problem("TRL114", message, "write `not p or q`" if arrow else hint, lexeme)
    return None
