"""Operators and keywords of other languages, and their equivalents in this one."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from ...model.keywords import RESERVED
from ...model.problem import Problem
from .condition_phrases import PREDICATE
from .formula_phrases import FORMULA
from .list_phrases import LISTS
from .rejected_text import TEST_WORDS, ParseFailure

SIGNS = {
    **dict.fromkeys(("=", "===", ":=", "≡"), "=="),
    **dict.fromkeys(("=>", "==>", "-->", "--->", "→", "⇒", "⟶", "⟹"), "->"),
    **dict.fromkeys(("<=>", "<==>", "<-->", "↔", "⇔"), "<->"),
    **dict.fromkeys(("~", "¬"), "not"),
    **dict.fromkeys(("∧", "/\\", "^"), "and"),
    **dict.fromkeys(("∨", "\\/", "+"), "or"),
    **dict.fromkeys(("◇", "⋄", "♢", "<>"), "eventually"),
    **dict.fromkeys(("□", "◻", "[]"), "always"),
    **dict.fromkeys(("≠", "!=="), "!="),
    "≤": "<=",
    "≥": ">=",
    "=~": "matches",
    "!~": "not ... matches",
    "○": "next",
    "⊤": "true",
    "⊥": "false",
}
"""Operator signs of other languages, with the equivalent in this one."""

WORDS = {
    **dict.fromkeys(("globally", "henceforth", "forever"), "always"),
    **dict.fromkeys(("finally", "future", "sometime"), "eventually"),
    **dict.fromkeys(("prev", "yesterday", "before"), "previous"),
    "unless": "weak_until",
    "then": "->",
    "if": "p -> q",
    "xor": "not (p <-> q)",
    "nor": "not (p or q)",
    **dict.fromkeys(("like", "regex", "match", "matching"), "matches"),
    **dict.fromkeys(("equals", "eq"), "=="),
    **dict.fromkeys(("startswith", "starts_with", "begins"), "starts with"),
    **dict.fromkeys(("has", "includes", "contain"), "contains"),
    **dict.fromkeys(("none", "nil"), "null"),
}
"""Keywords of other languages, with the equivalent in this one."""


def keyword_for(word: str, words: Collection[str]) -> str:
    """Return the keyword among `words` that a foreign or misspelt word means, or an empty string."""
    lower = word.casefold()
    if lower in words:
        return lower
    equivalent = WORDS.get(lower, "")
    if equivalent and (equivalent.split()[0] in words or not equivalent.isidentifier()):
        return equivalent
    long = [keyword for keyword in words if len(keyword) > 2]
    swapped = [keyword for keyword in long if sorted(keyword) == sorted(lower)]
    near = swapped or get_close_matches(lower, long, n=1, cutoff=0.8)
    return near[0] if near else ""


def keyword_of_foreign_syntax(failure: ParseFailure) -> Problem | None:
    """Check for a misspelt, capitalised or foreign keyword, here or just before."""
    words = RESERVED if failure.start == "formula" else {"and", "or", "not", "true", "false"} | TEST_WORDS
    if failure.start not in ("formula", "predicate"):
        return None
    before = failure.neighbour(-1)
    for lexeme in (failure.here, before):
        if lexeme.kind != "word" or lexeme.text in words:
            continue
        if lexeme is before and failure.here.kind not in ("word", "string", "number", "regex"):
            continue
        keyword = keyword_for(lexeme.text, words)
        if keyword:
            return failure.problem("TRL107", f"unknown keyword `{lexeme.text}`", f"write `{keyword}`", lexeme)
    return None


def sign_of_foreign_syntax(failure: ParseFailure) -> Problem | None:
    """Check for an operator sign of another language."""
    here = failure.here
    sign = SIGNS.get(here.text, "")
    if here.text == "<>" and failure.start == "predicate":
        sign = "!="
    if not sign or (sign in ("next", "always", "eventually") and failure.start == "predicate"):
        return None
    return failure.problem("TRL107", f"unknown operator `{here.text}`", f"write `{sign}`")


PHRASES = {"formula": FORMULA, "predicate": (*LISTS, *PREDICATE)}
"""The phrases by the start symbol of the text."""


def phrase_of_foreign_syntax(failure: ParseFailure) -> Problem | None:
    """Check for a phrase of policies or other languages around the unexpected lexeme."""
    at = failure.here.start
    for phrase in PHRASES.get(failure.start, ()):
        for match in phrase.pattern.finditer(failure.snippet.text):
            if match.start() <= at <= match.end():
                hint = phrase.hint(match)
                if phrase.code != "TRL107":
                    return failure.problem(phrase.code, phrase.message, hint)
                return failure.snippet.problem(phrase.code, phrase.message, hint, *match.span())
    return None


def quotes_of_foreign_syntax(failure: ParseFailure) -> Problem | None:
    """Check for a string in the quotes of another language."""
    here = failure.here
    if here.kind == "open" and here.text[0] != '"':
        return failure.problem("TRL107", "curly quotes do not delimit a string", "use straight double quotes")
    if here.kind == "quoted":
        inner = here.text.strip("'‘’`")
        return failure.problem("TRL107", "strings are written in double quotes", f'write `"{inner}"`')
    return None
