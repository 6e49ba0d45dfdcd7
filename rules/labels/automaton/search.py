"""The search of a column of texts by automata."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ....schemas.frames.text_views import TextViews, text_views
from ...model.arrays import I64, U64, Mask
from .automaton import BEYOND_ASCII, Automata, Automaton
from .search_loop import LENGTHS, order_by_length, search_texts


@dataclass(frozen=True, slots=True)
class AsciiMatches:
    """The matches of patterns by place, and the texts with characters beyond ASCII, which are not searched.

    A null matches nothing.
    """

    matches: dict[int, Mask]
    beyond_ascii: Mask


def search_ascii(automata: Automata, texts: pl.Series) -> AsciiMatches:
    """Search the texts for the patterns of automata, of which there is one at least, as of the texts."""
    views = text_views(texts)
    order = np.empty(len(texts), dtype=np.int64)
    order_by_length(views.begins, views.ends, np.zeros(LENGTHS, dtype=np.int64), order)
    nulls = texts.is_null().to_numpy() if texts.has_nulls() else None
    matches: dict[int, Mask] = {}
    beyond = np.zeros(len(texts), dtype=np.bool_)
    for automaton, places in automata.groups:
        bits = _bits(automaton, views, order)
        if nulls is not None:
            bits[nulls] = 0
        beyond = _has(bits, BEYOND_ASCII)
        matches.update((place, _has(bits, bit) & ~beyond) for bit, place in enumerate(places))
    return AsciiMatches(matches, beyond)


def _bits(automaton: Automaton, texts: TextViews, order: I64) -> U64:
    """Return the bits of the patterns that match by text."""
    out = np.empty(len(texts.begins), dtype=np.uint64)
    width, reporting = np.uint64(automaton.width), np.uint64(automaton.reporting)
    tables = automaton.classes, automaton.following, width, reporting, automaton.found, automaton.at_end
    search_texts(texts.data, texts.begins, texts.ends, order, tables, out)
    return out


def _has(bits: U64, bit: int) -> Mask:
    return bits & np.uint64(1 << bit) != 0
