"""The compiled walk over the footer of a Parquet file, in Thrift's compact protocol, for its facts.

Whatever is not as usual makes the walk end with `ODD`; then Arrow reads the footer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...schemas.compiled import compiled
from ...schemas.time import EVENT_TIME_MIN

ODD = -1
COLUMNS_MAX = 256
DEPTH_MAX = 16
"""Nested structures and lists that are passed over."""

ROWS, SIZE, SCHEMA_END, TAIL = range(4)
"""The numbers of a footer: rows, bytes, and the places where its schema ends and where its tail begins.

What is before the first place and from the second one on is equal in files that were written alike.
"""
NULLS, LEAST, HAS_LEAST, LAST, LAST_STATE = range(5)
"""The numbers of a column over all row groups: the nulls (`ODD` if unknown), least value and last value."""
NO_LAST, KNOWN_LAST, UNKNOWN_LAST = range(3)
UNKNOWN_LEAST = EVENT_TIME_MIN - 1
"""The least value of a column whose statistics are unknown."""

TYPE, HAS_STATISTICS, NULL_COUNT, HAS_MIN, MIN, HAS_MAX, MAX, IS_OLD = range(8)
"""The numbers of a column in one row group."""

STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, I64, _DOUBLE, _BINARY, LIST, _SET = range(11)
STRUCT = 12
"""Kinds of values in the compact protocol."""
_INT32, _INT64, _INT96 = 1, 2, 3
"""Types of columns."""


def arrays() -> tuple[Any, Any, Any]:
    """Return the arrays that `read_footer` fills: of the footer, of its columns, and of one row group."""
    return np.zeros(4, np.int64), np.zeros((COLUMNS_MAX, 5), np.int64), np.zeros((COLUMNS_MAX, 8), np.int64)


@compiled
def read_footer(data: Any, facts: Any, columns: Any, group: Any) -> Any:
    """Write the numbers of a footer and of its columns; return the number of columns, or `ODD`."""
    at, end, field, count = 0, data.shape[0], 0, 0
    facts[:] = ODD
    while at >= 0:
        kind, field, at = field_header(data, at, end, field)
        if at < 0 or kind == STOP:
            break
        if field == 3 and kind == I64:
            facts[ROWS], at = signed_number(data, at, end)
        elif field == 4 and kind == LIST:
            count, at = _groups(data, at, end, facts, columns, group)
            facts[TAIL] = at
        else:
            at = place_after(data, at, end, kind)
            if field == 2:
                facts[SCHEMA_END] = at
    is_whole = at == end and facts[ROWS] >= 0 and 0 < facts[SCHEMA_END] < facts[TAIL] and count > 0
    return count if is_whole else ODD


@compiled
def _groups(data: Any, at: Any, end: Any, facts: Any, columns: Any, group: Any) -> Any:
    """Read the list of row groups; return the number of columns, and the place after the list."""
    length, kind, at = list_header(data, at, end)
    facts[SIZE] = 0
    columns[:, :] = 0
    count = -1
    if kind != STRUCT and length > 0:
        return 0, ODD
    for _ in range(length):
        count, at = _group(data, at, end, facts, columns, group, count)
        if at < 0:
            return 0, ODD
    return max(count, 0), at


@compiled
def _group(data: Any, at: Any, end: Any, facts: Any, columns: Any, group: Any, count: Any) -> Any:
    """Read a row group and add its numbers; return the number of its columns, and the place after it."""
    field, rows, found = 0, -1, -1
    while at >= 0:
        kind, field, at = field_header(data, at, end, field)
        if at < 0 or kind == STOP:
            break
        if field == 1 and kind == LIST:
            found, each, at = list_header(data, at, end)
            if each != STRUCT or found > COLUMNS_MAX or (count >= 0 and found != count):
                return 0, ODD
            for column in range(found):
                at = _chunk(data, at, end, group[column]) if at >= 0 else at
        elif field == 2 and kind == I64:
            size, at = signed_number(data, at, end)
            facts[SIZE] += size
        elif field == 3 and kind == I64:
            rows, at = signed_number(data, at, end)
        else:
            at = place_after(data, at, end, kind)
    if at < 0 or rows < 0 or found < 0:
        return 0, ODD
    for column in range(found):
        if not _add(group[column], rows, columns[column]):
            return 0, ODD
    return found, at


@compiled
def _add(chunk: Any, rows: Any, column: Any) -> Any:
    """Add the numbers of a column in a row group of so many rows; return whether they are as usual."""
    is_integer = chunk[TYPE] == _INT32 or chunk[TYPE] == _INT64
    has_both = chunk[HAS_MIN] and chunk[HAS_MAX]
    if (chunk[HAS_MIN] != chunk[HAS_MAX] and is_integer) or (chunk[IS_OLD] and not has_both):
        return False
    if not chunk[HAS_STATISTICS] or chunk[NULL_COUNT] < 0:
        # Arrow distinguishes columns without statistics from those without a count.
        return False
    if chunk[TYPE] == _INT96 and (chunk[HAS_MIN] or chunk[HAS_MAX]):
        # These have no order that Arrow knows.
        return False
    column[NULLS] += chunk[NULL_COUNT]
    if has_both or chunk[NULL_COUNT] != rows:
        least = chunk[MIN] if has_both else UNKNOWN_LEAST
        if not column[HAS_LEAST] or least < column[LEAST]:
            column[LEAST], column[HAS_LEAST] = least, 1
    if rows > 0 and column[LAST_STATE] != UNKNOWN_LAST:
        if not has_both:
            column[LAST_STATE] = UNKNOWN_LAST
        elif column[LAST_STATE] == NO_LAST or chunk[MAX] > column[LAST]:
            column[LAST], column[LAST_STATE] = chunk[MAX], KNOWN_LAST
    return True


@compiled
def _chunk(data: Any, at: Any, end: Any, chunk: Any) -> Any:
    """Read a column of a row group, and return the place after it."""
    chunk[:] = 0
    chunk[NULL_COUNT] = ODD
    field = 0
    while at >= 0:
        kind, field, at = field_header(data, at, end, field)
        if at < 0 or kind == STOP:
            return at
        if field == 3 and kind == STRUCT:
            at = _column(data, at, end, chunk)
        elif field == 1 or field >= 8:
            # Another file, or encryption.
            return ODD
        else:
            at = place_after(data, at, end, kind)
    return ODD


@compiled
def _column(data: Any, at: Any, end: Any, chunk: Any) -> Any:
    """Read the description of a column in a row group, and return the place after it."""
    field = 0
    while at >= 0:
        kind, field, at = field_header(data, at, end, field)
        if at < 0 or kind == STOP:
            return at
        if field == 1 and kind == _I32:
            chunk[TYPE], at = signed_number(data, at, end)
        elif field == 12 and kind == STRUCT:
            at = _statistics(data, at, end, chunk)
        else:
            at = place_after(data, at, end, kind)
    return ODD


@compiled
def _statistics(data: Any, at: Any, end: Any, chunk: Any) -> Any:
    """Read the statistics of a column in a row group, and return the place after them."""
    chunk[HAS_STATISTICS] = 1
    field = 0
    while at >= 0:
        kind, field, at = field_header(data, at, end, field)
        if at < 0 or kind == STOP:
            return at
        if field == 3 and kind == I64:
            chunk[NULL_COUNT], at = signed_number(data, at, end)
        elif field == 5 and kind == _BINARY:
            chunk[HAS_MAX] = 1
            chunk[MAX], at = _value(data, at, end, chunk[TYPE])
        elif field == 6 and kind == _BINARY:
            chunk[HAS_MIN] = 1
            chunk[MIN], at = _value(data, at, end, chunk[TYPE])
        else:
            chunk[IS_OLD] |= field == 1 or field == 2
            at = place_after(data, at, end, kind)
    return ODD


@compiled
def _value(data: Any, at: Any, end: Any, kind: Any) -> Any:
    """Return a value of statistics, 0 if it is no integer, and the place after it."""
    length, at = _varint(data, at, end)
    if at < 0 or length > end - at:
        return 0, ODD
    if kind != _INT32 and kind != _INT64:
        return 0, at + length
    if length != (4 if kind == _INT32 else 8):
        return 0, ODD
    value = np.int64(np.int8(data[at + length - 1]))
    for place in range(at + length - 2, at - 1, -1):
        value = (value << 8) | np.int64(data[place])
    return value, at + length


@compiled
def place_after(data: Any, at: Any, end: Any, kind: Any) -> Any:
    """Return the place after a value of that kind."""
    return _passed(data, at, end, kind, 0)


@compiled
def _passed(data: Any, at: Any, end: Any, kind: Any, depth: Any) -> Any:
    """Return the place after a value of that kind in so many structures and lists."""
    if at < 0 or depth > DEPTH_MAX:
        return ODD
    if kind in (_TRUE, _FALSE):
        return at
    if kind == _BYTE:
        return at + 1 if at < end else ODD
    if kind in (_I16, _I32, I64):
        _, at = _varint(data, at, end)
        return at
    if kind == _DOUBLE:
        return at + 8 if at + 8 <= end else ODD
    if kind == _BINARY:
        length, at = _varint(data, at, end)
        return at + length if at >= 0 and length <= end - at else ODD
    if kind in (LIST, _SET):
        length, each, at = list_header(data, at, end)
        for _ in range(length):
            if at < 0:
                return ODD
            at = at + 1 if each in (_TRUE, _FALSE) else _passed(data, at, end, each, depth + 1)
        return at if at <= end else ODD
    if kind != STRUCT:
        return ODD
    field = 0
    while at >= 0:
        inner, field, at = field_header(data, at, end, field)
        if at < 0 or inner == STOP:
            return at
        at = _passed(data, at, end, inner, depth + 1)
    return ODD


@compiled
def field_header(data: Any, at: Any, end: Any, field: Any) -> Any:
    """Return the kind of the next field of a structure, its number, and the place of its value."""
    if at >= end:
        return 0, 0, ODD
    byte = np.int64(data[at])
    at += 1
    if byte == STOP:
        return 0, 0, at
    if byte >> 4:
        return byte & 15, field + (byte >> 4), at
    found, at = signed_number(data, at, end)
    return byte & 15, found, at


@compiled
def list_header(data: Any, at: Any, end: Any) -> Any:
    """Return the length of a list, the kind of its elements, and the place of the first."""
    if at < 0 or at >= end:
        return 0, 0, ODD
    byte = np.int64(data[at])
    length, at = byte >> 4, at + 1
    if length == 15:
        length, at = _varint(data, at, end)
    if at < 0 or length > end - at:
        return 0, 0, ODD
    return length, byte & 15, at


@compiled
def signed_number(data: Any, at: Any, end: Any) -> Any:
    """Return the signed number at a place, and the place after it."""
    value, at = _varint(data, at, end)
    return (value >> 1) ^ -(value & 1), at


@compiled
def _varint(data: Any, at: Any, end: Any) -> Any:
    """Return the number without a sign at a place, and the place after it; `ODD` beyond 62 bits."""
    value, shift = np.int64(0), np.int64(0)
    while at < end and shift < 63:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return np.int64(0), ODD
