"""The compiled loops of the walk over a request in protobuf.

They accept only bytes that `schemas/otlp/protobuf.py` reads without a flaw, which decodes what they refuse. A
span with anything that they do not know is `ODD`: its bounds are right, and the dialects read it. Functions
that return an offset or a number return `REFUSED` instead where the bytes are not accepted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from .flat_loops import FLAT_COUNT, SLOT_FLAT, note_flat
from .name_loops import SLOT_IGNORED, hash_of, slot_of, word

REFUSED, FULL = -1, -2
"""Results instead of an offset or a number: the bytes are not accepted, or an array has no room for them."""
BEGIN, STOP, TRACE, IDENTITY, PARENT, STARTED, ENDED, FACTS, FACTS_STOP = range(9)
RESOURCE, RESOURCE_STOP, SCOPE, SCOPE_STOP, STATE, COLUMNS = range(9, 15)
"""Columns of a span's row, and their number: offsets, times and bits. `PARENT` is -1 at a root."""
FAILED, ODD, RAISED = 1, 2, 4
"""Bits of `STATE`; `RAISED` is whether an exception was recorded."""
SLOT, KIND, AT, SIZE, FACT_COLUMNS = range(5)
"""Columns of a fact: an attribute's slot, the kind of its value, and the value's offset (of truth values and
numbers the value itself) and length."""
NOTHING, TEXT, TRUTH, NUMBER, PLAIN, OTHER = range(6)
"""Kinds of values; `PLAIN` is a fraction, bytes, or a list of plain values, `OTHER` may be damaged inside."""
SLOT_ODD, SLOT_RAISED, SLOT_ESCAPED, SLOT_EVENT, SLOT_EVENT_ODD = range(SLOT_IGNORED + 1, SLOT_FLAT)
SLOT_SPAN = SLOT_FLAT + FLAT_COUNT
"""Slots that the loops know, beside that of an attribute that no dialect reads and those of flattened lists:
an attribute that makes its span odd, an exception's type and escape, the name of an exception's event, names
of events that make their span odd, and the least slot of a span's attributes."""
SLOTS_MAX = 1 << 20
"""More than there are slots."""
KEYS_MAX = 128
"""Attributes of a span, beyond which it is odd."""

_HIGH_BITS = np.uint64(0x8080808080808080)


@compiled
def _varint(b: Any, at: Any, stop: Any) -> Any:
    """Return a number of 64 bits, which must be written as shortly as possible, and the offset behind it."""
    value, shift = np.uint64(0), np.uint64(0)
    while at < stop and shift < 70:
        byte = b[at]
        at += 1
        value |= np.uint64(byte & 127) << shift
        if byte < 128:
            is_short = byte != 0 or shift == 0
            return np.int64(value), at if is_short and (shift < 63 or byte == 1) else REFUSED
        shift += np.uint64(7)
    return np.int64(0), REFUSED


@compiled
def _field(b: Any, at: Any, stop: Any) -> Any:
    """Return a field's tag, the offsets of its content, and a number's value; `REFUSED` as the second."""
    tag, at = _varint(b, at, stop)
    value, wire, begin, behind = np.int64(0), tag & 7, at, stop + 1
    if at == REFUSED or tag < 8:
        return tag, REFUSED, at, value
    if wire == 0:
        value, behind = _varint(b, at, stop)
        begin = at if behind != REFUSED else REFUSED
    elif wire == 1 or wire == 5:
        behind = at + (8 if wire == 1 else 4)
    elif wire == 2:
        value, begin = _varint(b, at, stop)
        behind = begin + value if 0 <= value <= stop else stop + 1
    return tag, begin if behind <= stop else REFUSED, behind, value


