"""`tracline serve`: receivers, pipeline and console in one process."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from secrets import token_hex
from types import FrameType

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ...predict.drift.detectors import by_rule
from ...rules.engine.judge import CompiledRules
from ...rules.model.rule import RuleSet
from ...schemas.settings import SessionSettings
from ...schemas.time import NS
from ..console import pages
from ..console.risks import ServedChain
from ..ingest.auth import Gate, GateMiddleware, gate_for
from ..ingest.grpc import grpc_server
from ..ingest.http import routes as receiver_routes
from ..ingest.limits import AdmissionControl, ReceiverLimits
from ..ingest.meter import OtlpTransport
from ..ingest.receive import RequestHandler
from ..ingest.server.connections import ConnectionLimits, ConnectionMeter
from ..ingest.server.grpc_relay import IDLE_S
from ..ingest.server.http_server import HttpServer
from ..ingest.server.open_files import divide_files, files_max
from ..ingest.server.sockets import Address, in_url, listening
from ..process.metrics import metrics_route
from ..process.serve_metrics import ServeMetrics
from ..process.unread import UnreadNotice
from ..stages.compile_loops import compile_monitor_loops, compile_rekey_loops
from ..stages.judge import SessionJudge
from ..stages.rule_set_judge import RuleSetJudge, judge_of_before
from .archiving import ArchiveSink
from .changes import StoreChanges
from .doctor import Doctor, doctor_route
from .pipeline import Pipeline, PipelineRuntime
from .store import FILE, Store, open_store, using

PAGES_MAX = 8
"""Console pages rendered at the same time; each opens files of the store."""
STOPPING_S = 10
"""Seconds that running requests may take after the signal to stop."""


@dataclass(frozen=True, slots=True)
class Service:
    """The rules, the state folder and the session settings of `tracline serve`.

    `archive_for(id)` opens the archive of the store with that id; `report` logs a line. `chain` follows the
    risks of the rules.
    """

    compiled: CompiledRules
    store: Path
    settings: SessionSettings
    archive_for: Callable[[str], AbstractContextManager[ArchiveSink]]
    report: Callable[[str], None]
    chain: ServedChain | None = None


async def serve(service: Service, address: Address, grpc_port: int | None) -> None:
    """Serve OTLP/HTTP, console and metrics on the address, and OTLP/gRPC on `grpc_port` (None: not at all).

    On SIGTERM or SIGINT accept no more requests, finish those accepted, and return. The loops are compiled
    meanwhile, where no cache has them: those that judge, which requests on disk wait for, take 20 s of a
    processor; those that read requests, which are decoded until then, half a minute.

    Raises StreamError where it cannot or must not listen on the address, or cannot use the store, and any
    error that stopped the pipeline.
    """
    gate = gate_for(address.host, address.token)
    share = divide_files(files_max())
    anyio.to_thread.current_default_thread_limiter().total_tokens = PAGES_MAX
    metrics, doctor = ServeMetrics((rule.pack, rule.id) for rule in service.compiled.rules), Doctor()
    metrics.store_bytes.set_function(partial(_size, service.store / FILE))
    if service.chain is not None:
        metrics.risk.chain = service.chain.followed.digest
        metrics.risk.chains_loaded.set(1)
        metrics.risk.add_rules(service.chain.rules)
    with (
        using(service.store / FILE),
        closing(open_store(service.store, token_hex(32))) as store,
        service.archive_for(str(store.fact("id"))) as archive,
        ThreadPoolExecutor(1, "pipeline") as thread,
        listening(address.host, address.port) as sock,
    ):
        metrics.risk.set_drift(by_rule([store.drift()], metrics.risk.chain))
        follows = service.chain is not None
        judging = asyncio.ensure_future(asyncio.to_thread(compile_monitor_loops, follows=follows))
        reading = asyncio.ensure_future(_compile_reading(judging))
        pipeline = _pipeline(service, store, archive, metrics, doctor, judging.done)
        handler = RequestHandler(
            pipeline,
            metrics.receiver,
            ReceiverLimits(requests_max=share.requests_max),
            scope=service.settings.scope,
            is_compiled=reading.done,
        )
        grpc = None
        if grpc_port is not None:
            grpc_limits = ConnectionLimits(share.grpc_max, idle_s=IDLE_S)
            meter = metrics.connections.of(OtlpTransport.GRPC)
            grpc, _ = grpc_server(handler, gate, address.host, grpc_port, grpc_limits, meter)
            await grpc.start()
        working = thread.submit(pipeline.run)
        app = _application(service, address, handler, gate, metrics, doctor, working, share.feeds_max)
        try:
            limits, meter = ConnectionLimits(share.http_max), metrics.connections.of(OtlpTransport.HTTP)
            begun = partial(_report_addresses, service.report, address, grpc_port)
            await _Server(app, limits, meter, working, handler.admissions, begun).serve([sock])
        finally:
            if grpc is not None:
                await grpc.stop(STOPPING_S)
            pipeline.stop()
            await asyncio.wrap_future(working)
            await reading


async def _compile_reading(judging: Awaitable[None]) -> None:
    """Compile the loops that read requests, once those that judge are compiled: these are needed first."""
    await judging
    await asyncio.to_thread(compile_rekey_loops)


def _pipeline(
    service: Service,
    store: Store,
    archive: ArchiveSink,
    metrics: ServeMetrics,
    doctor: Doctor,
    is_compiled: Callable[[], bool],
) -> Pipeline:
    """Return the pipeline over an open store and archive."""
    notice = UnreadNotice(service.report)
    runtime = PipelineRuntime(
        now=time.time_ns,
        free_bytes=lambda: shutil.disk_usage(service.store).free,
        archive=archive,
        on_commit=partial(_count, metrics, notice, doctor, time.time_ns),
        on_idle=notice.idle,
        is_compiled=is_compiled,
    )
    rules = RuleSet(service.compiled.rules, {})
    # Sessions that the release before began end as it would have judged them; all others begin again.
    active = RuleSetJudge(service.compiled, chain=None if service.chain is None else service.chain.followed)
    judge = SessionJudge(active, cache(partial(judge_of_before, rules)), finish=True)
    return Pipeline(store, judge, service.settings, runtime)


def _report_addresses(report: Callable[[str], None], address: Address, grpc_port: int | None) -> None:
    report(f"console and OTLP/HTTP on {address.url()}")
    if grpc_port is not None:
        report(f"OTLP/gRPC on {in_url(address.host)}:{grpc_port}")


def _application(
    service: Service,
    address: Address,
    handler: RequestHandler,
    gate: Gate,
    metrics: ServeMetrics,
    doctor: Doctor,
    working: Future[None],
    feeds_max: int,
) -> Starlette:
    """Return the app of receiver, console, metrics and health, behind the gate."""
    spans_to = f"{address.url()}/v1/traces"

    async def health(_request: Request) -> Response:
        if working.done():
            return PlainTextResponse("the pipeline has stopped\n", 503)
        return PlainTextResponse("ok\n")

    return Starlette(
        routes=[
            *receiver_routes(handler),
            metrics_route(metrics.registry),
            doctor_route(doctor),
            Route("/healthz", health),
            Route("/readyz", health),
            *pages.routes(
                service.store / FILE,
                service.compiled,
                spans_to=spans_to,
                readers=metrics.console_readers.set,
                feeds_max=feeds_max,
                chain=service.chain,
            ),
        ],
        middleware=[Middleware(GateMiddleware, gate=gate, meter=metrics.receiver)],
        exception_handlers={404: lambda _request, _error: pages.missing_page(spans_to)},
    )


def _size(path: Path) -> int:
    """Return the size of a file, 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class _Server(HttpServer):
    """An HTTP server that also stops when the pipeline does."""

    def __init__(
        self,
        app: Starlette,
        limits: ConnectionLimits,
        meter: ConnectionMeter,
        working: Future[None],
        admissions: AdmissionControl,
        on_start: Callable[[], None],
    ) -> None:
        super().__init__(app, limits, meter, STOPPING_S, on_start)
        self._working, self._admissions = working, admissions

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; uvicorn must not raise the signal again once the sockets are closed."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop; uvicorn calls this ten times a second."""
        # Live feeds end once this is set.
        self.should_exit = self.should_exit or self._working.done()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer running requests; the senders of unfinished bodies are asked to retry."""
        self._admissions.close()
        await super().shutdown(sockets)


def _count(
    metrics: ServeMetrics, notice: UnreadNotice, doctor: Doctor, now: Callable[[], int], batch: StoreChanges
) -> None:
    """Count what a batch changed."""
    doctor.add_spans(batch.spans, batch.plain_requests)
    doctor.add_events(batch.outputs.events, log_records=batch.log_records)
    notice.add(batch.census)
    spans, judging, progress = metrics.spans, metrics.judging, metrics.progress
    spans.count_spans(batch.census)
    spans.waiting.set(batch.spans_waiting)
    spans.early.inc(batch.spans_early)
    spans.log_records_waiting.set(batch.records_waiting)
    for reason, records in batch.unjoined.items():
        spans.unjoined(reason, records)
    judging.count(batch.outputs)
    metrics.risk.count(batch.outputs)
    if batch.drift is not None:
        metrics.risk.set_drift(by_rule([batch.drift], metrics.risk.chain))
    judging.sessions_open.set(batch.open_sessions)
    if batch.received is not None:
        judging.delay.observe((now() - batch.received) / NS)
    for letter in batch.dead_letters:
        progress.dead_letter(letter.code)
    progress.watermark(batch.times.watermark)
