"""Texts of symbols: all that a chain sees of an event."""

from __future__ import annotations

from collections.abc import Collection

OWN = "+own"
"""The end of the symbol of an event that carries the value of its slice."""

RARE = "rare:"
"""The beginning of a symbol that stands for all rare ones with the same letters."""

SYMBOLS_MAX = 512
"""Symbols of one rule; over that the rarest become one for each of their letters."""


def symbol_text(kind: str, true: Collection[str], unknown: Collection[str]) -> str:
    """Return the symbol of an event of that kind with these true and unknown propositions of its pack."""
    names = [(name, name) for name in true] + [(name, f"{name}?") for name in unknown]
    return f"{kind}:" + ",".join(text for _, text in sorted(names))


def of_slice(symbol: str, is_own: bool) -> str:
    """Return the symbol of an event in a slice's sequence; `is_own` is true where it carries the value."""
    return symbol + OWN if is_own else symbol
