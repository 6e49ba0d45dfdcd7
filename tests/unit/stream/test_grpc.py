"""OTLP over gRPC, spoken to by the SDK's exporter and by a plain channel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
import pytest
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from tracline.stream.error import StreamError
from tracline.stream.ingest.auth import gate_for
from tracline.stream.ingest.endpoint import ENDPOINTS, OTHER_SERVICES, REFUSED
from tracline.stream.ingest.grpc import grpc_server
from tracline.stream.ingest.limits import ReceiverLimits
from tracline.stream.ingest.meter import OtlpTransport
from tracline.stream.ingest.receive import RequestHandler
from tracline.stream.ingest.rejections import STATUS_CODES
from tracline.stream.ingest.request import Encoding
from tracline.stream.ingest.server.connections import ConnectionLimits

from ...support.http.receiving import (
    CAME,
    WAIT_S,
    BrokenIntake,
    BusyIntake,
    Running,
    SlowIntake,
    StoringIntake,
    WaitableMetrics,
    decoded,
    request_of,
    running,
)

pytestmark = pytest.mark.slow

EXPORT = f"/{ENDPOINTS[0].service}/Export"
TOKEN = "correct-horse-battery-staple"
CARD = "4111 1111"
SECRET = f"my card is {CARD} 1111 1111"


@contextmanager
def channel_to(server: Running, compression: grpc.Compression | None = None) -> Iterator[grpc.Channel]:
    """A channel over which messages of any size can be sent."""
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options, compression) as channel:
        yield channel


def export(
    server: Running, body: bytes, *, compression: grpc.Compression | None = None, **metadata: str
) -> ExportTraceServiceResponse:
    """Send a request's bytes."""
    with channel_to(server, compression) as channel:
        call = channel.unary_unary(EXPORT, None, ExportTraceServiceResponse.FromString)
        return call(body, timeout=WAIT_S, metadata=tuple(metadata.items()))


def refused(server: Running, body: bytes, **metadata: str) -> tuple[grpc.StatusCode, Status, float | None]:
    """The code with which a request is refused, its status in full, and when to come again (seconds)."""
    with pytest.raises(grpc.RpcError) as caught:
        export(server, body, **metadata)
    metadata = dict(caught.value.trailing_metadata())
    status = Status.FromString(metadata["grpc-status-details-bin"])
    assert status.code == caught.value.code().value[0]
    assert status.message == caught.value.details()
    if "google.rpc.retryinfo-bin" not in metadata:
        return caught.value.code(), status, None
    retry = RetryInfo.FromString(metadata["google.rpc.retryinfo-bin"])
    detail = RetryInfo()
    assert status.details[0].Unpack(detail)
    assert detail == retry
    return caught.value.code(), status, retry.retry_delay.ToMilliseconds() / 1_000


def sdk_exporter(server: Running, **options: object) -> OTLPSpanExporter:
    """The SDK's exporter to that server."""
    return OTLPSpanExporter(f"http://127.0.0.1:{server.grpc_port}", insecure=True, **options)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_the_sdk_delivers(compression: grpc.Compression) -> None:
    """Spans of the plain SDK and its OTLP exporter arrive, compressed or not."""
    intake = StoringIntake()
    with running(intake) as server:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(sdk_exporter(server, compression=compression)))
        with provider.get_tracer("desk").start_as_current_span("chat") as span:
            span.set_attribute("gen_ai.conversation.id", "s-1")
        provider.shutdown()
        assert server.counts("tracline_receiver_spans_total") == {("grpc", "protobuf"): 1}
    (request,) = intake.requests
    assert [span.attributes["gen_ai.conversation.id"] for span in decoded(request).spans] == ["s-1"]
    assert request.encoding is Encoding.PROTOBUF
    assert request.received == CAME


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_request_is_stored_as_it_came(compression: grpc.Compression | None) -> None:
    """The intake gets the decompressed bytes of the message."""
    intake = StoringIntake()
    body = request_of(200, text=SECRET).SerializeToString()
    with running(intake) as server:
        assert export(server, body, compression=compression) == ExportTraceServiceResponse()
    assert [request.body for request in intake.requests] == [body]
    assert len(decoded(intake.requests[0]).spans) == 200


def test_unreadable_items_are_reported_and_the_rest_is_accepted() -> None:
    """Of a request with broken spans the others are taken; the answer counts and places the broken ones."""
    intake = StoringIntake()
    with running(intake) as server:
        partial = export(server, request_of(5, broken=2).SerializeToString()).partial_success
    assert partial.rejected_spans == 2
    assert "resource 1, scope 1, span 4: otlp-trace-id" in partial.error_message
    assert [len(decoded(request).spans) for request in intake.requests] == [3]


