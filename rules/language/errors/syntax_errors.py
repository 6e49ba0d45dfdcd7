"""Diagnosis of texts that the grammar rejects: the error, and what to write instead.

The parser only reports an unexpected token. `diagnose` looks at the text around it and runs one check after
the other; the first check that returns a problem wins.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model.keywords import BINARY, CONNECTIVES, RESERVED, TEMPORAL
from ...model.problem import Problem, Snippet
from .conditions_in_formulas import mixed_languages
from .foreign_syntax import (
    keyword_of_foreign_syntax,
    phrase_of_foreign_syntax,
    quotes_of_foreign_syntax,
    sign_of_foreign_syntax,
)
from .rejected_text import COMPARISONS, EXAMPLES, TEST_WORDS, ParseFailure, quoted, scan
from .reserved_words import reserved_word_problem
from .step_bounds import step_bounds
from .unclosed_brackets import unclosed_brackets, unterminated

_NOUNS = {"formula": "formula", "predicate": "condition", "path": "path step", "head": "parameter"}


def diagnose(snippet: Snippet, start: str, at: int | None) -> Problem:
    """Return the problem of a text that the grammar's `start` rejects at offset `at` (None: at the end)."""
    lexemes = scan(snippet.text)
    index = (
        len(lexemes) - 1
        if at is None
        else next(i for i, p in enumerate(lexemes) if at < p.end or p.kind == "end")
    )
    failure = ParseFailure(snippet, start, lexemes, index)
    for check in _CHECKS:
        problem = check(failure)
        if problem is not None:
            return problem
    return failure.problem("TRL109", f"unexpected {quoted(failure.here)}", EXAMPLES[start])


def empty_expression(snippet: Snippet, start: str) -> Problem:
    """Return the problem of an empty text."""
    return snippet.problem("TRL101", "the expression is empty", EXAMPLES[start], 0, 0)


def _non_ascii_name(failure: ParseFailure) -> Problem | None:
    """Check for a word with letters other than a to z."""
    if failure.here.kind != "word" or failure.here.text.isascii():
        return None
    hint = "write names with the letters a to z, digits and _"
    if failure.start in ("predicate", "path"):
        hint += f'; quote such a JSON key, `["{failure.here.text}"]`'
    return failure.problem("TRL108", f"invalid character in the name `{failure.here.text}`", hint)


def _reserved_in_head(failure: ParseFailure) -> Problem | None:
    """Check for a reserved word as an operator's name or parameter."""
    here = failure.here
    if failure.start == "head" and here.text in RESERVED:
        return reserved_word_problem(failure.snippet, here.text, here.start, here.end)
    return None


def _list(failure: ParseFailure) -> Problem | None:
    """Check for a malformed list of `in`."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.start != "predicate":
        return None
    if before.text == "in" and here.text not in ("[", "[]"):
        hint = 'write `tool in ["search", "refund"]`'
        return failure.problem("TRL109", "`in` requires a list in square brackets", hint)
    opened = failure.bracket
    if here.text == "[]" or (opened is not None and failure.lexemes[opened - 1].text == "in"):
        if here.text in ("]", "[]"):
            return failure.problem("TRL102", "missing value in the list", 'write `["search", "refund"]`')
        if here.kind in ("string", "number", "word") and before.kind in ("string", "number", "word"):
            return failure.problem("TRL103", "missing comma between two values", "write `,` between them")
    return None


def _condition(failure: ParseFailure) -> Problem | None:
    """Check for a condition whose parts are in the wrong order or form."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.start != "predicate":
        return None
    if before.kind == "regex":
        hint = "write `\\/` for a slash inside a regular expression"
        return failure.problem("TRL109", f"unexpected {quoted(here)} after a regular expression", hint)
    if before.text == "is" or (before.text == "not" and failure.neighbour(-2).text == "is"):
        hint = "write `is null`, `is not null`, `==` or `!=`"
        return failure.problem("TRL109", "`is` only tests for null", hint)
    if here.kind in ("string", "number") and (
        before.kind == "end" or before.text in ("and", "or", "not", "(", "&&", "||")
    ):
        return failure.problem("TRL109", "a condition starts with its field", 'write `kind == "user"`')
    if before.text == "starts":
        return failure.problem("TRL109", "missing `with` after `starts`", 'write `starts with "..."`')
    if before.text == "not" and here.text in TEST_WORDS - {"in", "null"}:
        hint = f"write `not` before the field: `not text {here.text} ...`"
        return failure.problem("TRL109", f"`not` is not allowed before `{here.text}`", hint, before)
    if here.text in COMPARISONS and failure.neighbour(-2).text in COMPARISONS:
        hint = "join two with `and`: `args.n > 1 and args.n < 9`"
        return failure.problem("TRL109", "comparisons cannot be chained", hint)
    if here.text == "(" and before.kind == "word" and before.text not in ("and", "or", "not"):
        hint = "write a comparison; a pattern such as /(?i)yes/ ignores case"
        return failure.problem("TRL109", f"unknown function `{before.text}`", hint, before)
    if here.kind in ("string", "number") and before.kind == "word":
        return failure.problem("TRL103", "missing comparison operator", f"write `==` before `{here.text}`")
    return None


