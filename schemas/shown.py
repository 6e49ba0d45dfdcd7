"""Text as it may be shown: nothing in it moves a cursor, turns the writing direction or hides."""

from __future__ import annotations

import unicodedata

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that move a cursor, turn the writing direction, or cannot be seen."""


def visible(text: str) -> str:
    """The text, one character for each: a tab is a space, any other hidden one U+FFFD."""
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    if unicodedata.category(char) not in HIDDEN:
        return char
    return " " if char == "\t" else "\N{REPLACEMENT CHARACTER}"
