"""OTLP over HTTP, spoken to by the SDK's exporter, by an HTTP client and by hand."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import threading
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import zstandard
from google.protobuf.json_format import Parse
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from tracline.stream.ingest.decompress import unpack
from tracline.stream.ingest.endpoint import OTHER_PATHS, REFUSED
from tracline.stream.ingest.limits import ReceiverLimits
from tracline.stream.ingest.rejections import Reason, Refused
from tracline.stream.ingest.request import Encoding

from ...support.http.receiving import (
    CAME,
    WAIT_S,
    BrokenIntake,
    BusyIntake,
    Running,
    SlowIntake,
    StoringIntake,
    decoded,
    request_of,
    running,
)

pytestmark = pytest.mark.slow

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
CARD = "4111 1111"
SECRET = f"my card is {CARD} 1111 1111"


def json_request(trace_id: str = "5b8efff798038103d269b633813fc60c", text: str = "") -> dict:
    """A request of one span in JSON."""
    attribute = {"key": "gen_ai.input.messages", "value": {"stringValue": text}}
    span = {"traceId": trace_id, "spanId": "eee19b7ec3c1b174", "name": text, "attributes": [attribute]}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def post(server: Running, content: bytes, headers: dict[str, str] = PROTOBUF, **more: str) -> httpx.Response:
    """Send a request; `more` are further headers."""
    return httpx.post(server.traces, content=content, headers={**headers, **more}, timeout=WAIT_S)


def accepted(response: httpx.Response) -> ExportTraceServiceResponse:
    """The message in the answer to a request that was taken."""
    assert response.status_code == 200
    if response.headers["content-type"] == "application/json":
        return Parse(response.content, ExportTraceServiceResponse())
    assert response.headers["content-type"] == "application/x-protobuf"
    return ExportTraceServiceResponse.FromString(response.content)


def refused(response: httpx.Response, code: int) -> Status:
    """The status in the answer to a request that was refused."""
    assert response.status_code == code
    if response.headers["content-type"] == "application/json":
        return Parse(response.content, Status())
    assert response.headers["content-type"] == "application/x-protobuf"
    return Status.FromString(response.content)


def dialogue(server: Running, *parts: bytes) -> bytes:
    """Send the parts over a connection of their own; what comes back until the server closes it."""
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=WAIT_S) as connection:
        for part in parts:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def head(**headers: str) -> bytes:
    """The head of a request by hand."""
    lines = ["POST /v1/traces HTTP/1.1", "Host: localhost", "Content-Type: application/x-protobuf"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("compression", list(Compression))
def test_the_sdk_delivers(compression: Compression) -> None:
    """Spans of the plain SDK and its OTLP exporter arrive, however it compresses."""
    intake = StoringIntake()
    with running(intake) as server:
        exporter = OTLPSpanExporter(server.traces, compression=compression)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("desk").start_as_current_span("chat") as span:
            span.set_attribute("gen_ai.conversation.id", "s-1")
        provider.shutdown()
        assert server.counts("tracline_receiver_spans_total") == {("http", "protobuf"): 1}
    (request,) = intake.requests
    assert [span.attributes["gen_ai.conversation.id"] for span in decoded(request).spans] == ["s-1"]
    assert (request.encoding, request.received) == (Encoding.PROTOBUF, CAME)


def test_a_request_is_stored_as_it_came() -> None:
    """The intake gets the decompressed body and its decoded spans."""
    intake = StoringIntake()
    body = request_of(3, text=SECRET).SerializeToString()
    with running(intake) as server:
        assert accepted(post(server, body)) == ExportTraceServiceResponse()
        assert accepted(post(server, gzip.compress(body), **{"Content-Encoding": "gzip"}))
        assert server.counts("tracline_receiver_bytes_total") == {("http", "protobuf"): 2 * len(body)}
    assert [request.body for request in intake.requests] == [body, body]
    assert [len(decoded(request).spans) for request in intake.requests] == [3, 3]


@pytest.mark.parametrize("parameter", ["", "; charset=utf-8", ';charset="UTF-8"', "; charset=us-ascii; x=y"])
def test_json_is_answered_in_json(parameter: str) -> None:
    """A request in JSON is taken, with or without its character set, and answered in JSON."""
    intake = StoringIntake()
    with running(intake) as server:
        body = b"\n " + json.dumps(json_request()).encode()
        response = post(server, body, {"Content-Type": f"application/json{parameter}"})
        assert response.json() == {}
        accepted(response)
    (request,) = intake.requests
    assert request.encoding is Encoding.JSON
    assert [span.trace_id for span in decoded(request).spans] == ["5b8efff798038103d269b633813fc60c"]


def test_decoding_elsewhere_changes_nothing() -> None:
    """A request that is decoded in a thread gives what one gives that is decoded where it arrives."""
    bodies = [request_of(4, broken=1).SerializeToString(), request_of(2).SerializeToString()]
    found = []
    for limits in (ReceiverLimits(inline_bytes_max=0), ReceiverLimits(inline_bytes_max=1 << 20)):
        intake = StoringIntake()
        with running(intake, limits) as server:
            answers = [post(server, body).content for body in bodies]
        found.append((answers, intake.requests))
    assert found[0] == found[1]


def test_unreadable_items_are_reported_and_the_rest_is_accepted() -> None:
    """Of a request with broken spans the others are taken; the answer counts and places the broken ones."""
    intake = StoringIntake()
    with running(intake) as server:
        partial = accepted(post(server, request_of(5, broken=2).SerializeToString())).partial_success
        assert partial.rejected_spans == 2
        assert partial.error_message == (
            "resource 1, scope 1, span 4: otlp-trace-id has a trace id that is not 16 bytes, or all zero"
            " (and 1 more)"
        )
        value = json_request()
        value["resourceSpans"] += json_request("0" * 32)["resourceSpans"]
        answer = post(server, json.dumps(value).encode(), JSON).json()
        assert answer["partialSuccess"]["rejectedSpans"] == "1"
        assert server.counts("tracline_receiver_rejected_spans_total") == {(): 3}
        assert server.counts("tracline_receiver_flaws_total") == {("otlp-trace-id",): 3}
    assert [len(decoded(request).spans) for request in intake.requests] == [3, 1]


def test_a_flaw_that_loses_no_span_is_a_warning() -> None:
    """If only parts of spans are unreadable, none is rejected and the answer names the flaws."""
    request = request_of(1)
    request.resource_spans[0].scope_spans[0].spans[0].parent_span_id = b"odd"
    with running() as server:
        partial = accepted(post(server, request.SerializeToString())).partial_success
    assert partial.rejected_spans == 0
    assert "otlp-parent-id" in partial.error_message


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"\xff" * 50, PROTOBUF, "otlp-protobuf"),
        (request_of(2, broken=2).SerializeToString(), PROTOBUF, "otlp-trace-id"),
        (b"", JSON, "json"),
        (b'{"resourceSpans": [', JSON, "json"),
        (b'"spans"', JSON, "otlp-shape"),
        (b'{"resourceProfiles": []}', JSON, "otlp-signal"),
    ],
)
def test_what_cannot_be_read_at_all_is_bad(body: bytes, headers: dict[str, str], code: str) -> None:
    """A request with nothing readable in it is stored, and answered 400 with its flaws."""
    intake = StoringIntake()
    with running(intake) as server:
        status = refused(post(server, body, headers), 400)
        assert server.counts("tracline_receiver_refused_total") == {("unreadable",): 1}
        assert server.counts("tracline_receiver_requests_total") == {}
    details = BadRequest()
    assert status.details[0].Unpack(details)
    assert code in status.message
    assert details.field_violations[0].description.startswith(code)
    assert [request.body for request in intake.requests] == [body]
    assert next(flaw.code for flaw in decoded(intake.requests[0]).flaws) == code


def test_what_cannot_be_read_is_bad_however_busy() -> None:
    """A sender of something unreadable is not asked to come again with it."""
    with running(BusyIntake("disk", 30.0)) as server:
        refused(post(server, b"\xff" * 50), 400)


@pytest.mark.parametrize(
    ("body", "headers"), [(b"", PROTOBUF), (b'{"resourceSpans": []}', JSON), (b"{}", JSON)]
)
def test_an_empty_request_is_fine(body: bytes, headers: dict[str, str]) -> None:
    """A request without spans succeeds, and nothing is stored."""
    intake = StoringIntake()
    with running(intake) as server:
        assert accepted(post(server, body, headers)) == ExportTraceServiceResponse()
    assert intake.requests == []


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "type"),
        ({"Content-Type": "text/plain"}, "type"),
        ({"Content-Type": "application/json; charset=latin-1"}, "type"),
        ({**PROTOBUF, "Content-Encoding": "br"}, "coding"),
        ({**JSON, "Content-Encoding": "gzip, gzip"}, "coding"),
    ],
)
def test_what_is_not_spoken_here_is_named(headers: dict[str, str], reason: str) -> None:
    """Other content types, character sets and encodings are answered 415 with those that are read."""
    intake = StoringIntake()
    with running(intake) as server:
        status = refused(post(server, b"{}", headers), 415)
        assert server.counts("tracline_receiver_refused_total") == {(reason,): 1}
    assert any(word in status.message for word in ("application/x-protobuf", "UTF-8", "gzip, deflate, zstd"))
    assert intake.requests == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_spans_are_posted(method: str) -> None:
    """Any other method is answered 405; so a page of another origin, which asks first, may not send."""
    with running() as server:
        response = httpx.request(method, server.traces)
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"
        assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", OTHER_PATHS)
def test_other_signals_are_sent_away(path: str) -> None:
    """Unsupported signals are answered 404, with a list of the supported ones."""
    with running() as server:
        status = refused(httpx.post(server.url + path, content=b"{}", headers=JSON), 404)
        assert status.message == REFUSED


def test_langfuses_path_takes_spans() -> None:
    """Langfuse's SDKs post the requests of OTLP to a path of their own."""
    intake = StoringIntake()
    with running(intake) as server:
        body = request_of(2).SerializeToString()
        response = httpx.post(f"{server.url}/api/public/otel/v1/traces", content=body, headers=PROTOBUF)
        assert response.status_code == 200
    assert [len(decoded(request).spans) for request in intake.requests] == [2]


