"""Plain spans: those whose claims depend on a few attributes of OpenTelemetry's conventions.

The span is read from its bytes in one pass. A span with an event, an end mark, an attribute of another
convention, a lost attribute or anything else that the decoder would report is not plain.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from ..chat.message import ATTRIBUTE_CHARS_MAX, ATTRIBUTES_MAX
from ..dialects import MARKS
from ..dialects.names import frameworks as fw
from ..dialects.names import langfuse_3 as lf
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.names import scopes
from ..dialects.names import vercel_ai_6 as ai
from ..dialects.openinference import MESSAGES
from ..dialects.span_facts import COLUMNS, END, is_plain, plain_attributes
from ..otlp.attributes import value_of_protobuf
from ..otlp.decoded import Unreadable
from ..otlp.single import places_in, resource_of, scope_of
from ..otlp.wire import varint
from ..span import Value

CACHED_MAX, _CACHED_BYTES_MAX = 8_192, 127
"""The number of cached attributes and statuses, and the bytes of one: most are on all spans of a process."""
_TRACE, _SPAN = b"\n\x10", b"\x12\x08"
"""Tags and sizes of the ids, which come first."""
_PARENT, _NAME, _KIND, _ATTRIBUTE, _STATUS = 0x22, 0x2A, 0x30, 0x4A, 0x7A
_FLAGS = 0x85
"""The first byte of the tag of the flags; the second one is 1."""
_FIXED = frozenset({0x39, 0x41})
"""Tags of the times."""
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
"""Ids that are none."""
_KEY, _VALUE, _TEXT = 0x0A, 0x12, 0x0A

SLOTS = frozenset(
    {
        *(otel.ERROR_TYPE, otel.OPERATION, otel.INPUT_MESSAGES, otel.OUTPUT_MESSAGES),
        *(otel.TOOL_NAME, otel.TOOL_CALL_ID, otel.TOOL_ARGUMENTS, otel.TOOL_RESULT),
    }
)
"""The attributes that claims are made of."""
_KNOWN = SLOTS | COLUMNS | {otel.INSTRUCTIONS, otel.TOOL_DEFINITIONS}
"""Attributes without the messages, the calls and the results that older conventions have elsewhere."""
_ODD = MARKS | {fw.LANGSMITH_KIND, otel.SCOPE_NAME, lf.LEVEL, END, ai.PROMPT_MESSAGES}
"""Further attributes that change how a span is read."""
_ODD_SCOPES = scopes.ADK | scopes.TEXT_PARTS


class PlainSpan(msgspec.Struct, gc=False):
    """A plain span: the texts of `SLOTS`, and its further attributes as rules may name them.

    `has_more` is whether it has further attributes with content, `failed` whether its status is an error.
    """

    texts: dict[str, str]
    attributes: dict[str, str]
    has_more: bool
    failed: bool


_Pair: TypeAlias = tuple[str, str | None, str | None, bool]
"""An attribute: its name, its text in `texts` and in `attributes`, and whether it is further content."""


def plain_span(request: bytes) -> PlainSpan | None:
    """Return the only span of a request; None where it is not plain, or where the request is another one."""
    try:
        resource, scope, (at, stop) = places_in(request)
        named, _ = scope_of(request[slice(*scope)])
        if named in _ODD_SCOPES:
            return None
        found = _fields(request, at, stop)
        return None if found is None else _whole(*found, named, request[slice(*resource)])
    except (DecodeError, ValueError, IndexError):
        # A text that is no UTF-8 raises a ValueError, and a cut field an IndexError.
        return None


def _fields(data: bytes, at: int, stop: int) -> tuple[list[_Pair], bool] | None:
    """Return the attributes of a span by its offsets, and whether it failed; None where it is not plain."""
    if data[at : at + 2] != _TRACE or data[at + 18 : at + 20] != _SPAN:
        return None
    if data[at + 2 : at + 18] == _NO_TRACE or data[at + 20 : at + 28] == _NO_SPAN:
        return None
    pairs: list[_Pair] = []
    status: bytes | None = None
    at += 28
    while at < stop:
        tag, size = data[at], data[at + 1]
        begin = at + 2
        if tag in _FIXED:
            at += 9
            continue
        if tag == _FLAGS and size == 1:
            at += 6
            continue
        if size > 127:
            size, begin = varint(data, at + 1)
        at = begin + size
        if tag == _ATTRIBUTE:
            field = data[begin:at]
            pair = _cached_pair(field) if size <= _CACHED_BYTES_MAX else _pair(field)
            if pair is None:
                return None
            pairs.append(pair)
        elif tag == _KIND:
            at = begin
        elif tag == _STATUS and status is None:
            status = data[begin:at]
            if size > _CACHED_BYTES_MAX:
                return None
        elif tag != _PARENT and not (tag == _NAME and data[begin:at].isascii()):
            return None
    return (pairs, _has_failed(status or b"")) if at == stop else None


@lru_cache(maxsize=CACHED_MAX)
def _has_failed(status: bytes) -> bool:
    return Status.FromString(status).code == Status.STATUS_CODE_ERROR


def _whole(pairs: list[_Pair], failed: bool, scope: str, resource: bytes) -> PlainSpan | None:
    """Return the span with these attributes, and those of its scope and its resource, like `attributes_of`.

    None where two have one name, or where there are too many.
    """
    found = {otel.SCOPE_NAME: scope} if scope else {}
    texts: dict[str, str] = {}
    names: set[str] = set()
    has_more = False
    for name, slot, text, is_more in pairs:
        names.add(name)
        has_more = has_more or is_more
        if text is not None:
            found[name] = text
        if slot is not None:
            texts[name] = slot
    for name, text in _resource_attributes(resource):
        found.setdefault(name, text)
    is_odd = len(names) < len(pairs) or len(found) > ATTRIBUTES_MAX or len(scope) > ATTRIBUTE_CHARS_MAX
    return None if is_odd else PlainSpan(texts, found, has_more, failed)


def _pair(field: bytes) -> _Pair | None:
    """Return an attribute in protobuf; None where its span is not plain."""
    size, begin = varint(field, 1)
    at = begin + size
    if field[0] == _KEY and field[at] == _VALUE:
        inner, at = varint(field, at + 1)
        if inner == len(field) - at and field[at] == _TEXT:
            inner, at = varint(field, at + 1)
            if inner == len(field) - at:
                return _named(str(field[begin : begin + size], "utf-8"), str(field[at:], "utf-8"))
    pair = KeyValue.FromString(field)
    try:
        value = value_of_protobuf(pair.value)
    except Unreadable:
        return None
    return _named(pair.key, value) if isinstance(value, str) else _other(pair.key, value)


_cached_pair = lru_cache(maxsize=CACHED_MAX)(_pair)


def _named(name: str, text: str) -> _Pair | None:
    """Return an attribute with a text."""
    if not name or name in _ODD or name.startswith(MESSAGES):
        return None
    is_short = max(len(text), len(name)) <= ATTRIBUTE_CHARS_MAX and is_plain(name)
    return name, text if name in SLOTS else None, text if is_short else None, _is_more(name)


def _other(name: str, value: Value) -> _Pair | None:
    """Return an attribute with a value that is no text."""
    if name in SLOTS or _named(name, "") is None:
        return None
    return name, None, dict(plain_attributes({name: value})).get(name), _is_more(name)


def _is_more(name: str) -> bool:
    return not (name in _KNOWN or is_plain(name))


def _resource_attributes(resource: bytes) -> tuple[tuple[str, str], ...]:
    if len(resource) > ATTRIBUTE_CHARS_MAX:
        return tuple(plain_attributes(resource_of(resource)))
    return _cached_attributes(resource)


@lru_cache(maxsize=CACHED_MAX)
def _cached_attributes(resource: bytes) -> tuple[tuple[str, str], ...]:
    return tuple(plain_attributes(resource_of(resource)))
