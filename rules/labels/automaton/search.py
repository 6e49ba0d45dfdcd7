"""The search of a column of texts by automata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl

from ...model.arrays import U64, Mask
from .automaton import BEYOND_ASCII, Automata, Automaton
from .search_loop import search_texts


@dataclass(frozen=True, slots=True)
class AsciiMatches:
    """The matches of patterns by place, and the texts with characters beyond ASCII, which are not searched.

    A null matches nothing.
    """

    matches: dict[int, Mask]
    beyond_ascii: Mask


def search_ascii(automata: Automata, texts: pl.Series) -> AsciiMatches:
    """Search the texts for the patterns of automata, of which there is one at least."""
    # The oldest layout has the bytes of all texts one after another.
    column: Any = cast("Any", texts.to_arrow(compat_level=pl.CompatLevel.oldest()))
    _, bounds, data = column.buffers()
    bounds = np.frombuffer(bounds, np.int64)[column.offset : column.offset + len(texts) + 1]
    data = np.frombuffer(b"" if data is None else data, np.uint8)
    matches: dict[int, Mask] = {}
    beyond = np.zeros(len(texts), dtype=np.bool_)
    for automaton, places in automata.groups:
        bits = _bits(automaton, data, bounds)
        if texts.has_nulls():
            bits[texts.is_null().to_numpy()] = 0
        beyond = _has(bits, BEYOND_ASCII)
        matches.update((place, _has(bits, bit) & ~beyond) for bit, place in enumerate(places))
    return AsciiMatches(matches, beyond)


def _bits(automaton: Automaton, data: Any, bounds: Any) -> U64:
    """Return the bits of the patterns that match by text."""
    out = np.empty(len(bounds) - 1, dtype=np.uint64)
    found = automaton
    width, reporting = np.uint64(found.width), np.uint64(found.reporting)
    tables = found.classes, found.following, width, reporting, found.found, found.at_end
    search_texts(data, bounds, tables, out)
    return out


def _has(bits: U64, bit: int) -> Mask:
    return bits & np.uint64(1 << bit) != 0
