"""Numbers that order sessions at random: the same on every machine for the same seed, id and occurrence."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...rules.engine.kernel_loop import njit
from ...rules.model.arrays import I64

# The hash FNV-1a, and the last steps of MurmurHash3.
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_SEEDS = 1 << 64


def draw_numbers(ids: pl.Series, occurrences: I64, seed: int) -> NDArray[np.uint64]:
    """Return a number for each session id with the begin of its occurrence."""
    text = "".join(ids.to_list()).encode()
    ends = ids.str.len_bytes().cum_sum().to_numpy().astype(np.int64)
    return _numbers(np.frombuffer(text, np.uint8), ends, occurrences, np.uint64(seed % _SEEDS))


@njit
def _numbers(data: Any, ends: Any, occurrences: Any, seed: Any) -> Any:
    found = np.empty(ends.shape[0], dtype=np.uint64)
    start = _BASIS ^ _mixed(seed)
    begin = 0
    for i in range(ends.shape[0]):
        value = start
        for place in range(begin, ends[i]):
            value = (value ^ np.uint64(data[place])) * _PRIME
        found[i] = _mixed((value ^ np.uint64(occurrences[i])) * _PRIME)
        begin = ends[i]
    return found


@njit
def _mixed(value: Any) -> Any:
    value = (value ^ (value >> _SHIFT)) * _FIRST
    value = (value ^ (value >> _SHIFT)) * _SECOND
    return value ^ (value >> _SHIFT)
