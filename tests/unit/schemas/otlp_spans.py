"""Spans that the SDK made, as dumps have them, and requests of what a test wants in them."""

from __future__ import annotations

import json
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import IdGenerator, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, set_span_in_context
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.span import Span, SpanEvent

TRACE = "4bedea77bb33b9c5f280371eae21ea97"
ROOT = "8100d9dbee1f3e47"
CHILD = "00c0ffee00000002"
START = 1_771_368_896_312_716_000


class Ids(IdGenerator):
    """The ids above, in turn."""

    def __init__(self) -> None:
        self.left = [int(ROOT, 16), int(CHILD, 16)]

    def generate_trace_id(self) -> int:
        """The one trace."""
        return int(TRACE, 16)

    def generate_span_id(self) -> int:
        """The next span's id."""
        return self.left.pop(0)


def sdk_spans() -> tuple[ReadableSpan, ...]:
    """A failed child and its root, as the SDK hands them to an exporter."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "desk"}), id_generator=Ids())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    root = tracer.start_span("invoke_agent", start_time=START)
    child = tracer.start_span(
        "chat",
        set_span_in_context(root),
        attributes={"n": 3, "tags": ["a", "b"], "ok": True},
        start_time=START,
    )
    child.add_event("said", {"text": "é"}, timestamp=START + 1_000)
    child.set_status(Status(StatusCode.ERROR, "no"))
    child.end(START + 2_000)
    root.end(START + 3_000)
    return exporter.get_finished_spans()


def sent_spans(scope: str = "agent") -> tuple[Span, ...]:
    """The same two, decoded."""
    span_events = (SpanEvent("said", START + 1_000, {"text": "é"}),)
    attributes = {"n": 3, "tags": ["a", "b"], "ok": True}
    desk = {"service.name": "desk"}
    return (
        Span(TRACE, CHILD, ROOT, "chat", START, START + 2_000, attributes, span_events, True, desk, scope),
        Span(TRACE, ROOT, None, "invoke_agent", START, START + 3_000, {}, (), False, desk, scope),
    )


def integers(span: ReadableSpan) -> dict[str, Any]:
    """A span as some agent frameworks dump it: ids as integers, times in nanoseconds."""
    value = json.loads(span.to_json())
    parent_id = value.pop("parent_id", None)
    context = {"trace_id": int(TRACE, 16), "span_id": int(value["context"]["span_id"], 16)}
    parent = {**context, "span_id": int(parent_id, 16)} if parent_id else None
    events = [{**event, "timestamp": START + 1_000} for event in value["events"]]
    status = {"status_code": value["status"]["status_code"].lower()}
    times = {"start_time": span.start_time, "end_time": span.end_time}
    return {**value, **times, "context": context, "parent": parent, "events": events, "status": status}


def javascript(span: ReadableSpan) -> dict[str, Any]:
    """A span as a dump of the JavaScript SDK's objects has it."""
    value = integers(span)

    def moment(ns: int) -> list[int]:
        return list(divmod(ns, 1_000_000_000))

    return {
        "name": value["name"],
        "spanContext": {"traceId": TRACE, "spanId": f"{value['context']['span_id']:016x}"},
        "parentSpanId": f"{value['parent']['span_id']:016x}" if value["parent"] else None,
        "startTime": moment(value["start_time"]),
        "endTime": moment(value["end_time"]),
        "attributes": value["attributes"],
        "events": [
            {"name": e["name"], "time": moment(e["timestamp"]), "attributes": e["attributes"]}
            for e in value["events"]
        ],
        "status": {"code": 2 if value["status"]["status_code"] == "error" else 0},
        "resource": {"attributes": value["resource"]["attributes"]},
        "instrumentationScope": {"name": "agent"},
    }


def codes(found: Decoded) -> list[tuple[str, str]]:
    """Place and code of each flaw."""
    return [(flaw.place, flaw.code) for flaw in found.flaws]


def request(*spans: Message) -> TracesData:
    """A request of these spans."""
    whole = TracesData()
    whole.resource_spans.add().scope_spans.add().spans.extend(spans)
    return whole


def message(**fields: Any) -> Message:
    """A span with good ids."""
    return Message(**{"trace_id": bytes.fromhex(TRACE), "span_id": bytes.fromhex(ROOT), **fields})


def span_json(**fields: Any) -> dict[str, Any]:
    """A span of OTLP JSON with good ids, in a request."""
    span = {"traceId": TRACE, "spanId": ROOT, **fields}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def attributes(**values: Any) -> dict[str, Any]:
    """The attributes of a request with one span that has these, by key the AnyValue's JSON."""
    pairs = [{"key": key, "value": value} for key, value in values.items()]
    return span_json(attributes=pairs)


def delimited(number: int, content: bytes) -> bytes:
    """A field of protobuf with less than 16,384 bytes in it."""
    size = len(content)
    return bytes([number << 3 | 2, size & 127 | 128, size >> 7]) + content
