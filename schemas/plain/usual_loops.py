"""The compiled loops that part the attributes of plain spans: those that claims are made of, and all others.

Most spans of a process share all others, so these are read once: they come as one text of bytes, `usual`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..dialects.names import opentelemetry_1_41 as otel
from .field_loops import (
    BEGIN,
    BEHIND,
    FIRST,
    NAME_STOP,
    REFUSED,
    RESOURCE,
    RESOURCE_STOP,
    SCOPE,
    SCOPE_STOP,
    SMALL,
    STATUS,
    STATUS_STOP,
    STOP,
    TEXT,
    is_same_name,
)

SLOT_NAMES = (
    *(otel.OPERATION, otel.ERROR_TYPE, otel.INPUT_MESSAGES, otel.OUTPUT_MESSAGES),
    *(otel.TOOL_NAME, otel.TOOL_CALL_ID, otel.TOOL_ARGUMENTS, otel.TOOL_RESULT),
)
"""The attributes that claims are made of, by the number of their slot; `usual` has the first one, too."""
IGNORED = (otel.INSTRUCTIONS, otel.TOOL_DEFINITIONS)
"""Attributes of which claims and rules have nothing."""
USUAL_MAX = 1_024
"""Bytes of `usual`; a span with more has none."""
LENGTH_BYTES = 2
"""The bytes of the length, the least first, before each part of `usual`."""
VARYING_NAMES = (otel.RESPONSE_ID,)
"""Attributes with texts that vary from span to span; numbers vary, too."""
FIRST_SLOT, BEHIND_SLOTS, USUAL, USUAL_STOP, ASKED, ASKED_STOP, REPLY, REPLY_STOP, FIRST_VALUE = range(9)
"""Columns of a parted span: the rows of its slots, the offsets of `usual`, of a model's input and of its
output, and the first row of its varying attributes. `USUAL` is `REFUSED` where the span has none, as are
`ASKED` and `REPLY`. A span with an input and without an error's type and attributes of tools has no rows of
slots."""
PART_COLUMNS = FIRST_VALUE + 1
VALUE_KIND, VALUE, VALUE_STOP, VALUE_COLUMNS = range(4)
"""Columns of a varying attribute, and their number: its kind, and a whole number, or offsets."""
WHOLE, DOUBLE, TEXT_VALUE = range(3)
"""Kinds of them."""
VARYING_MARK = 255
"""The byte before the name of such an attribute in `usual`, which has no more of it."""
INPUT, OUTPUT = SLOT_NAMES.index(otel.INPUT_MESSAGES), SLOT_NAMES.index(otel.OUTPUT_MESSAGES)
"""The slots of a model's input and of its output."""
SAME_MAX = 64
"""The number of texts of `usual` with which each other one is compared."""
SLOT, SLOT_BEGIN, SLOT_STOP, SLOT_COLUMNS = range(4)
"""Columns of a slot's row, and their number: its number, and the offsets of its text."""

_TO_NAME = 2
"""The bytes of an attribute before its name."""
_NAMES = np.frombuffer("".join(SLOT_NAMES + IGNORED).encode(), np.uint8)
_STARTS = np.cumsum([0, *map(len, SLOT_NAMES + IGNORED)])
_SLOTS = len(SLOT_NAMES)
_VARYING = np.frombuffer("".join(VARYING_NAMES).encode(), np.uint8)
_WHOLE_TAG, _DOUBLE_TAG = 0x18, 0x21
_VALUE_BYTES_MAX = 9
"""Bytes of a whole number of 63 bits, and of a double with its tag."""


@compiled
def _slot_of(b: Any, begin: Any, stop: Any) -> Any:
    """Return the number of the slot with that name, a greater one for an ignored name."""
    size = stop - begin
    for n in range(len(_STARTS) - 1):
        first = _STARTS[n]
        if _STARTS[n + 1] - first == size and is_same_name(b, begin, _NAMES, first, size):
            return n
    return REFUSED


@compiled
def _put(b: Any, begin: Any, stop: Any, out: Any, at: Any, last: Any) -> Any:
    """Write a part with its length; return the offset behind it, or that there is no room."""
    size = stop - begin
    if at == REFUSED or size > last - at - LENGTH_BYTES:
        return REFUSED
    out[at], out[at + 1] = size & 255, size >> 8
    at += LENGTH_BYTES
    for k in range(size):
        out[at + k] = b[begin + k]
    return at + size


@compiled
def _is_ascii_text(b: Any, fields: Any, n: Any) -> Any:
    bits = 0
    for k in range(fields[n, TEXT], fields[n, STOP]):
        bits |= b[k]
    return fields[n, TEXT] != REFUSED and bits < 128


@compiled
def _whole_number(b: Any, at: Any, stop: Any) -> Any:
    """Return a whole number of 63 bits; a negative one where there is none."""
    value = 0
    for k in range(stop - at):
        value |= np.int64(b[at + k] & 127) << np.int64(7 * k)
        if b[at + k] < 128:
            return value if at + k + 1 == stop else REFUSED
    return REFUSED