def packed(data: bytes, coding: str) -> bytes:
    """The data in a content encoding; zstd as a stream without its size."""
    if coding == "zstd":
        stream = zstandard.ZstdCompressor().compressobj()
        return stream.compress(data) + stream.flush()
    return zlib.compress(data) if coding == "deflate" else gzip.compress(data)


@pytest.mark.parametrize("coding", ["identity", "gzip", "GZip", "x-gzip", "deflate", "zstd"])
def test_codings_are_unpacked(coding: str) -> None:
    """Bodies come in any of the content encodings that are named as read."""
    body = request_of(2).SerializeToString()
    intake = StoringIntake()
    with running(intake) as server:
        data = body if coding == "identity" else packed(body, coding)
        accepted(post(server, data, **{"Content-Encoding": coding}))
    assert [request.body for request in intake.requests] == [body]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("damage", ["cut off", "followed", "something else"])
def test_damaged_packing_is_bad(coding: str, damage: str) -> None:
    """A body that does not unpack to its end, or not at its end, is answered 400."""
    whole = packed(request_of(20).SerializeToString(), coding)
    data = {"cut off": whole[:-5], "followed": whole + b"more", "something else": b"\x0a\x00"}[damage]
    intake = StoringIntake()
    with running(intake) as server:
        refused(post(server, data, **{"Content-Encoding": coding}), 400)
        assert server.counts("tracline_receiver_refused_total") == {("damaged",): 1}
    assert intake.requests == []


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_bomb_is_not_unpacked(coding: str) -> None:
    """A small body that unpacks to a large one is refused at the limit, and takes little more than that."""
    bomb = packed(bytes(100 << 20), coding)
    limits = ReceiverLimits(unpacked_bytes_max=1 << 20)
    tracemalloc.start()
    with pytest.raises(Refused) as caught:
        unpack(bomb, coding, limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.reason is Reason.SIZE
    assert peak < 6 << 20
    with running(limits=limits) as server:
        refused(post(server, bomb, **{"Content-Encoding": coding}), 413)


def test_unpacking_has_a_ratio() -> None:
    """A body is refused as well that unpacks to too many times its size, however small."""
    limits = ReceiverLimits(ratio_max=10)
    assert unpack(gzip.compress(bytes(100)), "gzip", limits) == bytes(100)
    with pytest.raises(Refused) as caught:
        unpack(gzip.compress(bytes(10_000)), "gzip", limits)
    assert caught.value.reason is Reason.SIZE


def test_a_large_request_is_refused_before_it_is_read() -> None:
    """A body whose announced length is too large is answered at its head; the connection is closed."""
    with running() as server:
        answer = dialogue(server, head(Content_Length=str(1 << 40)))
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    "limits", [ReceiverLimits(packed_bytes_max=1_000), ReceiverLimits(unpacked_bytes_max=1_000)]
)
def test_a_large_request_without_a_length_is_refused_when_it_is(limits: ReceiverLimits) -> None:
    """A body in chunks is read up to the limit and no further."""
    with running(limits=limits) as server:
        chunk = b"258\r\n" + bytes(600) + b"\r\n"
        answer = dialogue(server, head(Transfer_Encoding="chunked"), chunk, chunk)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in answer.lower()


