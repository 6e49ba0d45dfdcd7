"""OTLP's other signals, sent by the SDK's exporters as they are set up for all signals at once."""

from __future__ import annotations

import gzip
import json

import grpc
import httpx
import pytest
from google.protobuf.json_format import Parse
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.trace import TracerProvider
from tracline.schemas.otlp.signal import Signal
from tracline.stream.ingest.endpoint import ENDPOINTS
from tracline.stream.ingest.limits import ReceiverLimits
from tracline.stream.ingest.request import Encoding

from ...support.http.receiving import WAIT_S, BusyIntake, Running, StoringIntake, decoded, running

pytestmark = pytest.mark.slow

TOKEN = "correct-horse-battery-staple"
DROPPED = "tracline_receiver_metrics_dropped_total"
SERVICES = {endpoint.signal: f"/{endpoint.service}/Export" for endpoint in ENDPOINTS}
PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
CHOICE = "gen_ai.choice"
CARD = "4111 1111"


def measured() -> MetricsData:
    """Return what an SDK has measured of an agent."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    provider.get_meter("desk").create_histogram("gen_ai.client.token.usage").record(17)
    data = reader.get_metrics_data()
    provider.shutdown()
    assert data is not None
    return data


def metric_exporter(server: Running, transport: str, **headers: str) -> MetricExporter:
    """The SDK's exporter of metrics."""
    if transport == "http":
        return OTLPMetricExporter(f"{server.url}/v1/metrics", headers=headers)
    endpoint = f"http://127.0.0.1:{server.grpc_port}"
    return GrpcMetricExporter(endpoint, insecure=True, headers=tuple(headers.items()))


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_metrics_are_acknowledged_and_dropped(transport: str) -> None:
    """An SDK's export of metrics succeeds at the first attempt; nothing is stored, and it is counted."""
    intake = StoringIntake()
    with running(intake) as server:
        exporter = metric_exporter(server, transport)
        assert exporter.export(measured()) is MetricExportResult.SUCCESS
        exporter.shutdown()
        assert server.counts(DROPPED) == {(transport, "protobuf"): 1}
        for name in ("requests", "spans", "bytes", "refused"):
            assert server.counts(f"tracline_receiver_{name}_total") == {}
    assert intake.requests == []


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_metrics_are_answered_in_their_encoding(encoding: str) -> None:
    """The answer is an empty success in the encoding of the request, whatever its coding."""
    types = {"protobuf": "application/x-protobuf", "json": "application/json"}
    empty = {"protobuf": b"", "json": b"{}"}
    with running() as server:
        headers = {"Content-Type": types[encoding], "Content-Encoding": "gzip"}
        body = gzip.compress(b'{"resourceMetrics": []}' if encoding == "json" else b"")
        response = httpx.post(f"{server.url}/v1/metrics", content=body, headers=headers)
        assert (response.status_code, response.content) == (200, empty[encoding])
        assert response.headers["content-type"] == types[encoding]
        assert server.counts(DROPPED) == {("http", encoding): 1}


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_metrics_do_not_wait_for_the_disk(transport: str) -> None:
    """While no spans can be stored metrics are still acknowledged."""
    with running(BusyIntake("disk", 1.0)) as server:
        exporter = metric_exporter(server, transport)
        assert exporter.export(measured()) is MetricExportResult.SUCCESS
        exporter.shutdown()


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_metrics_need_the_token(transport: str) -> None:
    """If a token is asked for, metrics without it are refused like spans."""
    with running(bound="0.0.0.0", token=TOKEN) as server:
        for headers, result in (
            ({}, MetricExportResult.FAILURE),
            ({"authorization": f"Bearer {TOKEN}"}, MetricExportResult.SUCCESS),
        ):
            exporter = metric_exporter(server, transport, **headers)
            assert exporter.export(measured()) is result
            exporter.shutdown()
        assert server.counts("tracline_receiver_refused_total") == {("token",): 1}
        assert server.counts(DROPPED) == {(transport, "protobuf"): 1}


def test_metrics_are_limited_like_spans() -> None:
    """A request of metrics beyond the limit of bytes is refused, over HTTP and over gRPC."""
    with running(limits=ReceiverLimits(packed_bytes_max=1_000, unpacked_bytes_max=1_000)) as server:
        large = bytes(1_001)
        response = httpx.post(f"{server.url}/v1/metrics", content=large, headers=PROTOBUF)
        assert response.status_code == 413
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            call = channel.unary_unary(
                SERVICES[Signal.METRICS], None, ExportMetricsServiceResponse.FromString
            )
            with pytest.raises(grpc.RpcError) as caught:
                call(large, timeout=WAIT_S)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert call(b"", timeout=WAIT_S) == ExportMetricsServiceResponse()
        assert server.counts(DROPPED) == {("grpc", "protobuf"): 1}


