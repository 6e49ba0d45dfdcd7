"""Plain spans: those whose claims depend on a few attributes of OpenTelemetry's conventions.

The span is read from its bytes in one pass. A span with an event, an end mark, an attribute of another
convention, a lost attribute or anything else that the decoder would report is not plain.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

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

CACHED_MAX, _SMALL = 8_192, 127
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
        start, tag, size, begin = at, data[at], data[at + 1], at + 2
        if size > _SMALL and tag not in _FIXED:
            size, begin = varint(data, at + 1)
        at = begin + size
        if tag == _ATTRIBUTE:
            field = data[begin:at]
            pair = _cached_pair(field) if size <= _SMALL else _pair(field)
            if pair is None:
                return None
            pairs.append(pair)
        elif tag in _FIXED:
            # What was taken for a size is the first byte of a time.
            at = start + 9
        elif tag == _FLAGS and size == 1:
            at = begin + 4
        elif tag == _KIND:
            at = begin
        elif tag == _STATUS and status is None and size <= _SMALL:
            status = data[begin:at]
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
    at = 2 + field[1]
    if field[0] == _KEY and field[1] <= _SMALL and field[at] == _VALUE:
        name = field[2:at]
        size, at = varint(field, at + 1)
        if size == len(field) - at and field[at] == _TEXT:
            size, at = varint(field, at + 1)
            if size == len(field) - at:
                return _named(_use_of(name), str(field[at:], "utf-8"))
    pair = KeyValue.FromString(field)
    if len(pair.key) > _SMALL:
        return None
    try:
        value = value_of_protobuf(pair.value)
    except Unreadable:
        return None
    use = _use_of(pair.key.encode())
    return _named(use, value) if isinstance(value, str) else _other(use, value)


_cached_pair = lru_cache(maxsize=CACHED_MAX)(_pair)


class _Use(NamedTuple):
    """An attribute's name, and the use of attributes of that name in a span."""

    name: str
    is_odd: bool
    is_slot: bool
    is_further: bool
    is_more: bool


@lru_cache(maxsize=CACHED_MAX)
def _use_of(written: bytes) -> _Use:
    """Return the use of attributes by the bytes of their name; raise ValueError where these are no text."""
    name = written.decode()
    is_odd = not name or name in _ODD or name.startswith(MESSAGES)
    is_further = is_plain(name)
    return _Use(name, is_odd, name in SLOTS, is_further, not (name in _KNOWN or is_further))


def _named(use: _Use, text: str) -> _Pair | None:
    """Return an attribute with a text."""
    name, is_odd, is_slot, is_further, is_more = use
    if is_odd:
        return None
    is_short = is_further and len(text) <= ATTRIBUTE_CHARS_MAX
    return name, text if is_slot else None, text if is_short else None, is_more


def _other(use: _Use, value: Value) -> _Pair | None:
    """Return an attribute with a value that is no text."""
    if use.is_odd or use.is_slot:
        return None
    return use.name, None, dict(plain_attributes({use.name: value})).get(use.name), use.is_more


def _resource_attributes(resource: bytes) -> tuple[tuple[str, str], ...]:
    if len(resource) > ATTRIBUTE_CHARS_MAX:
        return tuple(plain_attributes(resource_of(resource)))
    return _cached_attributes(resource)


@lru_cache(maxsize=CACHED_MAX)
def _cached_attributes(resource: bytes) -> tuple[tuple[str, str], ...]:
    return tuple(plain_attributes(resource_of(resource)))