@compiled
def _is_text(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return whether the bytes are UTF-8."""
    while at < stop:
        if at & 7 == 0 and at + 8 <= stop and words[at >> 3] & _HIGH_BITS == 0:
            at += 8
            continue
        byte = b[at]
        at += 1
        if byte < 0x80:
            continue
        more = 1 if byte < 0xE0 else (2 if byte < 0xF0 else 3)
        if byte < 0xC2 or byte > 0xF4 or at + more > stop:
            return False
        second = b[at]
        least = 0xA0 if byte == 0xE0 else (0x90 if byte == 0xF0 else 0x80)
        most = 0x9F if byte == 0xED else (0x8F if byte == 0xF4 else 0xBF)
        if second < least or second > most:
            return False
        for k in range(1, more):
            if b[at + k] & 0xC0 != 0x80:
                return False
        at += more
    return True


@compiled
def _value(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return the kind of an AnyValue, and the offset and the length of a text, or another plain value."""
    if at == stop:
        return NOTHING, at, 0
    tag, begin, behind, value = _field(b, at, stop)
    if begin == REFUSED:
        return REFUSED, at, 0
    if behind != stop:
        return OTHER, at, 0
    if tag == 10:
        is_text = _is_text(b, words, begin, behind)
        return TEXT if is_text else REFUSED, begin, behind - begin
    if tag == 16 or tag == 24:
        return TRUTH if tag == 16 else NUMBER, value, 0
    if tag == 33 or tag == 58:
        return PLAIN, at, 0
    return _list(b, words, begin, behind) if tag == 42 else OTHER, at, 0


@compiled
def _list(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return `PLAIN` for a list of texts and numbers, `OTHER` for any other one."""
    while at < stop:
        tag, begin, at, _ = _field(b, at, stop)
        if begin == REFUSED or tag != 10:
            return OTHER
        if begin == at:
            continue
        inner, inner_begin, behind, _ = _field(b, begin, at)
        is_plain = inner == 10 or inner == 16 or inner == 24 or inner == 33
        if inner_begin == REFUSED or behind != at or not is_plain:
            return OTHER
        if inner == 10 and not _is_text(b, words, inner_begin, behind):
            return OTHER
    return PLAIN


@compiled
def _pair(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return the bounds of an attribute's key, and its value's kind, offset and length."""
    key, key_stop, kind, value, size = at, at, NOTHING, at, 0
    parts = 0
    while at < stop:
        tag, begin, at, _ = _field(b, at, stop)
        if begin == REFUSED or (tag != 10 and tag != 18) or parts & tag & 24:
            return REFUSED, at, kind, value, size
        parts |= tag & 24
        if tag == 18:
            kind, value, size = _value(b, words, begin, at)
        elif _is_text(b, words, begin, at):
            key, key_stop = begin, at
        else:
            return REFUSED, at, kind, value, size
    return key if key != key_stop and kind != REFUSED else REFUSED, key_stop, kind, value, size


@compiled
def _attribute(
    b: Any, words: Any, entries: Any, letters: Any, at: Any, stop: Any,
    spans: Any, n: Any, facts: Any, count: Any, keys: Any, first: Any, key_count: Any, least: Any, most: Any,
) -> Any:  # fmt: skip
    """Add an attribute with a slot between `least` and `most`; return how many facts there are.

    `keys` has the hashes of `key_count` others from `first` on.
    """
    key, key_stop, kind, value, size = _pair(b, words, at, stop)
    if key == REFUSED or count == len(facts):
        return REFUSED if key == REFUSED else FULL
    if key_count >= KEYS_MAX:
        spans[n, STATE] |= ODD
        return count
    mixed = hash_of(b, words, key, key_stop)
    for k in range(first, first + key_count):
        if keys[k] == mixed:
            return REFUSED
    keys[first + key_count] = mixed
    slot = slot_of(b, words, key, key_stop, mixed, entries, letters)
    noted = count
    if SLOT_FLAT <= slot < SLOT_SPAN and least == SLOT_SPAN and kind != OTHER:
        noted = note_flat(b, key, key_stop, kind == TEXT, value, size, slot, facts, spans[n, FACTS], count)
    if kind == OTHER or (slot == SLOT_ODD and least == SLOT_SPAN) or noted < 0:
        spans[n, STATE] |= ODD
    elif noted > count:
        return noted
    elif least <= slot <= most:
        facts[count, SLOT], facts[count, KIND], facts[count, AT], facts[count, SIZE] = slot, kind, value, size
        return count + 1
    return count


@compiled
def _event(
    b: Any, words: Any, entries: Any, letters: Any, at: Any, stop: Any,
    spans: Any, n: Any, facts: Any, count: Any, keys: Any,
) -> Any:  # fmt: skip
    """Add an event of a span; return how many facts there are."""
    name, name_stop, parts, begins = at, at, 0, at
    while at < stop:
        tag, begin, at, _ = _field(b, at, stop)
        if begin == REFUSED or (tag != 9 and tag != 18 and tag != 26 and tag != 32):
            return REFUSED
        if (tag != 26 and parts & (1 << (tag >> 3))) or (tag == 9 and b[begin + 7] > 127):
            return REFUSED
        parts |= 1 << (tag >> 3)
        if tag == 18:
            name, name_stop = begin, at
    if not _is_text(b, words, name, name_stop):
        return REFUSED
    slot = slot_of(b, words, name, name_stop, hash_of(b, words, name, name_stop), entries, letters)
    is_raised = slot == SLOT_EVENT
    if name == name_stop or slot == SLOT_EVENT_ODD or (is_raised and spans[n, STATE] & RAISED):
        spans[n, STATE] |= ODD
    spans[n, STATE] |= RAISED if is_raised else 0
    most = SLOT_ESCAPED if is_raised else SLOT_IGNORED
    at, key_count = begins, 0
    while at < stop and count >= 0:
        tag, begin, at, _ = _field(b, at, stop)
        if tag == 26:
            count = _attribute(
                b, words, entries, letters, begin, at,
                spans, n, facts, count, keys, KEYS_MAX, key_count, SLOT_RAISED, most,
            )  # fmt: skip
            key_count += 1
    return count


@compiled
def _status(b: Any, words: Any, at: Any, stop: Any, spans: Any, n: Any) -> Any:
    parts = 0
    while at < stop:
        tag, begin, at, value = _field(b, at, stop)
        if begin == REFUSED or (tag != 18 and tag != 24) or parts & tag & 8:
            return False
        if tag == 24:
            parts |= 8
            spans[n, STATE] |= FAILED if value == 2 else (0 if value == 0 or value == 1 else ODD)
        elif not _is_text(b, words, begin, at):
            return False
    return True


@compiled
def _identity(b: Any, tag: Any, begin: Any, behind: Any, spans: Any, n: Any) -> Any:
    """Note an id of a span; return whether it is accepted."""
    size, is_zero = behind - begin, True
    for k in range(begin, behind):
        is_zero &= b[k] == 0
    if tag == 34:
        spans[n, PARENT] = begin if size == 8 and not is_zero else -1
        return size == 8 or size == 0
    spans[n, TRACE if tag == 10 else IDENTITY] = begin
    return size == (16 if tag == 10 else 8) and not is_zero


@compiled
def _part(b: Any, words: Any, tag: Any, begin: Any, behind: Any, value: Any, spans: Any, n: Any) -> Any:
    """Note a field of a span that is neither an attribute nor an event; return whether it is accepted."""
    if tag == 10 or tag == 18 or tag == 34:
        return _identity(b, tag, begin, behind, spans, n)
    if tag == 57 or tag == 65:
        spans[n, STARTED if tag == 57 else ENDED] = np.int64(word(b, words, begin, 8))
        return b[begin + 7] < 128
    if tag == 26 or tag == 42:
        return _is_text(b, words, begin, behind)
    if tag == 122:
        return _status(b, words, begin, behind, spans, n)
    if tag == 106 or ((tag == 80 or tag == 96) and value != 0):
        spans[n, STATE] |= ODD
        return True
    return tag == 48 or tag == 80 or tag == 96 or tag == 112 or tag == 133


@compiled
def _span(
    b: Any, words: Any, entries: Any, letters: Any, at: Any, stop: Any,
    spans: Any, n: Any, facts: Any, count: Any, keys: Any,
) -> Any:  # fmt: skip
    """Add a span; return how many facts there are."""
    spans[n, BEGIN], spans[n, STOP], spans[n, FACTS], spans[n, STATE] = at, stop, count, 0
    spans[n, TRACE], spans[n, IDENTITY], spans[n, PARENT] = -1, -1, -1
    spans[n, STARTED], spans[n, ENDED] = 0, 0
    parts, key_count = 0, 0
    while at < stop and count >= 0:
        tag, begin, at, value = _field(b, at, stop)
        if begin == REFUSED:
            return REFUSED
        if tag == 74:
            count = _attribute(
                b, words, entries, letters, begin, at,
                spans, n, facts, count, keys, 0, key_count, SLOT_SPAN, SLOTS_MAX,
            )  # fmt: skip
            key_count += 1
        elif tag == 90:
            count = _event(b, words, entries, letters, begin, at, spans, n, facts, count, keys)
        elif tag > 133 or not _part(b, words, tag, begin, at, value, spans, n):
            return REFUSED
        elif tag != 106:
            if parts & (1 << (tag >> 3)):
                return REFUSED
            parts |= 1 << (tag >> 3)
    spans[n, FACTS_STOP] = count
    return count if (spans[n, TRACE] >= 0 and spans[n, IDENTITY] >= 0) or count < 0 else REFUSED


@compiled
def _first(b: Any, words: Any, at: Any, stop: Any) -> Any:
    """Return the bounds of the only field 1 of a message that has also elements in field 2, and a URL."""
    first, first_stop, parts = 0, 0, 0
    while at < stop:
        tag, begin, at, _ = _field(b, at, stop)
        if begin == REFUSED or (tag != 10 and tag != 18 and tag != 26) or parts & (1 << tag):
            return REFUSED, at
        if tag == 10:
            first, first_stop = begin, at
        if tag != 18:
            parts |= 1 << tag
        if tag == 26 and not _is_text(b, words, begin, at):
            return REFUSED, at
    return first, first_stop


@compiled
def walk(b: Any, words: Any, entries: Any, letters: Any, spans: Any, facts: Any, keys: Any) -> Any:
    """Write the spans of a request and their facts, a row each; return how many, or `REFUSED`.

    `words` are the bytes `b` by eight, `entries` and `letters` the names, `keys` room for `2 * KEYS_MAX`.
    """
    n, count, at, stop = 0, 0, 0, len(b)
    while at < stop:
        tag, inner, at, _ = _field(b, at, stop)
        resource, resource_stop = REFUSED, at
        if inner != REFUSED and tag == 10:
            resource, resource_stop = _first(b, words, inner, at)
        if resource == REFUSED:
            return REFUSED, count
        while inner < at:
            tag, begin, inner, _ = _field(b, inner, at)
            if tag != 18:
                continue
            scope, scope_stop = _first(b, words, begin, inner)
            if scope == REFUSED:
                return REFUSED, count
            while begin < inner:
                tag, element, begin, _ = _field(b, begin, inner)
                if tag != 18:
                    continue
                if n == len(spans):
                    return FULL, count
                spans[n, RESOURCE], spans[n, RESOURCE_STOP] = resource, resource_stop
                spans[n, SCOPE], spans[n, SCOPE_STOP] = scope, scope_stop
                count = _span(b, words, entries, letters, element, begin, spans, n, facts, count, keys)
                if count < 0:
                    return count, count
                n += 1
    return n, count