def log_exporter(server: Running, transport: str) -> LogRecordExporter:
    """The SDK's exporter of log records."""
    if transport == "http":
        return OTLPLogExporter(f"{server.url}/v1/logs")
    return GrpcLogExporter(f"http://127.0.0.1:{server.grpc_port}", insecure=True)


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_the_sdk_delivers_log_records(transport: str) -> None:
    """An event with content arrives with its span's ids; a line of a program's log is counted, not read."""
    intake = StoringIntake()
    with running(intake) as server:
        provider = LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(log_exporter(server, transport)))
        logger = provider.get_logger("desk")
        with TracerProvider(shutdown_on_exit=False).get_tracer("desk").start_as_current_span("chat") as span:
            logger.emit(LogRecord(event_name=CHOICE, body={"message": {"content": "Hello."}, "index": 0}))
            logger.emit(LogRecord(body="a line"))
        provider.shutdown()
        assert server.counts("tracline_receiver_log_records_total") == {(transport, "protobuf"): 2}
        assert server.counts("tracline_receiver_requests_total") == {(transport, "protobuf"): 2}
        assert server.counts("tracline_receiver_refused_total") == {}
    (request,) = intake.requests
    (record,) = decoded(request).records
    assert (request.signal, request.encoding) == (Signal.LOGS, Encoding.PROTOBUF)
    assert (record.trace_id, record.span_id) == (
        f"{span.get_span_context().trace_id:032x}",
        f"{span.get_span_context().span_id:016x}",
    )
    assert "Hello." in record.content


def logs(records: int, *, linked: bool = True) -> ExportLogsServiceRequest:
    """A request of so many events with content, each with the ids of a span where they are `linked`."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for number in range(1, records + 1):
        record = scope.log_records.add(event_name=CHOICE, time_unix_nano=number)
        record.body.kvlist_value.values.add(key="finish_reason").value.string_value = CARD
        if linked:
            record.trace_id, record.span_id = number.to_bytes(16, "big"), number.to_bytes(8, "big")
    return request


JSON_RECORD = {
    "eventName": CHOICE,
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "body": {"stringValue": CARD},
}


def json_logs(*records: object) -> bytes:
    """A request of these log records in JSON."""
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


def test_unreadable_log_records_are_reported_and_the_rest_taken() -> None:
    """The answer counts and places them, without their text."""
    intake = StoringIntake()
    with running(intake) as server:
        body = json_logs(JSON_RECORD, CARD)
        response = httpx.post(f"{server.url}/v1/logs", content=body, headers=JSON)
        partial = Parse(response.content, ExportLogsServiceResponse()).partial_success
        assert server.counts("tracline_receiver_rejected_log_records_total") == {(): 1}
        assert server.counts("tracline_receiver_rejected_spans_total") == {}
    assert (response.status_code, partial.rejected_log_records) == (200, 1)
    assert "otlp-shape" in partial.error_message
    assert CARD not in partial.error_message
    assert [len(decoded(request).records) for request in intake.requests] == [1]


@pytest.mark.parametrize("body", [b"\xff" * 50, b"no OTLP"])
def test_bytes_that_are_no_log_records_are_bad(body: bytes) -> None:
    """They get 400 with their flaws, and are stored."""
    intake = StoringIntake()
    with running(intake) as server:
        assert httpx.post(f"{server.url}/v1/logs", content=body, headers=PROTOBUF).status_code == 400
    assert [(request.body, request.signal) for request in intake.requests] == [(body, Signal.LOGS)]


def test_log_records_in_json_are_taken_as_in_protobuf() -> None:
    """A request in JSON is stored as it came, and answered in JSON."""
    intake = StoringIntake()
    body = json_logs(JSON_RECORD)
    with running(intake) as server:
        response = httpx.post(f"{server.url}/v1/logs", content=body, headers=JSON)
        assert response.status_code == 200
        assert Parse(response.content, ExportLogsServiceResponse()) == ExportLogsServiceResponse()
    (request,) = intake.requests
    assert (request.body, request.signal, len(decoded(request).records)) == (body, Signal.LOGS, 1)


def test_records_that_name_no_span_are_counted() -> None:
    """They cannot be joined to a span: the request is acknowledged and not stored."""
    intake = StoringIntake()
    with running(intake) as server:
        body = logs(3, linked=False).SerializeToString()
        assert httpx.post(f"{server.url}/v1/logs", content=body, headers=PROTOBUF).status_code == 200
        assert server.counts("tracline_log_records_unjoined_total") == {("unlinked",): 3}
    assert intake.requests == []


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_log_records_that_cannot_be_stored_come_again(transport: str) -> None:
    """While the disk is full an exporter of log records is asked to come again, and nothing is lost."""
    full = BusyIntake("disk", 0.1, times=1)
    with running(full) as server:
        provider = LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(log_exporter(server, transport)))
        with TracerProvider(shutdown_on_exit=False).get_tracer("desk").start_as_current_span("chat"):
            provider.get_logger("desk").emit(LogRecord(event_name=CHOICE, body={"index": 0}))
        provider.shutdown()
        assert server.counts("tracline_receiver_refused_total") == {("disk",): 1}
    assert [len(decoded(request).records) for request in full.requests] == [1]
