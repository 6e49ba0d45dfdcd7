"""Receivers that run, for their tests: one event loop in a thread, with real ports; requests made by hand."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.middleware import Middleware
from tracline.schemas.otlp.decoded import Decoded
from tracline.stream.ingest.auth import GateMiddleware, gate_for
from tracline.stream.ingest.grpc import grpc_server
from tracline.stream.ingest.http import routes
from tracline.stream.ingest.limits import ReceiverLimits
from tracline.stream.ingest.meter import OtlpTransport
from tracline.stream.ingest.receive import RequestHandler
from tracline.stream.ingest.rejections import Reason
from tracline.stream.ingest.request import Busy, ExportRequest, decode
from tracline.stream.ingest.server.connections import ConnectionLimits
from tracline.stream.ingest.server.http_server import HttpServer
from tracline.stream.process.metrics import metrics_route
from tracline.stream.process.serve_metrics import ServeMetrics

WAIT_S = 20.0
"""The time in seconds that a test waits for a change."""
CONNECTIONS = ConnectionLimits(64)
"""The connections that receivers may have here."""
CAME = 1_771_329_600_000_000_000
"""When requests come, by the clock that receivers have here."""


def decoded(request: ExportRequest) -> Decoded:
    """Return the content of a request as the decoder reads it."""
    return decode(request.body, request.encoding, request.signal)


@dataclass
class StoringIntake:
    """An intake that keeps requests in a list."""

    requests: list[ExportRequest] = field(default_factory=list)

    async def put(self, request: ExportRequest) -> None:
        """Keep it."""
        self.requests.append(request)


@dataclass
class BusyIntake:
    """An intake that takes nothing, for one reason, for a number of times; then it keeps."""

    reason: str
    retry_after_s: float
    times: int = 1_000_000
    requests: list[ExportRequest] = field(default_factory=list)

    async def put(self, request: ExportRequest) -> None:
        """Refuse it."""
        if self.times:
            self.times -= 1
            raise Busy(self.reason, self.retry_after_s)
        self.requests.append(request)


@dataclass
class BrokenIntake:
    """An intake that fails a number of times with its request in the error, and then stores."""

    times: int = 1_000_000
    requests: list[ExportRequest] = field(default_factory=list)

    async def put(self, request: ExportRequest) -> None:
        """Fail."""
        if self.times:
            self.times -= 1
            raise RuntimeError(f"cannot take {request.body!r}")
        self.requests.append(request)


@dataclass
class SlowIntake:
    """An intake that stores a request once the test lets it."""

    requests: list[ExportRequest] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    async def put(self, request: ExportRequest) -> None:
        """Store it once the test allows."""
        self.came.set()
        await asyncio.to_thread(self.go_on.wait, WAIT_S)
        self.requests.append(request)


class WaitableMetrics(ServeMetrics):
    """Metrics whose refusals a test can wait for."""

    def __init__(self) -> None:
        super().__init__([("desk", "calm")])
        self.reasons: queue.Queue[Reason] = queue.Queue()
        count = self.receiver.refused

        def refused(reason: Reason) -> None:
            count(reason)
            self.reasons.put(reason)

        self.receiver.refused = refused

    def text(self) -> str:
        """All metrics as Prometheus reads them."""
        return generate_latest(self.registry).decode()


@dataclass
class Running:
    """Receivers that run."""

    url: str
    http_port: int
    grpc_port: int
    metrics: WaitableMetrics
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]

    def call(self, function: Callable[[], None]) -> None:
        """Run something in the receivers' event loop, and wait for its end."""

        async def inside() -> None:
            function()

        asyncio.run_coroutine_threadsafe(inside(), self.loop).result(WAIT_S)

    @property
    def traces(self) -> str:
        """Return where spans are sent over HTTP."""
        return f"{self.url}/v1/traces"

    def counts(self, name: str) -> dict[tuple[str, ...], float]:
        """The values of a metric that are not 0, by their labels' values in alphabetical order."""
        return values(self.metrics.text(), name)


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric that are not 0, by their labels' values in order, out of Prometheus' text."""
    return {
        tuple(sorted(sample.labels.values())): sample.value
        for metric in text_string_to_metric_families(text)
        for sample in metric.samples
        if sample.name == name and sample.value
    }


@contextmanager
def running(
    intake: StoringIntake | BusyIntake | SlowIntake | None = None,
    limits: ReceiverLimits | None = None,
    *,
    bound: str = "127.0.0.1",
    token: str | None = None,
    connections: ConnectionLimits = CONNECTIONS,
) -> Iterator[Running]:
    """Receivers on free ports of 127.0.0.1, with the gate of a server that is bound to `bound`."""
    metrics = WaitableMetrics()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    began = threading.Event()
    servers: list[HttpServer] = []
    grpc_ports: list[int] = []
    loops: list[asyncio.AbstractEventLoop] = []
    gate = gate_for(bound, token)

    async def serve() -> None:
        handler = RequestHandler(intake or StoringIntake(), metrics.receiver, limits, lambda: CAME)
        app = Starlette(
            routes=[*routes(handler), metrics_route(metrics.registry)],
            middleware=[Middleware(GateMiddleware, gate=gate, meter=metrics.receiver)],
        )
        http_meter, grpc_meter = (metrics.connections.of(transport) for transport in OtlpTransport)
        grpc, port = grpc_server(handler, gate, "127.0.0.1", 0, connections, grpc_meter)
        grpc_ports.append(port)
        loops.append(asyncio.get_running_loop())
        await grpc.start()
        servers.append(HttpServer(app, connections, http_meter, round(WAIT_S), began.set))
        await servers[0].serve([listening])
        await grpc.stop(WAIT_S)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert began.wait(WAIT_S)

    def stop() -> None:
        servers[0].should_exit = True

    port = listening.getsockname()[1]
    try:
        yield Running(f"http://127.0.0.1:{port}", port, grpc_ports[0], metrics, loops[0], stop)
    finally:
        stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


def request_of(spans: int = 1, *, broken: int = 0, text: str = "") -> TracesData:
    """A request of so many spans, the last `broken` of them without a trace id; `text` is in each."""
    request = TracesData()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(1, spans + 1):
        lost = number > spans - broken
        span = scope.spans.add(
            trace_id=b"" if lost else number.to_bytes(16, "big"),
            span_id=number.to_bytes(8, "big"),
            name=f"chat {text}",
            start_time_unix_nano=CAME,
            end_time_unix_nano=CAME + 1,
        )
        span.attributes.add(key="gen_ai.input.messages").value.string_value = text
    return request
