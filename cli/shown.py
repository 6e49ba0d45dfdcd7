"""Text from telemetry, files and rules as it may be shown: nothing in it steers a terminal or hides."""

from __future__ import annotations

import unicodedata

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that move a cursor, turn the writing direction, or cannot be seen."""


def clean(text: str, width: int | None = None) -> str:
    """The text with each hidden character replaced by U+FFFD, and cut to `width` characters."""
    shown = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in HIDDEN else c for c in text)
    return shown if width is None or len(shown) <= width else f"{shown[: width - 1]}…"
