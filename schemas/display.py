"""Text made safe to show: no character moves a cursor, turns the writing direction or is hidden."""

from __future__ import annotations

import unicodedata

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that move a cursor, turn the writing direction, or cannot be seen."""

QUOTED_CHARS_MAX = 400
"""Characters of one message or name that an error or a table shows."""


def shortened(text: str) -> str:
    """Return the text, without its middle where it is longer than `QUOTED_CHARS_MAX`."""
    if len(text) <= QUOTED_CHARS_MAX:
        return text
    last = QUOTED_CHARS_MAX // 3
    return f"{text[: QUOTED_CHARS_MAX - last - 1]}…{text[-last:]}"


def visible(text: str) -> str:
    """Return the text, one character for each: a tab is a space, any other hidden one U+FFFD."""
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    if unicodedata.category(char) not in HIDDEN:
        return char
    return " " if char == "\t" else "\N{REPLACEMENT CHARACTER}"
