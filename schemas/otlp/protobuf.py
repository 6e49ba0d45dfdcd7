"""OTLP in protobuf: the bytes of a trace export request into spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from ..span import Span, SpanEvent, Value
from ..time import NS_MAX
from .attributes import from_protobuf
from .decoded import BAD_PARENT_ID, BAD_SPAN_ID, BAD_TRACE_ID, Decoded, Decoding, Place
from .salvage import salvaged

_ERROR = Status.STATUS_CODE_ERROR
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_LIBRARY_SPANS = 1000
"""The field with the spans before OTLP 0.15 had scopes; its layout is that of ScopeSpans."""


def decode_protobuf(data: bytes) -> Decoded:
    """Return the spans of an ExportTraceServiceRequest (TracesData on the wire), and its flaws.

    Never raises for any bytes. Bytes that are no protobuf give one flaw and no span. Where only a part is
    damaged, the smallest part around the damage is left out: an attribute's value, a span.
    The caller limits the size of `data`; parsed, it takes up to a hundred times as much.
    """
    decoding = Decoding()
    try:
        request = TracesData.FromString(data)
    except DecodeError:
        whole = salvaged(data, decoding)
        if whole is None:
            return decoding.done()
        request = TracesData.FromString(whole)
    for number, resource in enumerate(request.resource_spans, 1):
        _resource(resource, f"resource {number}", decoding)
    return decoding.done()


def _resource(message: ResourceSpans, place: str, decoding: Decoding) -> None:
    pairs = message.resource.attributes
    resource = from_protobuf(pairs, len(pairs), lambda: place, decoding)
    scopes = message.scope_spans or list(_library_spans(message, place, decoding))
    for number, scope in enumerate(scopes, 1):
        name = scope.scope.name, scope.scope.version
        for index, span in enumerate(scope.spans, 1):
            decode_span(
                span, resource, name, lambda n=number, i=index: f"{place}, scope {n}, span {i}", decoding
            )


def _library_spans(message: ResourceSpans, place: str, decoding: Decoding) -> Iterator[ScopeSpans]:
    """Yield the spans of exporters from before scopes, an unknown field of today's messages."""
    for field in cast("Iterable[object]", UnknownFieldSet(message)):
        if getattr(field, "field_number", 0) != _LIBRARY_SPANS:
            continue
        try:
            yield ScopeSpans.FromString(cast("bytes", getattr(field, "data", b"")))
        except (DecodeError, TypeError):
            decoding.flaw(
                place, "otlp-protobuf", "holds spans of an instrumentation library that are damaged"
            )


def decode_span(
    message: Message, resource: dict[str, Value], scope: tuple[str, str], place: Place, decoding: Decoding
) -> None:
    """Add a span with its resource's attributes and its scope's name and version; or reject it."""
    trace_id = message.trace_id.hex()
    span_id = message.span_id.hex()
    if len(trace_id) != 32 or trace_id == _NO_TRACE:
        decoding.reject(place, *BAD_TRACE_ID)
        return
    if len(span_id) != 16 or span_id == _NO_SPAN:
        decoding.reject(place, *BAD_SPAN_ID)
        return
    parent: str = message.parent_span_id.hex()
    if len(parent) not in (0, 16):
        decoding.flaw(place, *BAD_PARENT_ID)
    parent_id = parent if len(parent) == 16 and parent != _NO_SPAN else None
    pairs, lost = message.attributes, decoding.lost
    attributes = from_protobuf(pairs, len(pairs), place, decoding)
    dropped = message.dropped_attributes_count + decoding.lost - lost
    events = _events(message, place, decoding) if message.events else ()
    decoding.spans.append(
        Span(
            trace_id,
            span_id,
            parent_id,
            message.name,
            _time(message.start_time_unix_nano, place, decoding),
            _time(message.end_time_unix_nano, place, decoding),
            attributes,
            events,
            message.status.code == _ERROR,
            resource,
            scope[0],
            dropped,
            message.dropped_events_count + sum(not event.name for event in events),
            scope[1],
        )
    )


def _events(message: Message, place: Place, decoding: Decoding) -> tuple[SpanEvent, ...]:
    events: list[SpanEvent] = []
    for number, event in enumerate(message.events, 1):

        def inner(n: int = number) -> str:
            return f"{place()}, event {n}"

        pairs, lost = event.attributes, decoding.lost
        time = _time(event.time_unix_nano, inner, decoding)
        attributes = from_protobuf(pairs, len(pairs), inner, decoding)
        dropped = event.dropped_attributes_count + decoding.lost - lost
        events.append(SpanEvent(event.name, time, attributes, dropped))
    return tuple(events)


def _time(ns: int, place: Place, decoding: Decoding) -> int:
    if ns > NS_MAX:
        decoding.flaw(place, "otlp-time", "has a time after the year 2262")
        return 0
    return ns
