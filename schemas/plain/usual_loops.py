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
FIRST_SLOT, BEHIND_SLOTS, USUAL, USUAL_STOP, ASKED, ASKED_STOP, REPLY, REPLY_STOP, PART_COLUMNS = range(9)
"""Columns of a parted span, and their number: the rows of its slots, and offsets of `usual`, of a model's
input and of its output. `USUAL` is `REFUSED` where the span has none, as are `ASKED` and `REPLY`. A span with
an input and without an error's type and attributes of tools has no rows of slots."""
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
def part_spans(b: Any, spans: Any, fields: Any, parts: Any, slots: Any, out: Any) -> Any:
    """Write the parts of each span, the rows of slots, and `usual`: resource, scope, status and attributes.

    `out` has `USUAL_MAX` bytes for each span; equal texts are written once, if they are near. Returns how
    many rows of slots and bytes there are.
    """
    count, at = 0, 0
    for n in range(len(spans)):
        parts[n, FIRST_SLOT], parts[n, USUAL] = count, REFUSED
        if spans[n, FIRST] == REFUSED:
            continue
        last = at + USUAL_MAX
        behind = _put(b, spans[n, RESOURCE], spans[n, RESOURCE_STOP], out, at, last)
        behind = _put(b, spans[n, SCOPE], spans[n, SCOPE_STOP], out, behind, last)
        status, status_stop = spans[n, STATUS], spans[n, STATUS_STOP]
        behind = _put(b, max(status, 0), status_stop, out, behind, last)
        for field in range(spans[n, FIRST], spans[n, BEHIND]):
            if behind != REFUSED:
                count, behind = _part(b, fields, field, slots, count, out, behind, last)
        if behind == REFUSED:
            continue
        count = _note_messages(parts[n], slots, count)
        same = _same(out, at, behind, parts, n)
        parts[n, BEHIND_SLOTS] = count
        parts[n, USUAL] = at if same == REFUSED else same
        parts[n, USUAL_STOP] = parts[n, USUAL] + behind - at
        at = behind if same == REFUSED else at
    return count, at