def test_the_sender_of_a_large_request_sees_the_answer() -> None:
    """A client that sends first and listens then gets 413, and its connection goes on."""
    with running() as server, httpx.Client() as client:
        body = bytes(ReceiverLimits().packed_bytes_max + 1)
        refused(client.post(server.traces, content=body, headers=PROTOBUF, timeout=WAIT_S), 413)
        accepted(client.post(server.traces, content=b"", headers=PROTOBUF))


def test_chunks_are_put_together() -> None:
    """A body in chunks within the limit is taken as any other."""
    body = request_of(50).SerializeToString()
    intake = StoringIntake()
    with running(intake) as server:
        parts = (body[at : at + 100] for at in range(0, len(body), 100))
        accepted(httpx.post(server.traces, content=parts, headers=PROTOBUF))
    assert [request.body for request in intake.requests] == [body]


def test_a_slow_sender_is_not_waited_for() -> None:
    """A body that does not come in time is answered 408, and the connection is closed."""
    with running(limits=ReceiverLimits(read_timeout_s=0.05)) as server:
        answer = dialogue(server, head(Content_Length="100") + b"\x0a")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert server.counts("tracline_receiver_refused_total") == {("slow",): 1}


def test_a_sender_that_goes_away_leaves_nothing() -> None:
    """A request whose sender goes away in the middle is counted, and its place is free again."""
    intake = StoringIntake()
    with running(intake, ReceiverLimits(requests_max=1, yield_s=60)) as server:
        with socket.create_connection(("127.0.0.1", server.http_port)) as connection:
            connection.sendall(head(Expect="100-continue", Content_Length="100"))
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
            assert post(server, b"").status_code == 429
        assert [server.metrics.reasons.get(timeout=WAIT_S) for _ in range(2)] == ["crowded", "gone"]
        accepted(post(server, b""))
    assert intake.requests == []


