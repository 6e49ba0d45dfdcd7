"""Compiled loops that write MessagePack as msgspec does: each value in as few bytes as possible.

Each writes behind `at` and returns the offset behind what it has written. The caller sees to it that there is
room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled

_ONE = np.uint64(1)


@compiled
def put(out: Any, at: Any, b: Any, begin: Any, size: Any) -> Any:
    """Write bytes."""
    # Offsets without a sign cannot count from the end, so that the copy is one of words.
    to, source = np.uint64(at), np.uint64(begin)
    for k in range(np.uint64(size)):
        out[to + k] = b[source + k]
    return at + size


@compiled
def put_constant(out: Any, at: Any, text: Any) -> Any:
    """Write a constant."""
    to = np.uint64(at)
    for k in range(np.uint64(len(text))):
        out[to + k] = text[k]
    return at + len(text)


@compiled
def put_byte(out: Any, at: Any, value: Any) -> Any:
    """Write one byte."""
    out[at] = value
    return at + 1


@compiled
def _put_big_endian(out: Any, at: Any, value: Any, size: Any) -> Any:
    for k in range(size):
        out[at + k] = (value >> (8 * (size - 1 - k))) & 255
    return at + size


@compiled
def put_number(out: Any, at: Any, value: Any) -> Any:
    """Write a number that is not negative."""
    if value < 128:
        return put_byte(out, at, value)
    size = 1 if value < 1 << 8 else 2 if value < 1 << 16 else 4 if value < 1 << 32 else 8
    out[at] = 0xCC if size == 1 else 0xCD if size == 2 else 0xCE if size == 4 else 0xCF
    return _put_big_endian(out, at + 1, value, size)


@compiled
def put_text_head(out: Any, at: Any, size: Any) -> Any:
    """Write the head of a text of so many bytes."""
    if size < 32:
        return put_byte(out, at, 0xA0 | size)
    length = 1 if size < 1 << 8 else 2 if size < 1 << 16 else 4
    out[at] = 0xD9 if length == 1 else 0xDA if length == 2 else 0xDB
    return _put_big_endian(out, at + 1, size, length)


@compiled
def put_text(out: Any, at: Any, b: Any, begin: Any, size: Any) -> Any:
    """Write a text."""
    return put(out, put_text_head(out, at, size), b, begin, size)


@compiled
def put_bytes_head(out: Any, at: Any, size: Any) -> Any:
    """Write the head of so many bytes."""
    length = 1 if size < 1 << 8 else 2 if size < 1 << 16 else 4
    out[at] = 0xC4 if length == 1 else 0xC5 if length == 2 else 0xC6
    return _put_big_endian(out, at + 1, size, length)


@compiled
def _put_head(out: Any, at: Any, count: Any, small: Any, large: Any) -> Any:
    if count < 16:
        return put_byte(out, at, small | count)
    length = 2 if count < 1 << 16 else 4
    out[at] = large if length == 2 else large + 1
    return _put_big_endian(out, at + 1, count, length)


@compiled
def put_list_head(out: Any, at: Any, count: Any) -> Any:
    """Write the head of a list."""
    return _put_head(out, at, count, 0x90, 0xDC)


@compiled
def put_map_head(out: Any, at: Any, count: Any) -> Any:
    """Write the head of a map."""
    return _put_head(out, at, count, 0x80, 0xDE)


@compiled
def put_struct_head(out: Any, at: Any, count: Any, fields: Any) -> Any:
    """Write the head of a structure that omits defaults, of whose `fields` it has `count`.

    msgspec leaves room for the head before it knows how many fields are omitted.
    """
    if fields < 16:
        return put_byte(out, at, 0x80 | count)
    return _put_big_endian(out, put_byte(out, at, 0xDE), count, 2)


@compiled
def put_hex(out: Any, at: Any, b: Any, begin: Any, size: Any) -> Any:
    """Write bytes as text, two digits each, without a head."""
    to, source = np.uint64(at), np.uint64(begin)
    for k in range(np.uint64(size)):
        high, low = b[source + k] >> 4, b[source + k] & 15
        out[to + k + k] = high + (48 if high < 10 else 87)
        out[to + k + k + _ONE] = low + (48 if low < 10 else 87)
    return at + 2 * size


@compiled
def put_id(out: Any, at: Any, b: Any, begin: Any, size: Any) -> Any:
    """Write an id as text, two digits a byte."""
    return put_hex(out, put_text_head(out, at, 2 * size), b, begin, size)
