"""The compiled loops that find the fields of plain spans, in the requests of one span of a message.

A span with a field that they do not know is not plain, and neither is one in a request that
`schemas/otlp/single.py` does not write. Functions that return an offset return `REFUSED` instead.
"""

from __future__ import annotations

from typing import Any

from ..compiled import compiled

REFUSED = -1
FIRST, BEHIND, RESOURCE, RESOURCE_STOP, SCOPE, SCOPE_STOP, STATUS, STATUS_STOP, SPAN_COLUMNS = range(9)
"""Columns of a span's row, and their number: the rows of its attributes, and offsets; `FIRST` is `REFUSED`
where it is not plain, `STATUS` where it has none."""
BEGIN, STOP, NAME_STOP, TEXT, FIELD_COLUMNS = range(5)
"""Columns of an attribute's row, and their number: offsets of the attribute, of the end of its name, which
begins two bytes behind it, and of its text; `TEXT` is `REFUSED` where its value is no text."""
SMALL = 127
"""The greatest length that is one byte."""
_LENGTH_BYTES_MAX = 5


@compiled
def _length(b: Any, at: Any, stop: Any) -> Any:
    """Return a length and the offset behind it."""
    value = 0
    for k in range(min(_LENGTH_BYTES_MAX, stop - at)):
        byte = b[at + k]
        value |= (byte & 127) << (7 * k)
        if byte < 128:
            return value, at + k + 1
    return 0, REFUSED


@compiled
def _content(b: Any, at: Any, stop: Any, tag: Any) -> Any:
    """Return the offsets of the content of a field with that tag."""
    if at == REFUSED or at >= stop or b[at] != tag:
        return REFUSED, REFUSED
    size, begin = _length(b, at + 1, stop)
    if begin == REFUSED or size > stop - begin:
        return REFUSED, REFUSED
    return begin, begin + size


@compiled
def _places(b: Any, at: Any, stop: Any, spans: Any, n: Any) -> Any:
    """Note resource and scope of a request of one span; return the offsets of the span."""
    inner, end = _content(b, at, stop, 0x0A)
    resource, resource_stop = _content(b, inner, stop, 0x0A)
    scope_spans, scope_spans_stop = _content(b, resource_stop, stop, 0x12)
    scope, scope_stop = _content(b, scope_spans, stop, 0x0A)
    begin, behind = _content(b, scope_stop, stop, 0x12)
    spans[n, RESOURCE], spans[n, RESOURCE_STOP] = resource, resource_stop
    spans[n, SCOPE], spans[n, SCOPE_STOP] = scope, scope_stop
    is_one = end == stop and scope_spans_stop == stop and behind == stop
    return begin if is_one else REFUSED


@compiled
def _have_ids(b: Any, at: Any, stop: Any) -> Any:
    """Return whether a span begins with a trace id and a span id, neither of zeros."""
    if stop - at < 28 or b[at] != 0x0A or b[at + 1] != 16 or b[at + 18] != 0x12 or b[at + 19] != 8:
        return False
    trace, span = 0, 0
    for k in range(2, 18):
        trace |= b[at + k]
    for k in range(20, 28):
        span |= b[at + k]
    return trace != 0 and span != 0


@compiled
def _attribute(b: Any, begin: Any, stop: Any, fields: Any, n: Any) -> Any:
    """Note an attribute; return whether it is a short name and then nothing but a value, if any."""
    if stop - begin < 2 or b[begin] != 0x0A or b[begin + 1] > SMALL:
        return False
    name_stop = begin + 2 + b[begin + 1]
    value, value_stop = _content(b, name_stop, stop, 0x12)
    text, text_stop = _content(b, value, stop, 0x0A)
    fields[n, BEGIN], fields[n, STOP], fields[n, NAME_STOP] = begin, stop, name_stop
    fields[n, TEXT] = text if text_stop == stop else REFUSED
    return value_stop == stop or name_stop == stop


@compiled
def is_same_name(b: Any, begin: Any, names: Any, name: Any, size: Any) -> Any:
    """Return whether a name of that size is another one."""
    at = size
    # Most names differ at their end.
    while at > 0 and b[begin + at - 1] == names[name + at - 1]:
        at -= 1
    return at == 0


@compiled
def _is_repeated(b: Any, fields: Any, first: Any, n: Any) -> Any:
    """Return whether an attribute has the name of another one from the `first` on."""
    name, size = fields[n, BEGIN] + 2, fields[n, NAME_STOP] - fields[n, BEGIN] - 2
    for each in range(first, n):
        begin = fields[each, BEGIN] + 2
        if fields[each, NAME_STOP] - begin == size and is_same_name(b, begin, b, name, size):
            return True
    return False


@compiled
def _is_ascii(b: Any, at: Any, stop: Any) -> Any:
    bits = 0
    for k in range(at, stop):
        bits |= b[k]
    return bits < 128


@compiled
def _span(b: Any, at: Any, stop: Any, spans: Any, n: Any, fields: Any, count: Any, most: Any) -> Any:
    """Note the attributes and the status of a span; return how many attributes there are then."""
    first, last = count, count + most
    while at < stop:
        tag = b[at]
        if tag == 0x39 or tag == 0x41:
            # A time.
            at += 9
            continue
        size, begin = _length(b, at + 1, stop)
        if begin == REFUSED:
            return REFUSED
        behind = begin + size
        if tag == 0x30:
            # The kind.
            behind = begin
        elif tag == 0x85 and size == 1:
            # The flags: the size is the second byte of their tag.
            behind = begin + 4
        elif behind > stop:
            return REFUSED
        elif tag == 0x4A:
            if count == last or not _attribute(b, begin, behind, fields, count):
                return REFUSED
            if _is_repeated(b, fields, first, count):
                return REFUSED
            count += 1
        elif tag == 0x7A and spans[n, STATUS] == REFUSED and size <= SMALL:
            spans[n, STATUS], spans[n, STATUS_STOP] = begin, behind
        elif tag != 0x22 and not (tag == 0x2A and _is_ascii(b, begin, behind)):
            return REFUSED
        at = behind
    return count if at == stop else REFUSED


@compiled
def find_fields(b: Any, stops: Any, spans: Any, fields: Any, most: Any) -> Any:
    """Write the spans of requests, which end at `stops`, and their attributes, a row each.

    A span with more than `most` attributes is not plain. Returns how many rows of attributes there are.
    """
    at, count = 0, 0
    for n in range(len(stops)):
        stop = stops[n]
        spans[n, FIRST], spans[n, BEHIND], spans[n, STATUS], spans[n, STATUS_STOP] = REFUSED, 0, REFUSED, 0
        begin = _places(b, at, stop, spans, n)
        at = stop
        if begin == REFUSED or not _have_ids(b, begin, stop):
            continue
        behind = _span(b, begin + 28, stop, spans, n, fields, count, most)
        if behind != REFUSED:
            spans[n, FIRST], spans[n, BEHIND] = count, behind
            count = behind
    return count