@pytest.mark.parametrize(
    ("reason", "retry_after_s", "code", "retry_after"),
    [("queue", 0.2, 429, "1"), ("queue", 2.0, 429, "2"), ("disk", 29.5, 503, "30")],
)
def test_a_busy_server_answers_when_to_come_again(
    reason: str, retry_after_s: float, code: int, retry_after: str
) -> None:
    """A request that cannot be stored now is answered 429 or 503 with whole seconds in Retry-After."""
    with running(BusyIntake(reason, retry_after_s)) as server:
        response = post(server, request_of().SerializeToString())
        assert refused(response, code).message
        assert response.headers["retry-after"] == retry_after
        assert server.counts("tracline_receiver_refused_total") == {(reason,): 1}
        assert server.counts("tracline_receiver_requests_total") == {}


def test_a_fault_is_not_the_senders(caplog: pytest.LogCaptureFixture) -> None:
    """After an unexpected error exporters retry; the log names the place, and nothing of the request."""
    with running(BrokenIntake()) as server:
        response = post(server, request_of(text=SECRET).SerializeToString())
        assert refused(response, 503).message
        assert response.headers["retry-after"] == "1"
        assert server.counts("tracline_receiver_refused_total") == {("fault",): 1}
        assert server.counts("tracline_receiver_requests_total") == {}
    assert "RuntimeError in receiving.py:" in caplog.text
    assert not [
        retry_after
        for retry_after in (response.text, caplog.text)
        if CARD in retry_after or "my card" in retry_after
    ]


