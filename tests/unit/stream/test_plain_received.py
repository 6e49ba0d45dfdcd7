"""Receivers read plain requests with compiled loops, once these are compiled."""

from __future__ import annotations

import asyncio

import pytest
from tracline.schemas.otlp.signal import Signal
from tracline.schemas.plain_traces.requests import PlainRequest
from tracline.schemas.span import Span
from tracline.stream.ingest.meter import OtlpTransport, RequestKind
from tracline.stream.ingest.receive import PartialSuccess, RequestHandler
from tracline.stream.ingest.request import Encoding
from tracline.stream.process.serve_metrics import ServeMetrics

from ...support.http.receiving import CAME, StoringIntake
from ...support.otlp_requests import to_otlp

KIND = RequestKind(Signal.SPANS, OtlpTransport.HTTP, Encoding.PROTOBUF)
SCOPE = ("deployment.environment",)


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("spans", [1, 3, 700])
def test_a_plain_request_is_read_by_loops_that_are_compiled(spans: int, is_compiled: bool) -> None:
    """Until then it is decoded; the answer and the counts are the same, whatever the number of spans."""
    made = [Span("5e" * 16, f"{1 + number:016x}", None, "chat", CAME, CAME + 1) for number in range(spans)]
    body = to_otlp(made).SerializeToString()
    intake, metrics = StoringIntake(), ServeMetrics(())

    async def handled() -> PartialSuccess:
        handler = RequestHandler(
            intake, metrics.receiver, now=lambda: CAME, scope=SCOPE, is_compiled=lambda: is_compiled
        )
        with handler.admissions.admit("peer") as admission:
            return await handler.handle(admission, KIND, body)

    assert asyncio.run(handled()) == PartialSuccess()
    (request,) = intake.requests
    assert isinstance(request.content, PlainRequest) is is_compiled
    counted = request.content.size if isinstance(request.content, PlainRequest) else request.content.items
    assert counted == spans
    if isinstance(request.content, PlainRequest):
        assert request.content.batch.scope == SCOPE
        assert request.content.record.time == CAME
    labels = {"transport": "http", "encoding": "protobuf"}
    assert metrics.registry.get_sample_value("tracline_receiver_spans_total", labels) == spans
