"""OTLP in protobuf: the bytes of a trace export request into spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from ..span import Span, SpanEvent, Value
from .attributes import from_protobuf
from .decoded import TIME_MAX, Decoded, Decoding, Place
from .salvage import salvaged

_ERROR = Status.STATUS_CODE_ERROR
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_LIBRARY_SPANS = 1000
"""The field that held spans before OTLP 0.15 had scopes; what stands in it is laid out as ScopeSpans is."""


def decode_protobuf(data: bytes) -> Decoded:
    """Return the spans of an ExportTraceServiceRequest (TracesData on the wire), and what of it cannot be read.

    Never raises for what the bytes may hold. Bytes that are no protobuf give one flaw and no span. Where only
    a part is damaged, the least part that holds the damage is left out: an attribute's value, a span.
    The caller limits the size of `data`; parsed, it takes up to a hundred times as much.
    """
    reading = Decoding()
    try:
        request = TracesData.FromString(data)
    except DecodeError:
        whole = salvaged(data, reading)
        if whole is None:
            return reading.done()
        request = TracesData.FromString(whole)
    for number, resource in enumerate(request.resource_spans, 1):
        _resource(resource, f"resource {number}", reading)
    return reading.done()


def _resource(message: ResourceSpans, place: str, reading: Decoding) -> None:
    pairs = message.resource.attributes
    resource = from_protobuf(pairs, len(pairs), lambda: place, reading)
    scopes = message.scope_spans or list(_library_spans(message, place, reading))
    for number, scope in enumerate(scopes, 1):
        name = scope.scope.name, scope.scope.version
        for index, span in enumerate(scope.spans, 1):
            _span(span, resource, name, lambda n=number, i=index: f"{place}, scope {n}, span {i}", reading)


def _library_spans(message: ResourceSpans, place: str, reading: Decoding) -> Iterator[ScopeSpans]:
    """Yield the spans of exporters from before scopes, which today's messages hold as an unknown field."""
    for field in cast("Iterable[object]", UnknownFieldSet(message)):
        if getattr(field, "field_number", 0) != _LIBRARY_SPANS:
            continue
        try:
            yield ScopeSpans.FromString(cast("bytes", getattr(field, "data", b"")))
        except (DecodeError, TypeError):
            reading.flaw(place, "otlp-protobuf", "holds spans of an instrumentation library that are damaged")


def _span(
    message: Message, resource: dict[str, Value], scope: tuple[str, str], place: Place, reading: Decoding
) -> None:
    trace_id = message.trace_id.hex()
    span_id = message.span_id.hex()
    if len(trace_id) != 32 or trace_id == _NO_TRACE:
        reading.rejected += 1
        reading.flaw(place, "otlp-trace-id", "has a trace id that is not 16 bytes, or all zero")
        return
    if len(span_id) != 16 or span_id == _NO_SPAN:
        reading.rejected += 1
        reading.flaw(place, "otlp-span-id", "has a span id that is not 8 bytes, or all zero")
        return
    parent_id: str | None = message.parent_span_id.hex()
    if len(parent_id) != 16 or parent_id == _NO_SPAN:
        if len(parent_id) not in (0, 16):
            reading.flaw(place, "otlp-parent-id", "has a parent id that is not 8 bytes")
        parent_id = None
    pairs, lost = message.attributes, reading.lost
    attributes = from_protobuf(pairs, len(pairs), place, reading)
    dropped = message.dropped_attributes_count + reading.lost - lost
    events = _events(message, place, reading) if message.events else ()
    reading.spans.append(
        Span(
            trace_id,
            span_id,
            parent_id,
            message.name,
            _time(message.start_time_unix_nano, place, reading),
            _time(message.end_time_unix_nano, place, reading),
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


def _events(message: Message, place: Place, reading: Decoding) -> tuple[SpanEvent, ...]:
    told: list[SpanEvent] = []
    for number, event in enumerate(message.events, 1):

        def inner(n: int = number) -> str:
            return f"{place()}, event {n}"

        pairs, lost = event.attributes, reading.lost
        time = _time(event.time_unix_nano, inner, reading)
        attributes = from_protobuf(pairs, len(pairs), inner, reading)
        dropped = event.dropped_attributes_count + reading.lost - lost
        told.append(SpanEvent(event.name, time, attributes, dropped))
    return tuple(told)


def _time(ns: int, place: Place, reading: Decoding) -> int:
    if ns > TIME_MAX:
        reading.flaw(place, "otlp-time", "has a time after the year 2262")
        return 0
    return ns
