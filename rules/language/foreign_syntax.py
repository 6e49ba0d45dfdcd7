"""What people write who know another language, and what this one writes for it."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

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
"""Signs of other languages, and what this one writes for them."""

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
"""Words of other languages, and what this one writes for them."""


def keyword_for(word: str, words: Collection[str]) -> str:
    """The word of this language that a foreign one stands for, or the empty string."""
    lower = word.casefold()
    if lower in words:
        return lower
    foreign = WORDS.get(lower, "")
    if foreign and (foreign.split()[0] in words or not foreign.isidentifier()):
        return foreign
    long = [each for each in words if len(each) > 2]
    swapped = [each for each in long if sorted(each) == sorted(lower)]
    near = swapped or get_close_matches(lower, long, n=1, cutoff=0.8)
    return near[0] if near else ""
