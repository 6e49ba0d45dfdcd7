"""Compiled loops that recognise the messages at the beginning of a text which an earlier text has, too.

A model's call repeats its conversation: where the bytes of an earlier list of messages come again, up to the
end of a message, the walk need not look at them again. The memory is of one batch of requests. It finds an
earlier text by a sample of bytes in the middle of the conversation, since conversations often begin alike,
and compares all bytes before it is trusted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from .name_loops import hash_of

PLACES = 512
"""Places of texts in the memory; a later text takes the place of an earlier one."""
KEY, AT, BEHIND, COUNT, MEMORY_COLUMNS = range(5)
"""Columns of a text: the hash of its sample, its offset, the size of its messages, and their number."""
SAMPLE, SAMPLED_MIN = 32, 128
"""Bytes of a sample, which ends behind a power of two of the text's bytes, and the least such power."""
_BLOCK = np.uint64(512)


@compiled
def _key(b: Any, words: Any, begin: Any, part: Any) -> Any:
    """Return the key of a text by its sample up to the byte `part`."""
    return np.int64(hash_of(b, words, begin + part - SAMPLE, begin + part) ^ np.uint64(part))


@compiled
def _is_same(b: Any, first: Any, second: Any, size: Any) -> Any:
    """Return whether so many bytes are the same at two offsets."""
    left, right = np.uint64(first), np.uint64(second)
    at, stop = np.uint64(0), np.uint64(size)
    while at < stop:
        behind = min(at + _BLOCK, stop)
        is_same = True
        for k in range(at, behind):
            is_same &= b[left + k] == b[right + k]
        if not is_same:
            return False
        at = behind
    return True


@compiled
def known_messages(b: Any, words: Any, begin: Any, size: Any, memory: Any) -> Any:
    """Return how many bytes of a text are messages that are known, and how many messages these are."""
    part = SAMPLED_MIN
    while 2 * part <= size:
        part *= 2
    while SAMPLED_MIN <= part <= size:
        key = _key(b, words, begin, part)
        place = key & (PLACES - 1)
        behind = memory[place, BEHIND]
        if memory[place, KEY] == key and behind <= size and _is_same(b, begin, memory[place, AT], behind):
            memory[PLACES, BEHIND] += behind
            return behind, memory[place, COUNT]
        part //= 2
    return np.int64(0), np.int64(0)


@compiled
def remember_messages(b: Any, words: Any, begin: Any, behind: Any, count: Any, memory: Any) -> Any:
    """Remember that the first bytes of a text, `behind` of them, are so many messages."""
    if behind < SAMPLED_MIN:
        return
    part = SAMPLED_MIN
    while 2 * part <= behind:
        part *= 2
    key = _key(b, words, begin, part)
    place = key & (PLACES - 1)
    memory[place, KEY], memory[place, AT] = key, begin
    memory[place, BEHIND], memory[place, COUNT] = behind, count
