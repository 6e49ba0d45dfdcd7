"""Compiled loops that look up names in a table, eight bytes at a time, or compare texts with a few names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..compiled import compiled

SLOT_IGNORED = 0
"""The slot of a name that is not in the table."""
NAMES_MAX = 4_096
"""Entries of the hash table of names; the beginnings of names follow it."""
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@compiled
def word(b: Any, words: Any, at: Any, size: Any) -> Any:
    """Return up to eight bytes as a number."""
    place, shift = at >> 3, np.uint64(8 * (at & 7))
    if place + 1 < len(words):
        high = (words[place + 1] << (np.uint64(63) - shift)) << np.uint64(1)
        word = (words[place] >> shift) | high
        return word if size >= 8 else word & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1))
    word = np.uint64(0)
    for k in range(min(size, 8)):
        word |= np.uint64(b[at + k]) << np.uint64(8 * k)
    return word


@compiled
def hash_of(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return a number that differs for most names."""
    mixed = np.uint64(stop - at)
    while at < stop:
        mixed = (mixed ^ word(b, words, at, stop - at)) * _PRIME
        mixed ^= mixed >> np.uint64(32)
        at += 8
    return mixed


@compiled
def _begins(b: Any, words: Any, at: Any, letters: Any, first: Any, size: Any) -> Any:
    """Return whether the bytes begin with a name of the table."""
    is_same = True
    for k in range((size + 7) >> 3):
        is_same &= word(b, words, at + 8 * k, size - 8 * k) == letters[first + k]
    return is_same


@compiled
def slot_of(b: Any, words: Any, at: Any, stop: Any, mixed: Any, entries: Any, letters: Any) -> Any:
    """Return the slot of a name."""
    place = np.int64(mixed & np.uint64(NAMES_MAX - 1))
    while entries[place, 0] >= 0:
        if entries[place, 1] == stop - at and _begins(b, words, at, letters, entries[place, 2], stop - at):
            return entries[place, 0]
        place = (place + 1) & (NAMES_MAX - 1)
    slot = SLOT_IGNORED
    for k in range(NAMES_MAX, len(entries)):
        if entries[k, 1] <= stop - at and _begins(b, words, at, letters, entries[k, 2], entries[k, 1]):
            slot = entries[k, 0]
    return slot


def joined(names: Iterable[str]) -> bytes:
    """Return texts in one, each with a zero behind it."""
    return b"".join(name.encode() + b"\0" for name in sorted(names))


@compiled
def _is_same(b: Any, at: Any, names: Any, begin: Any, size: Any) -> Any:
    is_same, place, name = True, np.uint64(at), np.uint64(begin)
    for k in range(np.uint64(size)):
        is_same &= b[place + k] == names[name + k]
    return is_same


@compiled
def is_of(b: Any, at: Any, size: Any, names: Any) -> Any:
    """Return whether a text is one of these, which are `joined`."""
    begin = 0
    for stop in range(len(names)):
        if names[stop] == 0:
            if stop - begin == size and _is_same(b, at, names, begin, size):
                return True
            begin = stop + 1
    return False


@compiled
def begins_with(b: Any, at: Any, size: Any, names: Any) -> Any:
    """Return whether a text begins with one of these, which are `joined`."""
    begin = 0
    for stop in range(len(names)):
        if names[stop] == 0:
            if stop - begin <= size and _is_same(b, at, names, begin, stop - begin):
                return True
            begin = stop + 1
    return False
