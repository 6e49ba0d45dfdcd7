"""Text made safe to show: no character moves a cursor, turns the writing direction or is hidden."""

from __future__ import annotations

import unicodedata

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that move a cursor, turn the writing direction, or cannot be seen."""


QUOTED_CHARS_MAX = 400
"""Characters of one message or name that an error or a table shows."""


def shortened(text: str, chars_max: int = QUOTED_CHARS_MAX) -> str:
    """Return the text, without its middle where it is too long."""
    if len(text) <= chars_max:
        return text
    last = chars_max // 3
    return f"{text[: chars_max - last - 1]}…{text[-last:]}"


def visible(text: str) -> str:
    """Return the text, one character for each: a tab is a space, any other hidden one U+FFFD."""
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    if unicodedata.category(char) not in HIDDEN:
        return char
    return " " if char == "\t" else "\N{REPLACEMENT CHARACTER}"
