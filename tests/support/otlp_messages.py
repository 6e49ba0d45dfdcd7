"""Generated export requests as protobuf messages, and their JSON as OTLP and protobuf's mapping have it."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.json_format import MessageToDict
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status, TracesData

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NS = st.integers(0, 2**63 - 1)
SCALARS = st.one_of(
    st.builds(AnyValue),
    st.builds(AnyValue, string_value=TEXT),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue, double_value=st.floats()),
    st.builds(AnyValue, bytes_value=st.binary(max_size=5)),
)


def _array(items: list[AnyValue]) -> AnyValue:
    value = AnyValue()
    value.array_value.values.extend(items)
    return value


def _kvlist(items: dict[str, AnyValue]) -> AnyValue:
    value = AnyValue()
    value.kvlist_value.values.extend(pairs(items))
    return value


def pairs(items: dict[str, AnyValue]) -> list[KeyValue]:
    """Key-value messages of a dictionary."""
    return [KeyValue(key=key, value=value) for key, value in items.items()]


VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(_array) | st.dictionaries(TEXT, inner, max_size=3).map(_kvlist)
    ),
    max_leaves=5,
)
ATTRIBUTES = st.dictionaries(TEXT.filter(bool), VALUES, max_size=4).map(pairs)
TRACE_IDS = st.binary(min_size=16, max_size=16).filter(any)
SPAN_IDS = st.binary(min_size=8, max_size=8).filter(any)
DROPPED = st.sampled_from([0, 1, 2**32 - 1])
EVENTS = st.builds(
    Span.Event, name=TEXT, time_unix_nano=NS, attributes=ATTRIBUTES, dropped_attributes_count=DROPPED
)
SPANS = st.builds(
    Span,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    parent_span_id=st.just(b"") | SPAN_IDS,
    name=TEXT,
    start_time_unix_nano=NS,
    end_time_unix_nano=NS,
    attributes=ATTRIBUTES,
    events=st.lists(EVENTS, max_size=2),
    dropped_attributes_count=DROPPED,
    dropped_events_count=DROPPED,
    status=st.builds(Status, code=st.sampled_from(Status.StatusCode.values()), message=TEXT),
)
SCOPES = st.builds(
    ScopeSpans, scope=st.builds(InstrumentationScope, name=TEXT), spans=st.lists(SPANS, max_size=3)
)
RESOURCES = st.builds(
    ResourceSpans,
    resource=st.builds(Resource, attributes=ATTRIBUTES),
    scope_spans=st.lists(SCOPES, max_size=2),
)
REQUESTS = st.builds(TracesData, resource_spans=st.lists(RESOURCES, max_size=2))


EVENT_NAMES = st.sampled_from(["", "gen_ai.user.message", "gen_ai.choice", "app.log"])
RECORDS = st.builds(
    LogRecord,
    time_unix_nano=st.just(0) | NS,
    observed_time_unix_nano=st.integers(1, 2**63 - 1),
    severity_number=st.sampled_from([0, 9]),
    severity_text=TEXT,
    body=VALUES,
    attributes=ATTRIBUTES,
    dropped_attributes_count=DROPPED,
    flags=st.sampled_from([0, 1]),
    trace_id=st.just(b"") | TRACE_IDS,
    span_id=st.just(b"") | SPAN_IDS,
    event_name=EVENT_NAMES,
)
LOG_SCOPES = st.builds(
    ScopeLogs, scope=st.builds(InstrumentationScope, name=TEXT), log_records=st.lists(RECORDS, max_size=3)
)
LOG_RESOURCES = st.builds(
    ResourceLogs,
    resource=st.builds(Resource, attributes=ATTRIBUTES),
    scope_logs=st.lists(LOG_SCOPES, max_size=2),
)
LOGS = st.builds(LogsData, resource_logs=st.lists(LOG_RESOURCES, max_size=2))
POINTS = st.lists(
    st.builds(NumberDataPoint, time_unix_nano=st.integers(1, 2**63 - 1), as_int=st.integers(0, 9)),
    min_size=1,
    max_size=2,
)
SIZED = st.text("abcdefgh.", min_size=16, max_size=16), st.text("abcdefgh ", min_size=8, max_size=8)
"""Names and descriptions of metrics that are as long as the ids of a span."""
METRICS_OF_A_SCOPE = st.one_of(
    st.builds(
        Metric,
        name=SIZED[0] | TEXT.filter(bool),
        description=SIZED[1] | TEXT,
        gauge=st.builds(Gauge, data_points=POINTS),
    ),
    st.builds(
        Metric,
        name=SIZED[0] | TEXT.filter(bool),
        description=SIZED[1] | TEXT,
        sum=st.builds(Sum, data_points=POINTS),
    ),
)
METRICS = st.builds(
    MetricsData,
    resource_metrics=st.lists(
        st.builds(
            ResourceMetrics,
            resource=st.builds(Resource, attributes=ATTRIBUTES),
            scope_metrics=st.lists(
                st.builds(ScopeMetrics, metrics=st.lists(METRICS_OF_A_SCOPE, min_size=1, max_size=2)),
                min_size=1,
                max_size=2,
            ),
        ),
        min_size=1,
        max_size=2,
    ),
)


def protobuf_json(
    request: TracesData | LogsData, *, snake: bool = False, numbers: bool = False
) -> dict[str, Any]:
    """The request by protobuf's own JSON mapping, ids in base64; also with empty fields and in snake case."""
    return MessageToDict(
        request,
        preserving_proto_field_name=snake,
        use_integers_for_enums=numbers,
        always_print_fields_with_no_presence=snake,
    )


def otlp_json(value: Any) -> Any:
    """The same JSON as OTLP has it: ids in hex, which protobuf's own mapping writes in base64."""
    if isinstance(value, list):
        return [otlp_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = {"traceId", "spanId", "parentSpanId"}
    return {
        key: base64.b64decode(item).hex() if key in ids else otlp_json(item) for key, item in value.items()
    }
