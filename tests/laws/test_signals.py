"""The signals of requests are recognised; log records decode alike in any encoding."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.schemas.otlp.decode import decode_json, decode_logs_protobuf, decode_protobuf, decode_request
from tracline.schemas.otlp.decoded import CODES, Decoded
from tracline.schemas.otlp.signal import Signal, signal_of

from ..support.conversations.recordings import FOLDER, names, requests_of
from ..support.otlp_messages import LOGS, METRICS, REQUESTS, otlp_json, protobuf_json
from .quick_draws import quickly

FEW = settings(max_examples=120)


def count(request: LogsData) -> int:
    """Return how many log records a request has."""
    return sum(len(scope.log_records) for resource in request.resource_logs for scope in resource.scope_logs)


def check(decoded: Decoded, records: int) -> None:
    """Check that each of so many records was decoded, passed over, unlinked or rejected, and nothing else."""
    assert decoded.spans == ()
    found = len(decoded.records) + decoded.passed_over + decoded.unlinked
    assert found + decoded.rejected == records
    assert all(flaw.code in CODES and flaw.place for flaw in decoded.flaws)


@given(quickly(REQUESTS))
@FEW
def test_a_request_of_spans_is_never_one_of_log_records(request: TracesData) -> None:
    """Whatever its spans hold, times at zero among it, the same is decoded as where the signal is known."""
    data = request.SerializeToString()
    assert signal_of(data) is Signal.SPANS
    assert repr(decode_request(data)) == repr(decode_protobuf(data))


@given(quickly(LOGS))
@FEW
def test_a_request_of_log_records_is_never_one_of_spans(request: LogsData) -> None:
    """Log records with the time of observation are decoded as where the signal is known."""
    data = request.SerializeToString()
    decoded = decode_request(data)
    check(decoded, count(request))
    assert repr(decoded) == repr(decode_logs_protobuf(data))


@given(quickly(METRICS))
@FEW
def test_a_request_of_metrics_is_counted_and_passed_over(request: MetricsData) -> None:
    """Also where the texts of its metrics are as long as a span's ids."""
    assert decode_request(request.SerializeToString()) == Decoded(metrics=1)


@given(quickly(LOGS), st.booleans())
@FEW
def test_log_records_are_the_same_in_protobuf_and_json(request: LogsData, snake: bool) -> None:
    """In OTLP's JSON and in protobuf's own, in camel and in snake case."""
    expected = decode_logs_protobuf(request.SerializeToString())
    value = protobuf_json(request, snake=snake)
    for form in (value, otlp_json(value)) if not snake else (value,):
        assert repr(decode_json(json.loads(json.dumps(form)))) == repr(expected)


@given(
    quickly(LOGS), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)
)
@settings(max_examples=200)
def test_log_records_with_wrong_bytes_are_decoded_or_refused(
    request: LogsData, changes: list[tuple[int, int]]
) -> None:
    """Requests in which bytes were changed or cut off give records and flaws, and never raise."""
    for data in (request.SerializeToString(), json.dumps(protobuf_json(request)).encode()):
        wrong = bytearray(data or b"\n")
        for at, byte in changes:
            wrong[at % len(wrong)] = byte
        for damaged in (bytes(wrong), bytes(wrong[: changes[0][0] % len(wrong)])):
            for decoded in (decode_request(damaged), decode_logs_protobuf(damaged)):
                assert all(flaw.code in CODES and flaw.place for flaw in decoded.flaws)
                assert decoded.flaws or not decoded.rejected


@pytest.mark.parametrize("name", names())
def test_signals_of_recorded_requests_are_recognised(name: str) -> None:
    """Each request of each recorded framework is known for what it is."""
    for folder, signal in (("otlp", Signal.SPANS), ("other", Signal.LOGS)):
        files = (FOLDER / name / folder).glob("*.zst")
        assert all(signal_of(request) is signal for file in files for request in requests_of(file))
