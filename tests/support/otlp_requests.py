"""Spans as OTLP requests in protobuf and JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import cast

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2
from tracline.schemas.span import Span, Value

_IDS = ("traceId", "spanId", "parentSpanId")


def to_otlp(spans: Iterable[Span]) -> ExportTraceServiceRequest:
    """Return a request with the spans; adjacent spans of one resource and scope share its messages."""
    request = ExportTraceServiceRequest()
    for _, same_resource in groupby(spans, key=lambda span: span.resource):
        resource_spans = request.resource_spans.add()
        for _, group in groupby(same_resource, key=lambda span: span.scope):
            members = list(group)
            resource_spans.resource.CopyFrom(Resource(attributes=_attributes(members[0].resource)))
            scope_spans = resource_spans.scope_spans.add()
            scope_spans.scope.name = members[0].scope
            scope_spans.spans.extend(_span(span) for span in members)
    return request


def requests(spans: Iterable[Span], size: int = 512) -> Iterator[ExportTraceServiceRequest]:
    """Yield the spans as requests of `size` spans, like a batching exporter."""
    left = iter(spans)
    while batch := list(islice(left, size)):
        yield to_otlp(batch)


def to_otlp_json(request: ExportTraceServiceRequest) -> dict[str, object]:
    """Return the request as OTLP/JSON: ids in hex, times as decimal text, enums as numbers."""
    value = MessageToDict(request, use_integers_for_enums=True)
    _hex_ids(value)
    return value


def _hex_ids(value: object) -> None:
    # The protobuf library writes bytes in base64; OTLP/JSON departs from it for the three ids.
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        for name, inner in fields.items():
            if name in _IDS:
                fields[name] = base64.b64decode(str(inner)).hex()
            elif name != "attributes":
                _hex_ids(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            _hex_ids(inner)


def _span(span: Span) -> trace_pb2.Span:
    status = trace_pb2.Status(code=trace_pb2.Status.STATUS_CODE_ERROR) if span.failed else None
    return trace_pb2.Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_id or ""),
        name=span.name,
        kind=trace_pb2.Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=span.start,
        end_time_unix_nano=span.end,
        attributes=_attributes(span.attributes),
        events=[
            trace_pb2.Span.Event(
                name=event.name, time_unix_nano=event.time, attributes=_attributes(event.attributes)
            )
            for event in span.events
        ],
        status=status,
    )


def _attributes(attributes: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: Value) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[_any_value(inner) for inner in value]))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=_attributes(value)))
