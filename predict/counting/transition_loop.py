"""The compiled loop that counts the transitions of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...schemas.compiled import compiled
from .sequence_loop import NO_SYMBOL


@compiled
def count_transitions(sequences: Any, heads: Any, uses: Any, out: Any) -> Any:
    """Count the transitions of sequences, and return the number of distinct ones, -1 where they do not fit.

    `sequences` are symbols, rows, bounds and successors as in `Sequences`. `heads` has the first part of the
    keys of each sequence, negative where its transitions are not counted. `uses` are counts by symbol, to
    which each symbol of all sequences is added. `out` are the keys as rows of two words, their counts, and a
    hash table of -1, whose size is a power of two and more than twice that of the others.
    """
    symbols, rows, bounds, successors = sequences
    keys, counts, table = out
    mask, distinct = np.uint64(len(table) - 1), 0
    for i in range(len(heads)):
        head, last = heads[i], bounds[i + 1] - 1
        for place in range(bounds[i], last + 1):
            following = successors[i] if place == last else symbols[place + 1]
            if following >= 0:
                uses[following] += 1
            if head < 0 or following == NO_SYMBOL:
                continue
            high = np.uint64(head) << np.uint64(32) | np.uint64(np.uint32(rows[place]))
            low = np.uint64(np.uint32(symbols[place])) << np.uint64(32) | np.uint64(np.uint32(following))
            number = _find(high, low, keys, table, mask)
            if number < 0:
                if distinct == len(counts):
                    return -1
                table[~number] = distinct
                keys[distinct, 0], keys[distinct, 1], counts[distinct] = high, low, 0
                number = distinct
                distinct += 1
            counts[number] += 1
    return distinct


@compiled
def _find(high: Any, low: Any, keys: Any, table: Any, mask: Any) -> Any:
    """Return the number of a key, or the complement of its place in the hash table where it is new."""
    mixed = (high * np.uint64(0x9E3779B97F4A7C15)) ^ low
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    place = (mixed ^ (mixed >> np.uint64(29))) & mask
    while table[place] >= 0:
        number = table[place]
        if keys[number, 0] == high and keys[number, 1] == low:
            return np.int64(number)
        place = (place + np.uint64(1)) & mask
    return ~np.int64(place)
