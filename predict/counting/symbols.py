"""Texts of symbols: all that a chain sees of an event."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

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


class SymbolParts(NamedTuple):
    """The parts of a symbol's text; a rare one has the text of its letters and no names."""

    true: frozenset[str]
    unknown: frozenset[str]
    is_own: bool
    letters: str | None


def symbol_parts(text: str) -> SymbolParts:
    """Return the parts of a symbol's text, as `symbol_text`, `of_slice` and `RARE` make it."""
    is_own = text.endswith(OWN)
    shared = text.removesuffix(OWN)
    if shared.startswith(RARE):
        return SymbolParts(frozenset(), frozenset(), is_own, shared.removeprefix(RARE))
    names = [name for name in shared.partition(":")[2].split(",") if name]
    unknown = frozenset(name.removesuffix("?") for name in names if name.endswith("?"))
    return SymbolParts(frozenset(name for name in names if name[-1] != "?"), unknown, is_own, None)
