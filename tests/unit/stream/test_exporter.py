"""Spans of the SDK as records: by trace, keyed as a collector keys them, within the limit."""

from __future__ import annotations

import socket

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext
from tracline.stream.kafka.care.exporter import KafkaSpanExporter, by_trace
from tracline.stream.kafka.settings import KafkaSettings


def span(trace: int, number: int, size: int = 10) -> ReadableSpan:
    """An ended span of a trace, with an attribute of that size."""
    context = SpanContext(trace, number, is_remote=False)
    attributes = {"gen_ai.output.messages": "x" * size}
    return ReadableSpan(f"{number}", context, attributes=attributes, start_time=1, end_time=2)


def names(value: bytes) -> list[str]:
    """The names of a request's spans, in their order."""
    request = ExportTraceServiceRequest.FromString(value)
    return [
        span.name for resource in request.resource_spans for of in resource.scope_spans for span in of.spans
    ]


def test_a_trace_is_one_record_with_its_id_as_the_key() -> None:
    """Spans that come mixed are put together by trace; the key is 32 lower-case hexadecimal digits."""
    requests, too_large = by_trace([span(0xAB, 1), span(7, 2), span(0xAB, 3)], 10_000)
    assert [(key, names(value)) for key, value in requests] == [
        (b"000000000000000000000000000000ab", ["1", "3"]),
        (b"00000000000000000000000000000007", ["2"]),
    ]
    assert too_large == 0


def test_a_trace_over_the_limit_is_halved_until_its_parts_fit() -> None:
    """Every record is within the limit and keyed by the trace; the spans keep their order, none is lost."""
    requests, too_large = by_trace([span(1, number, 300) for number in range(1, 14)], 1_000)
    assert too_large == 0
    assert max(len(value) for _, value in requests) <= 1_000
    assert [name for _, value in requests for name in names(value)] == [f"{n}" for n in range(1, 14)]
    assert {key for key, _ in requests} == {b"%032x" % 1}


def test_a_span_over_the_limit_is_counted_and_the_others_go() -> None:
    """It alone is left out."""
    requests, too_large = by_trace([span(1, 1), span(1, 2, 2_000), span(1, 3)], 1_000)
    assert too_large == 1
    assert [name for _, value in requests for name in names(value)] == ["1", "3"]


def test_no_spans_are_no_records() -> None:
    """The SDK may export nothing."""
    assert by_trace([], 1_000) == ([], 0)


@pytest.mark.parametrize("timeout_s", [0.001, 10, 3_600])
def test_an_exporter_has_a_producer_whatever_its_timeout(timeout_s: float) -> None:
    """A broker that listens is enough where there is nothing to send."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = KafkaSettings((f"127.0.0.1:{listener.getsockname()[1]}",))
        exporter = KafkaSpanExporter(settings, timeout_s=timeout_s)
        assert exporter.export([]) is SpanExportResult.SUCCESS
        exporter.shutdown()
