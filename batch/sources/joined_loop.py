"""The compiled walk that copies the row groups of a Parquet footer, with their offsets further on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...schemas.compiled import compiled
from .footer_loop import (
    I64,
    LIST,
    ODD,
    STOP,
    STRUCT,
    field_header,
    list_header,
    place_after,
    signed_number,
)

ROWS, GROUPS, SCHEMA_END, TAIL = range(4)
"""The numbers of a footer: rows, row groups, the place after the schema, and that after the row groups."""

_ROWS_HEADER, _GROUPS_HEADER = 0x16, 0x19
"""The headers of both fields where each follows the field before it."""


@compiled
def copy_groups(data: Any, shift: Any, facts: Any, out: Any, to: Any) -> Any:
    """Copy the row groups of a footer to `out` from the place `to` on, with their offsets plus `shift`.

    Return the place after them, `ODD` where something is not as usual. `facts` become the footer's numbers.
    `out` has room for the footer and for ten bytes more an offset.
    """
    at, end, field = 0, data.shape[0], 0
    facts[:] = ODD
    while at >= 0:
        begin = at
        kind, field, at = field_header(data, at, end, field)
        if at < 0 or kind == STOP:
            break
        if field == 3 and kind == I64:
            if data[begin] != _ROWS_HEADER or begin != facts[SCHEMA_END]:
                return ODD
            facts[ROWS], at = signed_number(data, at, end)
        elif field == 4 and kind == LIST:
            if data[begin] != _GROUPS_HEADER or facts[ROWS] < 0 or facts[TAIL] > 0:
                return ODD
            facts[GROUPS], at, to = _groups(data, at, end, shift, out, to)
            facts[TAIL] = at
        else:
            at = place_after(data, at, end, kind)
            if field == 2 and facts[ROWS] >= 0:
                return ODD
            if field == 2:
                facts[SCHEMA_END] = at
    return to if at == end and facts[TAIL] > 0 and facts[GROUPS] >= 0 else ODD


@compiled
def _groups(data: Any, at: Any, end: Any, shift: Any, out: Any, to: Any) -> Any:
    """Copy the elements of the list of row groups; return their number, and the places after them."""
    length, kind, at = list_header(data, at, end)
    if length > 0 and kind != STRUCT:
        return ODD, ODD, to
    for _ in range(length):
        if at >= 0:
            at, to = _structure(data, at, end, shift, out, to, 0)
    return length, at, to


@compiled
def _structure(data: Any, at: Any, end: Any, shift: Any, out: Any, to: Any, level: Any) -> Any:
    """Copy a row group (level 0), its column (1) or the description of that (2); return the places after."""
    field, copied = 0, at
    while at >= 0:
        kind, field, at = field_header(data, at, end, field)
        if at < 0 or kind == STOP:
            break
        if kind == I64 and _is_offset(level, field):
            to = _copy(data, copied, at, out, to)
            offset, at = signed_number(data, at, end)
            # Writers without the part at an offset write 0.
            to = _put(offset + shift if offset > 0 else offset, out, to)
            copied = at
        elif level == 0 and field == 1 and kind == LIST:
            length, each, at = list_header(data, at, end)
            if each != STRUCT:
                return ODD, to
            to = _copy(data, copied, at, out, to) if at >= 0 else to
            for _ in range(length):
                if at >= 0:
                    at, to = _structure(data, at, end, shift, out, to, level + 1)
            copied = at
        elif level == 1 and field == 3 and kind == STRUCT:
            to = _copy(data, copied, at, out, to)
            at, to = _structure(data, at, end, shift, out, to, level + 1)
            copied = at
        elif level == 1 and (field == 1 or field >= 8):
            # Another file, or encryption.
            return ODD, to
        else:
            at = place_after(data, at, end, kind)
    return at, to if at < 0 else _copy(data, copied, at, out, to)


@compiled
def _is_offset(level: Any, field: Any) -> Any:
    """Return whether a field of a row group, a column or a description is a place in the file."""
    if level == 0:
        return field == 5
    if level == 1:
        return field == 2 or field == 4 or field == 6
    return field == 9 or field == 10 or field == 11 or field == 14


@compiled
def _copy(data: Any, begin: Any, end: Any, out: Any, to: Any) -> Any:
    """Copy bytes, and return the place after them."""
    for place in range(begin, end):
        out[to] = data[place]
        to += 1
    return to


@compiled
def _put(number: Any, out: Any, to: Any) -> Any:
    """Write a signed number, and return the place after it."""
    value = np.uint64((number << 1) ^ (number >> 63))
    while value >= np.uint64(128):
        out[to] = np.uint8(value & np.uint64(127)) | np.uint8(128)
        value >>= np.uint64(7)
        to += 1
    out[to] = np.uint8(value)
    return to + 1