def test_what_cannot_be_read_at_all_is_invalid() -> None:
    """Bytes that are no request get INVALID_ARGUMENT with their flaws, and are stored."""
    intake = StoringIntake()
    with running(intake) as server:
        code, status, retry_s = refused(server, b"\xff" * 50)
        assert server.counts("tracline_receiver_refused_total") == {("unreadable",): 1}
    assert (code, retry_s) == (grpc.StatusCode.INVALID_ARGUMENT, None)
    details = BadRequest()
    assert status.details[0].Unpack(details)
    assert details.field_violations[0].description.startswith("otlp-protobuf")
    assert [request.body for request in intake.requests] == [b"\xff" * 50]


def test_an_empty_request_is_fine() -> None:
    """A request without spans succeeds, and nothing is stored."""
    intake = StoringIntake()
    with running(intake) as server:
        assert export(server, b"") == ExportTraceServiceResponse()
    assert intake.requests == []


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_a_large_request_is_refused(compression: grpc.Compression | None) -> None:
    """A message beyond the limit, packed or unpacked, gets RESOURCE_EXHAUSTED and no time to come again."""
    intake = StoringIntake()
    with running(intake, ReceiverLimits(unpacked_bytes_max=1 << 20)) as server:
        with pytest.raises(grpc.RpcError) as caught:
            export(server, bytes((1 << 20) + 1), compression=compression)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "google.rpc.retryinfo-bin" not in dict(caught.value.trailing_metadata())
        assert server.metrics.reasons.get(timeout=WAIT_S) == "size"
        assert export(server, request_of().SerializeToString(), compression=compression) is not None
    assert len(intake.requests) == 1


@pytest.mark.parametrize(
    ("reason", "code"),
    [("queue", grpc.StatusCode.RESOURCE_EXHAUSTED), ("disk", grpc.StatusCode.UNAVAILABLE)],
)
def test_a_busy_server_answers_when_to_come_again(reason: str, code: grpc.StatusCode) -> None:
    """A request that cannot be stored now is refused with a code that exporters repeat, and RetryInfo."""
    with running(BusyIntake(reason, 1.5)) as server:
        got, status, retry_s = refused(server, request_of().SerializeToString())
        assert (got, retry_s) == (code, 1.5)
        assert status.message
        assert server.counts("tracline_receiver_refused_total") == {(reason,): 1}
        assert server.counts("tracline_receiver_requests_total") == {}


def test_a_fault_is_not_the_senders(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error is answered so that exporters come again."""
    with running(BrokenIntake()) as server:
        got, status, retry_s = refused(server, request_of(text=SECRET).SerializeToString())
        assert (got, retry_s) == (grpc.StatusCode.UNAVAILABLE, 1.0)
        assert server.counts("tracline_receiver_refused_total") == {("fault",): 1}
    assert "RuntimeError in receiving.py:" in caplog.text
    assert not [text for text in (status.message, caplog.text) if CARD in text or "my card" in text]


@pytest.mark.parametrize(
    "full",
    [BusyIntake("queue", 0.1, times=1), BusyIntake("disk", 0.1, times=1), BrokenIntake(times=1)],
    ids=["queue", "disk", "fault"],
)
def test_the_sdk_comes_again(full: BusyIntake | BrokenIntake) -> None:
    """The SDK's exporter sends once more what a busy or a failing server did not take, and it is not lost."""
    with running(full) as server:
        exporter = sdk_exporter(server, timeout=WAIT_S)
        with TracerProvider(shutdown_on_exit=False).get_tracer("desk").start_as_current_span("chat") as span:
            pass
        assert exporter.export([span]) is SpanExportResult.SUCCESS
        exporter.shutdown()
    assert [len(decoded(request).spans) for request in full.requests] == [1]


def test_the_answer_waits_until_the_request_is_stored() -> None:
    """A request is acknowledged only when its intake is done with it."""
    slow = SlowIntake()
    with running(slow) as server, ThreadPoolExecutor() as pool:
        answer = pool.submit(export, server, request_of().SerializeToString())
        assert slow.came.wait(WAIT_S)
        assert not answer.done()
        assert slow.requests == []
        slow.go_on.set()
        assert answer.result(WAIT_S) == ExportTraceServiceResponse()
    assert len(slow.requests) == 1


def test_a_stop_lets_calls_finish() -> None:
    """When the server is stopped, a request that is being stored is still acknowledged."""
    slow = SlowIntake()
    with ThreadPoolExecutor() as pool:
        with running(slow) as server:
            answer = pool.submit(export, server, request_of().SerializeToString())
            assert slow.came.wait(WAIT_S)
            server.stop()
            slow.go_on.set()
        assert answer.result(WAIT_S) == ExportTraceServiceResponse()
    assert len(slow.requests) == 1


def test_too_many_at_once_are_sent_away() -> None:
    """While as many requests are in work as may be, over HTTP or gRPC, others may come again soon."""
    slow = SlowIntake()
    with running(slow, ReceiverLimits(requests_max=1)) as server, ThreadPoolExecutor() as pool:
        body = request_of().SerializeToString()
        protobuf = {"Content-Type": "application/x-protobuf"}
        first = pool.submit(httpx.post, server.traces, content=body, headers=protobuf, timeout=WAIT_S)
        assert slow.came.wait(WAIT_S)
        code, _, retry_s = refused(server, body)
        assert (code, retry_s) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 1.0)
        slow.go_on.set()
        assert first.result(WAIT_S).status_code == 200
        export(server, body)


