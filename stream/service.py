"""`tracline serve` as a whole: receivers, pipeline and console in one process, until it is told to stop."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..rules.judge import Statute
from ..schemas.event import Kind
from ..schemas.settings import SessionSettings
from ..schemas.verdict import Verdict
from .console import pages
from .gate import GateError, GateMiddleware, gate_for
from .metrics import Metrics, metrics_route
from .pipeline import Pipeline, World
from .receiver import routes as receiver_routes
from .receiver_grpc import grpc_server
from .reception import Reception
from .store import FILE, Batch, open_store
from .worker import Worker

STOPPING_S = 10
"""How long requests that are being answered may take once the process is told to stop, in seconds."""

Archive = Callable[[Sequence[bytes], int, int], None]
"""Writes judged events (rows of the store) with their first and last number to the archive."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: `port` for OTLP/HTTP, console and metrics, `grpc_port` for OTLP/gRPC (None: not)."""

    host: str = "127.0.0.1"
    port: int = 4318
    grpc_port: int | None = 4317
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """What is served: the rules, where the state is kept, and how sessions are put together.

    `archive_for(id)` gives what writes the archive of the store with that id; `tell` hears what a person
    who started the process likes to know.
    """

    statute: Statute
    store: Path
    settings: SessionSettings
    archive_for: Callable[[str], Archive]
    tell: Callable[[str], None]


async def serve(service: Service, address: Address) -> None:
    """Serve until SIGTERM or SIGINT; then take nothing more, finish what was taken, and return.

    Raises GateError where the address may not or cannot be listened on, StoreError for a store that cannot
    be used, and whatever stopped the pipeline.
    """
    gate = gate_for(address.host, address.token)
    metrics = Metrics((rule.pack, rule.id) for rule in service.statute.rules)
    store = open_store(service.store, token_hex(32))
    world = World(
        now=time.time_ns,
        free_bytes=lambda: shutil.disk_usage(service.store).free,
        archive=service.archive_for(str(store.fact("id"))),
        told=lambda batch: _count(metrics, batch),
    )
    pipeline = Pipeline(store, Worker(service.statute), service.settings, world)
    thread = _Thread(pipeline)
    reception = Reception(pipeline, metrics)
    spans_to = f"http://{address.host}:{address.port}/v1/traces"
    app = Starlette(
        routes=[
            *receiver_routes(reception),
            metrics_route(metrics),
            Route("/healthz", thread.health),
            Route("/readyz", thread.health),
            *pages.routes(service.store / FILE, service.statute, spans_to=spans_to),
        ],
        middleware=[Middleware(GateMiddleware, gate=gate, meter=metrics)],
        exception_handlers={404: lambda _request, _error: pages.missing_page(spans_to)},
    )
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        log_config=None,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=STOPPING_S,
    )
    server, sockets = _Server(config, thread), [_listening(address)]
    listening = None
    if address.grpc_port is not None:
        listening, _ = grpc_server(reception, gate, address.host, address.grpc_port)
        await listening.start()
    thread.start()
    service.tell(f"console and OTLP/HTTP on http://{address.host}:{address.port}")
    if listening is not None:
        service.tell(f"OTLP/gRPC on {address.host}:{address.grpc_port}")
    try:
        await server.serve(sockets)
    finally:
        if listening is not None:
            await listening.stop(STOPPING_S)
        pipeline.stop()
        await asyncio.to_thread(thread.join)
        store.close()
    if thread.error is not None:
        raise thread.error


def _listening(address: Address) -> socket.socket:
    """A socket on the address. Raises GateError (TRL713) where it cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError:
        hint = "another process may listen there; choose another port, or an address of this machine"
        raise GateError("TRL713", f"{address.host}:{address.port} cannot be listened on", hint) from None


class _Thread:
    """The pipeline's thread, whose end ends the process."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._thread = threading.Thread(target=self._run, name="pipeline")
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the work is finished."""
        self._thread.join()

    async def health(self, _request: Request) -> Response:
        """200 while the pipeline works, 503 once it does not."""
        if self.ended.is_set():
            return PlainTextResponse("the pipeline has stopped\n", 503)
        return PlainTextResponse("ok\n")

    def _run(self) -> None:
        try:
            self._pipeline.run()
        except BaseException as error:
            self.error = error
        self.ended.set()


class _Server(uvicorn.Server):
    """A server that also stops when the pipeline does."""

    def __init__(self, config: uvicorn.Config, thread: _Thread) -> None:
        super().__init__(config)
        self._thread = thread

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop; asked ten times a second."""
        return await super().on_tick(counter) or self._thread.ended.is_set()


def _count(metrics: Metrics, batch: Batch) -> None:
    """Count what a batch changed."""
    for kind, count in Counter(row[4] for row in batch.events).items():
        metrics.judged(Kind(kind), count)
    for (pack, rule, verdict), count in Counter((row[1], row[2], row[7]) for row in batch.verdicts).items():
        metrics.verdict(str(pack), str(rule), Verdict(str(verdict)), count)
    for letter in batch.dead_letters:
        metrics.dead_letter(letter.code)
    metrics.watermark(batch.watermark)
