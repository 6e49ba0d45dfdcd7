"""The compiled loops over the views of texts, of which Polars has one for each text of a column.

A view has four numbers: the length, and either the text itself, or its first bytes, its buffer and its place
there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled

_INLINE_MAX = 12
"""Bytes of a text that its view holds itself."""

_CACHE_BITS = 12
CACHE_SIZE = 1 << _CACHE_BITS
"""Texts that are looked up; more would not fit in the fastest memory of a processor."""


@compiled
def text_places(views: Any, places: Any, begins: Any, ends: Any) -> None:
    """Write the places of texts, given the `places` of the views and of each buffer."""
    for i in range(len(begins)):
        size = np.int64(views[4 * i])
        if size <= _INLINE_MAX:
            begins[i] = places[0] + 16 * i + 4
        else:
            begins[i] = places[1 + np.int64(views[4 * i + 2])] + np.int64(views[4 * i + 3])
        ends[i] = begins[i] + size


@compiled
def distinct_texts(begins: Any, ends: Any, cache: Any, rows: Any, alike: Any) -> Any:
    """Write the texts whose places differ from those before, and for each text which of them it is.

    Return their number. `cache` has -1 at first; a text that it has forgotten is distinct again.
    """
    count = 0
    for i in range(len(begins)):
        mixed = np.uint64(begins[i]) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64(mixed >> np.uint64(64 - _CACHE_BITS))
        known = cache[slot]
        if known >= 0 and begins[rows[known]] == begins[i] and ends[rows[known]] == ends[i]:
            alike[i] = known
        else:
            rows[count] = i
            cache[slot] = count
            alike[i] = count
            count += 1
    return count