def _path_step(failure: ParseFailure) -> Problem | None:
    """Check for a malformed step into JSON, or a hyphen in a name."""
    here, before = failure.here, failure.neighbour(-1)
    if here.text == "-" and before.kind == "word" and failure.neighbour(1).kind == "word":
        joined = f"{before.text}-{failure.neighbour(1).text}"
        if failure.start == "formula" or failure.start == "head":
            return failure.problem("TRL108", "a name has no hyphen", f"write `{joined.replace('-', '_')}`")
        return failure.problem("TRL108", "a key with a hyphen must be quoted", f'write `["{joined}"]`')
    if failure.start not in ("predicate", "path"):
        return None
    if before.text == "." and here.kind == "number":
        return failure.problem("TRL109", "an array index is written in brackets", f"write `[{here.text}]`")
    inside = failure.in_square_brackets_of
    if (inside and inside.text != "in") or before.text == "." or here.text in (".", "..", "[", "[]"):
        hint = 'write `.name`, `["odd key"]`, or `[0]` for the first element of an array'
        return failure.problem("TRL109", "invalid step into JSON", hint)
    return None


def _reserved_as_name(failure: ParseFailure) -> Problem | None:
    """Check for a reserved word that is probably meant as a name."""
    here, after = failure.here, failure.neighbour(1)
    if failure.start != "formula" or here.text not in BINARY or not failure.expects_operand():
        return None
    name_like = after.kind == "end" or after.text in CONNECTIVES | BINARY | {")", ","}
    return reserved_word_problem(failure.snippet, here.text, here.start, here.end) if name_like else None


def _missing_operand(failure: ParseFailure) -> Problem | None:
    """Check for an operator without an operand before or after it."""
    here, before = failure.here, failure.neighbour(-1)
    noun = "value" if before.text in COMPARISONS else _NOUNS[failure.start]
    if not failure.expects_operand() or here.kind not in ("end", "sign", "word"):
        return None
    ends_operand = CONNECTIVES | {")", "]", ",", "==", "!=", "<", "<=", ">", ">="}
    if here.kind == "sign" and here.text not in ends_operand:
        return None
    if before.text == "(" and here.text == ")":
        return failure.problem("TRL102", "empty parentheses", f"write a {noun} between them")
    if before.kind != "end" and before.text != "(":
        hint = f"write a {noun} after `{before.text}`"
        if before.text in TEMPORAL:
            hint += f"; `{before.text}` is a reserved word: if you mean a name, choose another"
        return failure.problem("TRL102", f"missing operand after `{before.text}`", hint, before)
    return failure.problem("TRL102", f"missing operand before {quoted(here)}", f"write a {noun} before it")


def _missing_operator(failure: ParseFailure) -> Problem | None:
    """Check for two operands side by side."""
    here, before = failure.here, failure.neighbour(-1)
    is_operand = here.kind in ("word", "string", "number") or here.text in ("(", "!")
    if failure.expects_operand() or not is_operand:
        return None
    if failure.start == "head":
        return failure.problem("TRL103", "missing comma between two parameters", EXAMPLES["head"])
    hint = "write `and`, `or` or `->` between them; a pack's operator is called as `name(p, q)`"
    if failure.start == "predicate":
        hint = "write `and` or `or` between them"
    return failure.problem("TRL103", f"missing operator between {quoted(before)} and {quoted(here)}", hint)


def _number(failure: ParseFailure) -> Problem | None:
    """Check for a number or a comma between formulas."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.start != "formula":
        return None
    if here.kind == "number":
        hint = "write `true` or `false`; numbers are only allowed in step bounds, `eventually[0,3] p`"
        return failure.problem("TRL109", "a number is not a formula", hint)
    if here.text == ",":
        hint = "write `and` or `or`; commas separate step bounds and the operands of a pack's operators"
        return failure.problem("TRL109", f"unexpected `,` after {quoted(before)}", hint)
    return None


def _stray(failure: ParseFailure) -> Problem | None:
    """Check for a character that the language never uses."""
    here = failure.here
    if here.kind == "sign" and here.text not in CONNECTIVES | {"(", ")", "[", "]", ",", "."}:
        hint = f"leave it out; {EXAMPLES[failure.start]}"
        return failure.problem("TRL108", f"unexpected character `{here.text}`", hint)
    return None


_CHECKS: tuple[Callable[[ParseFailure], Problem | None], ...] = (
    quotes_of_foreign_syntax,
    unterminated,
    _non_ascii_name,
    _reserved_in_head,
    phrase_of_foreign_syntax,
    step_bounds,
    _list,
    keyword_of_foreign_syntax,
    mixed_languages,
    sign_of_foreign_syntax,
    _condition,
    _path_step,
    unclosed_brackets,
    _reserved_as_name,
    _missing_operand,
    _missing_operator,
    _number,
    _stray,
)
"""The checks in their order: the most specific first."""
