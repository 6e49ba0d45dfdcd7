"""Brackets without a partner, and strings and regular expressions without an end."""

from __future__ import annotations

from ...model.problem import Problem
from .rejected_text import OPENS, Lexeme, ParseFailure


def unclosed_brackets(failure: ParseFailure) -> Problem | None:
    """Check for a bracket without a partner."""
    here, opened = failure.here, failure.bracket
    is_closing = here.text in (")", "]")
    if is_closing and opened is None:
        hint = "leave it out, or add the opening bracket"
        return failure.problem("TRL105", f"unmatched `{here.text}`", hint)
    if opened is None:
        return None
    opening = failure.lexemes[opened]
    closing = OPENS[opening.text]
    if is_closing and closing != here.text:
        return failure.problem(
            "TRL104", f"unclosed `{opening.text}`", f"write `{closing}` before `{here.text}`", opening
        )
    if here.kind == "end" and not failure.expects_operand():
        return failure.problem(
            "TRL104", f"unclosed `{opening.text}`", f"add the closing `{closing}`", opening
        )
    return None


def unterminated(failure: ParseFailure) -> Problem | None:
    """Check for a string or regular expression without an end, or out of place."""
    here = failure.here
    if here.kind == "open":
        return failure.problem("TRL106", "unterminated string", 'end it with `"`; write `\\"` inside it')
    if here.text == "/" and failure.neighbour(-1).text == "matches":
        hint = "end it with `/`; write `\\/` for a slash inside it"
        whole = Lexeme("open", "", here.start, failure.lexemes[-1].end)
        return failure.problem("TRL106", "unterminated regular expression", hint, whole)
    if here.kind == "regex":
        message = "a regular expression is only allowed after `matches`"
        return failure.problem("TRL109", message, f"write `matches {here.text}`")
    return None