def test_a_slow_sender_is_not_waited_for() -> None:
    """A call whose message does not come in time gets DEADLINE_EXCEEDED."""
    with running(limits=ReceiverLimits(read_timeout_s=0.05)) as server, channel_to(server) as channel:
        hold = SlowIntake()
        call = channel.stream_unary(EXPORT)

        def nothing() -> Iterator[bytes]:
            hold.go_on.wait(WAIT_S)
            yield b""

        with pytest.raises(grpc.RpcError) as caught:
            call(nothing(), timeout=WAIT_S)
        hold.go_on.set()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert server.counts("tracline_receiver_refused_total") == {("slow",): 1}


def test_a_server_for_others_asks_for_the_token() -> None:
    """Without the token a call gets UNAUTHENTICATED before its message is read."""
    intake = StoringIntake()
    with running(intake, bound="0.0.0.0", token=TOKEN) as server:
        body = request_of().SerializeToString()
        for metadata in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
            code, _, retry_s = refused(server, body, **metadata)
            assert (code, retry_s) == (grpc.StatusCode.UNAUTHENTICATED, None)
        with channel_to(server) as channel:
            never = channel.stream_unary(EXPORT)
            with pytest.raises(grpc.RpcError):
                never(iter(lambda: bytes(1_000), None), timeout=WAIT_S)
        assert server.counts("tracline_receiver_refused_total") == {("token",): 4}
        export(server, body, authorization=f"Bearer {TOKEN}")
    assert [request.body for request in intake.requests] == [body]


@pytest.mark.parametrize("service", OTHER_SERVICES)
def test_other_signals_are_sent_away(service: str) -> None:
    """Unsupported signals get UNIMPLEMENTED, with a list of the supported ones."""
    with running() as server, channel_to(server) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{service}/Export")(b"", timeout=WAIT_S)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert caught.value.details() == REFUSED


def test_a_port_is_not_shared() -> None:
    """A server on a port where another one listens does not start, and its error has a hint."""
    with running() as server:

        def second() -> None:
            metrics = WaitableMetrics()
            gate, meter = gate_for("127.0.0.1", None), metrics.connections.of(OtlpTransport.GRPC)
            grpc_server(
                RequestHandler(StoringIntake(), metrics.receiver),
                gate,
                "127.0.0.1",
                server.grpc_port,
                ConnectionLimits(64),
                meter,
            )

        with pytest.raises(StreamError) as caught:
            server.call(second)
    assert caught.value.code == "TRL713"
    assert "another port" in caught.value.hint


def test_a_folder_that_cannot_hold_the_socket_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the name of the folder for temporary files is too long for a socket the error has a hint."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))

    async def make() -> None:
        metrics = WaitableMetrics()
        gate, meter = gate_for("127.0.0.1", None), metrics.connections.of(OtlpTransport.GRPC)
        grpc_server(
            RequestHandler(StoringIntake(), metrics.receiver),
            gate,
            "127.0.0.1",
            0,
            ConnectionLimits(64),
            meter,
        )

    with pytest.raises(StreamError) as caught:
        asyncio.run(make())
    assert (caught.value.code, "TMPDIR" in caught.value.hint) == ("TRL713", True)
    assert list(folder.iterdir()) == []


def test_no_text_of_a_request_leaks(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Texts of a request are in no answer, no metric and no log, however broken the request is."""
    caplog.set_level(logging.DEBUG)
    whole = request_of(2, broken=1, text=SECRET).SerializeToString()
    with running() as server:
        texts = [str(export(server, whole)), str(export(server, whole.replace(b"card", b"c\xff\xffd")))]
        texts += [str(refused(server, whole[:-3])), str(refused(server, SECRET.encode()))]
        texts.append(server.metrics.text())
    texts += [caplog.text, *capfd.readouterr()]
    assert not [text for text in texts if CARD in text or "my card" in text]


def test_every_reason_has_a_status_in_both_protocols() -> None:
    """Each reason is an error of HTTP and of gRPC; what may be repeated is so in both."""
    codes = {code.value[0] for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
    for status in STATUS_CODES.values():
        assert 400 <= status.http < 600
        assert status.grpc in codes
        if status.http in (429, 503):
            assert Code.Name(status.grpc) in ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