@pytest.mark.parametrize(
    "full",
    [BusyIntake("queue", 0.1, times=1), BusyIntake("disk", 0.1, times=1), BrokenIntake(times=1)],
    ids=["queue", "disk", "fault"],
)
def test_the_sdk_comes_again(full: BusyIntake | BrokenIntake) -> None:
    """The SDK's exporter sends once more what a busy or a failing server did not take, and it is not lost."""
    spans: list = []
    provider = TracerProvider(shutdown_on_exit=False)
    with running(full) as server:
        exporter = OTLPSpanExporter(server.traces, timeout=WAIT_S)
        with provider.get_tracer("desk").start_as_current_span("chat") as span:
            spans.append(span)
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        exporter.shutdown()
    assert [len(decoded(request).spans) for request in full.requests] == [1]


def test_the_answer_waits_until_the_request_is_stored() -> None:
    """A request is acknowledged only when its intake is done with it."""
    slow = SlowIntake()
    with running(slow) as server, ThreadPoolExecutor() as pool:
        answer = pool.submit(post, server, request_of().SerializeToString())
        assert slow.came.wait(WAIT_S)
        assert not answer.done()
        assert slow.requests == []
        slow.go_on.set()
        accepted(answer.result(WAIT_S))
    assert len(slow.requests) == 1


@pytest.mark.parametrize("limits", [ReceiverLimits(requests_max=1), ReceiverLimits(bytes_max=150)])
def test_too_much_at_once_is_sent_away(limits: ReceiverLimits) -> None:
    """While as many requests or bytes are in work as may be, others are answered 429 with Retry-After."""
    slow = SlowIntake()
    body = request_of().SerializeToString()
    assert 75 < len(body) < 150
    with running(slow, limits) as server, ThreadPoolExecutor() as pool:
        first = pool.submit(post, server, body)
        assert slow.came.wait(WAIT_S)
        response = post(server, body)
        assert refused(response, 429).message
        assert response.headers["retry-after"] == "1"
        assert server.counts("tracline_receiver_refused_total") == {("crowded",): 1}
        slow.go_on.set()
        accepted(first.result(WAIT_S))
        accepted(post(server, body))


def test_no_text_of_a_request_leaks(caplog: pytest.LogCaptureFixture) -> None:
    """Texts of a request are in no answer, no metric and no log, however broken the request is."""
    caplog.set_level(logging.DEBUG)
    whole = request_of(2, broken=1, text=SECRET).SerializeToString()
    texts = []
    with running() as server:
        for body in (whole, whole[:-3], whole.replace(b"card", b"c\xff\xffd")):
            texts.append(post(server, body).text)
        for value in (json_request("zz", SECRET), {"resourceSpans": SECRET}, {SECRET: [SECRET]}, [SECRET]):
            texts.append(post(server, json.dumps(value).encode(), JSON).text)
        texts.append(post(server, f'{{"{SECRET}'.encode(), JSON).text)
        texts.append(post(server, SECRET.encode(), **{"Content-Encoding": "gzip"}).text)
        texts.append(server.metrics.text())
    assert all(texts)
    assert not [text for text in (*texts, caplog.text) if CARD in text or "my card" in text]


def test_requests_are_taken_side_by_side() -> None:
    """Many senders at once all get their answers, and every request is stored once."""
    intake = StoringIntake()
    bodies = [request_of(40, text=str(number)).SerializeToString() for number in range(30)]
    with running(intake, ReceiverLimits(inline_bytes_max=0)) as server, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: post(server, body).status_code, bodies))
        assert threading.active_count() < 100
    assert answers == [200] * len(bodies)
    assert sorted(request.body for request in intake.requests) == sorted(bodies)
