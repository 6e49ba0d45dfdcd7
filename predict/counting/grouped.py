"""Counts of distinct keys that come in parts, in memory that the number of distinct keys bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...rules.engine.kernel_loop import numbered
from ...rules.model.arrays import I32, I64, U64

COMPACT_ROWS = 1 << 20
"""Rows of parts that wait to be joined."""


@dataclass(slots=True)
class GroupedCounts:
    """Counts by key, a row of two words of 64 bits."""

    _keys: list[U64] = field(default_factory=list["U64"])
    _counts: list[I64] = field(default_factory=list["I64"])
    _waiting: int = 0

    def add(self, keys: U64, counts: I64) -> None:
        """Add counts, of each key once."""
        self._keys.append(keys)
        self._counts.append(counts)
        self._waiting += len(keys)
        if self._waiting > COMPACT_ROWS:
            self.total()
            self._waiting = 0

    def total(self) -> tuple[U64, I64]:
        """Return the distinct keys and their counts, in no particular order."""
        keys = np.concatenate([np.empty((0, 2), dtype=np.uint64), *self._keys])
        counts = np.concatenate([np.empty(0, dtype=np.int64), *self._counts])
        distinct, totals = grouped(keys, counts)
        self._keys, self._counts = [distinct], [totals]
        return distinct, totals


def grouped(keys: U64, counts: I64) -> tuple[U64, I64]:
    """Return the distinct rows of the keys, and the sum of the counts of each."""
    codes, firsts = numbered(np.ascontiguousarray(keys))
    sums = np.zeros(len(firsts), dtype=np.int64)
    np.add.at(sums, codes, counts)
    return keys[firsts], sums


def packed(high: I32, low: I32) -> U64:
    """Return two numbers in one word; either may be negative."""
    return high.astype(np.uint32).astype(np.uint64) << np.uint64(32) | low.astype(np.uint32)
