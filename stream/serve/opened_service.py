"""`tracline serve --open`: the console over an archive, without receivers and judging."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware

from ...rules.engine.judge import CompiledRules
from ..console import pages
from ..console.risks import ServedChain
from ..ingest.auth import GateMiddleware, gate_for
from ..ingest.meter import OtlpTransport
from ..ingest.server.connections import ConnectionLimits
from ..ingest.server.http_server import HttpServer
from ..ingest.server.open_files import divide_files, files_max
from ..ingest.server.sockets import Address, listening
from ..process.serve_metrics import ServeMetrics
from .service import PAGES_MAX, STOPPING_S


async def serve_opened(
    store: Path,
    compiled: CompiledRules,
    address: Address,
    report: Callable[[str], None],
    chain: ServedChain | None = None,
) -> None:
    """Serve the console over a finished store on the address, until SIGTERM or SIGINT.

    `chain` gives the risks of sessions.

    Raises StreamError where it cannot or must not listen on the address.
    """
    gate = gate_for(address.host, address.token)
    share = divide_files(files_max())
    anyio.to_thread.current_default_thread_limiter().total_tokens = PAGES_MAX
    metrics = ServeMetrics((rule.pack, rule.id) for rule in compiled.rules)
    app = Starlette(
        routes=pages.routes(store, compiled, is_live=False, chain=chain),
        middleware=[Middleware(GateMiddleware, gate=gate, meter=metrics.receiver)],
        exception_handlers={404: lambda _request, _error: pages.missing_page()},
    )
    with listening(address.host, address.port) as sock:
        limits, meter = ConnectionLimits(share.http_max), metrics.connections.of(OtlpTransport.HTTP)
        url = address.url(sock.getsockname()[1])
        server = HttpServer(app, limits, meter, STOPPING_S, lambda: report(f"console on {url}"))
        await server.serve([sock])
