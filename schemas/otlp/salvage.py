"""The salvage of a request in protobuf that does not parse as a whole.

A parser rejects a whole message for one text that is not UTF-8, such as a text cut to a number of bytes.
This module removes the smallest part around the damage and puts the rest together again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status, TracesData

from .decoded import Decoding
from .wire import BYTES, WireField, delimited, fields_of

FIELDS_MAX = 1_000_000
"""Fields of a damaged request that are examined (some seconds' work) before the whole request is rejected."""

_CHILDREN: dict[type[Message], dict[int, tuple[str, type[Message]]]] = {
    TracesData: {1: ("resource", ResourceSpans)},
    ResourceSpans: {1: ("", Resource), 2: ("scope", ScopeSpans)},
    Resource: {1: ("attribute", KeyValue)},
    ScopeSpans: {1: ("", InstrumentationScope), 2: ("span", Span)},
    InstrumentationScope: {3: ("scope attribute", KeyValue)},
    Span: {9: ("attribute", KeyValue), 11: ("event", Span.Event), 13: ("link", Span.Link), 15: ("", Status)},
    Span.Event: {3: ("attribute", KeyValue)},
    KeyValue: {2: ("", AnyValue)},
    LogsData: {1: ("resource", ResourceLogs)},
    ResourceLogs: {1: ("", Resource), 2: ("scope", ScopeLogs)},
    ScopeLogs: {1: ("", InstrumentationScope), 2: ("record", LogRecord)},
    LogRecord: {5: ("", AnyValue), 6: ("attribute", KeyValue)},
}
"""The parts of a message by field number: their name in a place (none where there is one) and their kind."""

_TEXTS: dict[type[Message], frozenset[int]] = {
    ResourceSpans: frozenset({3}),
    ScopeSpans: frozenset({3}),
    InstrumentationScope: frozenset({1, 2}),
    Span: frozenset({3, 5}),
    Span.Event: frozenset({2}),
    Status: frozenset({2}),
    ResourceLogs: frozenset({3}),
    ScopeLogs: frozenset({3}),
    LogRecord: frozenset({3}),
}
"""Texts that can be left out of a message."""


class _TooManyFields(Exception):
    """More fields than `FIELDS_MAX`."""


def salvaged(data: bytes, decoding: Decoding, kind: type[Message] = TracesData) -> bytes | None:
    """Return the request without its damaged parts, as bytes that parse; None where nothing remains.

    Each removed part becomes a flaw of `decoding`. A lost span, resource or attribute remains as an empty
    message, so that the numbers of the rest do not change, and its place is excused from a second flaw.
    """
    left = [FIELDS_MAX]
    flaws = Decoding()
    try:
        whole = _sound(kind, data, "request", flaws, left)
    except _TooManyFields:
        decoding.flaw("request", "otlp-protobuf", f"is damaged and has more than {FIELDS_MAX} fields")
        return None
    decoding.flaws.extend(flaws.flaws)
    decoding.unlisted += flaws.unlisted
    decoding.excused |= flaws.excused
    return None if "request" in flaws.excused else whole


def _sound(kind: type[Message], data: bytes, place: str, decoding: Decoding, left: list[int]) -> bytes:
    """Return the message without its damaged parts; empty, and its place excused, where nothing remains."""
    if _parses(kind, data):
        return data
    if kind is AnyValue:
        decoding.flaw(place, "otlp-value", "has a value that is not UTF-8, nested too deeply or damaged")
        return b""
    parts: list[bytes] = []
    counts: Counter[int] = Counter()
    try:
        fields = list(_fields(data, left))
    except ValueError:
        fields = []
    for field in fields:
        counts[field.number] += 1
        parts.append(_part(kind, data, field, counts[field.number], place, decoding, left))
    whole = b"".join(parts)
    if not fields or not _parses(kind, whole):
        decoding.flaw(place, "otlp-protobuf", "is not OTLP in protobuf: damaged, cut off or not UTF-8")
        decoding.excused.add(place)
        return b""
    return whole


def _part(
    kind: type[Message],
    data: bytes,
    field: WireField,
    nth: int,
    place: str,
    decoding: Decoding,
    left: list[int],
) -> bytes:
    """Return the bytes of a message's field, the nth with its number, without damaged parts."""
    whole = data[field.start : field.end]
    if field.wire != BYTES:
        return whole
    content = data[field.content : field.end]
    child = _CHILDREN.get(kind, {}).get(field.number)
    if child is not None:
        name, inner = child
        above = "" if place == "request" else f"{place}, "
        sound = _sound(inner, content, f"{above}{name} {nth}" if name else place, decoding, left)
        return whole if sound is content else delimited(field.number, sound)
    if field.number in _TEXTS.get(kind, ()) and not _is_text(content):
        decoding.flaw(place, "otlp-text", "has a name or a note that is not UTF-8")
        return b""
    return whole


def _parses(kind: type[Message], data: bytes) -> bool:
    try:
        kind.FromString(data)
    except DecodeError:
        return False
    return True


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fields(data: bytes, left: list[int]) -> Iterator[WireField]:
    """Yield the fields of a message; ValueError where the bytes are none."""
    for field in fields_of(data, 0, len(data)):
        left[0] -= 1
        if left[0] < 0:
            raise _TooManyFields
        yield field