@compiled
def _is_varying(b: Any, fields: Any, n: Any, values: Any, count: Any) -> Any:
    """Note a varying attribute; return whether it is one."""
    begin, name_stop, text, stop = fields[n, BEGIN], fields[n, NAME_STOP], fields[n, TEXT], fields[n, STOP]
    if text != REFUSED:
        values[count, VALUE_KIND], values[count, VALUE], values[count, VALUE_STOP] = TEXT_VALUE, text, stop
        name, size = begin + _TO_NAME, name_stop - begin - _TO_NAME
        return size == len(_VARYING) and stop - begin <= SMALL and is_same_name(b, name, _VARYING, 0, size)
    value = name_stop + 2
    if stop - value < 2 or stop - value > _VALUE_BYTES_MAX + 1 or b[name_stop + 1] != stop - value:
        return False
    values[count, VALUE_KIND], values[count, VALUE], values[count, VALUE_STOP] = DOUBLE, value + 1, stop
    if b[value] == _WHOLE_TAG:
        values[count, VALUE_KIND], values[count, VALUE] = WHOLE, _whole_number(b, value + 1, stop)
        return values[count, VALUE] >= 0
    return b[value] == _DOUBLE_TAG and stop - value == _VALUE_BYTES_MAX


@compiled
def _put_name(b: Any, begin: Any, stop: Any, out: Any, at: Any, last: Any) -> Any:
    """Write the name of a varying attribute, behind its mark, as a part."""
    behind = _put(b, begin - 1, stop, out, at, last)
    if behind != REFUSED:
        out[at + LENGTH_BYTES] = VARYING_MARK
    return behind


@compiled
def _part(b: Any, fields: Any, n: Any, slots: Any, count: Any, out: Any, at: Any, last: Any) -> Any:
    """Part an attribute; return how many slots there are then, and the offset behind `usual`."""
    slot = _slot_of(b, fields[n, BEGIN] + _TO_NAME, fields[n, NAME_STOP])
    if slot >= _SLOTS:
        return count, at if _is_ascii_text(b, fields, n) else REFUSED
    if slot != REFUSED:
        if fields[n, TEXT] == REFUSED:
            return count, REFUSED
        slots[count, SLOT] = slot
        slots[count, SLOT_BEGIN], slots[count, SLOT_STOP] = fields[n, TEXT], fields[n, STOP]
        count += 1
    if slot > 0:
        return count, at
    begin, stop = fields[n, BEGIN], fields[n, STOP]
    return count, _put(b, begin, stop, out, at, last) if stop - begin <= SMALL else REFUSED


@compiled
def _note_messages(part: Any, slots: Any, count: Any) -> Any:
    """Note input and output of a span; return how many slots there are, without those of a plain call."""
    part[ASKED], part[ASKED_STOP], part[REPLY], part[REPLY_STOP] = REFUSED, REFUSED, REFUSED, REFUSED
    is_call = True
    for n in range(part[FIRST_SLOT], count):
        slot = slots[n, SLOT]
        if slot == INPUT:
            part[ASKED], part[ASKED_STOP] = slots[n, SLOT_BEGIN], slots[n, SLOT_STOP]
        elif slot == OUTPUT:
            part[REPLY], part[REPLY_STOP] = slots[n, SLOT_BEGIN], slots[n, SLOT_STOP]
        elif slot > 0:
            is_call = False
    return part[FIRST_SLOT] if is_call and part[ASKED] != REFUSED else count


@compiled
def _same(out: Any, begin: Any, stop: Any, parts: Any, n: Any) -> Any:
    """Return the offset of the same text of `usual` of a span before."""
    size = stop - begin
    for k in range(1, min(n, SAME_MAX) + 1):
        at = parts[n - k, USUAL]
        is_as_long = at != REFUSED and parts[n - k, USUAL_STOP] - at == size
        if is_as_long and is_same_name(out, begin, out, at, size):
            return at
    return REFUSED


@compiled
def part_spans(b: Any, spans: Any, fields: Any, parts: Any, slots: Any, values: Any, out: Any) -> Any:
    """Write the parts of each span, the rows of slots, and `usual`: resource, scope, status and attributes.

    Of varying attributes `usual` has the names, and `values` their values. `out` has `USUAL_MAX` bytes for
    each span; equal texts are written once, if they are near. Returns how many rows of slots, rows of varying
    attributes and bytes there are.
    """
    count, valued, at = 0, 0, 0
    for n in range(len(spans)):
        parts[n, FIRST_SLOT], parts[n, USUAL], parts[n, FIRST_VALUE] = count, REFUSED, valued
        if spans[n, FIRST] == REFUSED:
            continue
        last = at + USUAL_MAX
        behind = _put(b, spans[n, RESOURCE], spans[n, RESOURCE_STOP], out, at, last)
        behind = _put(b, spans[n, SCOPE], spans[n, SCOPE_STOP], out, behind, last)
        status, status_stop = spans[n, STATUS], spans[n, STATUS_STOP]
        behind = _put(b, max(status, 0), status_stop, out, behind, last)
        for field in range(spans[n, FIRST], spans[n, BEHIND]):
            if behind == REFUSED:
                break
            name, name_stop = fields[field, BEGIN] + _TO_NAME, fields[field, NAME_STOP]
            if _slot_of(b, name, name_stop) == REFUSED and _is_varying(b, fields, field, values, valued):
                valued, behind = valued + 1, _put_name(b, name, name_stop, out, behind, last)
            else:
                count, behind = _part(b, fields, field, slots, count, out, behind, last)
        if behind == REFUSED:
            continue
        count = _note_messages(parts[n], slots, count)
        same = _same(out, at, behind, parts, n)
        parts[n, BEHIND_SLOTS] = count
        parts[n, USUAL] = at if same == REFUSED else same
        parts[n, USUAL_STOP] = parts[n, USUAL] + behind - at
        at = behind if same == REFUSED else at
    return count, valued, at
