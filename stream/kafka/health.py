"""The port of a process of the Kafka pipeline for its metrics and health: `/metrics`, `/healthz`, `/readyz`.

It uses the gate of `tracline serve`: on an address of this machine every caller that names it may ask,
elsewhere every caller with the token, which the two questions of health never need.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..error import StreamError
from ..ingest.auth import GateMiddleware, gate_for
from ..ingest.meter import OtlpTransport
from ..ingest.server.connections import ConnectionLimits
from ..ingest.server.http_server import HttpServer
from ..ingest.server.sockets import Address, listening
from ..process.kafka_metrics import KafkaMetrics
from ..process.metrics import metrics_route

CONNECTIONS_MAX = 64
"""The most connections at a time; the newest gets in, and the oldest that is silent yields."""
STOPPING_S = 2
"""The seconds that an answer may take once the process ends."""
STARTING_S = 20
"""The seconds that the port may take to answer."""


Question = Callable[[], bool]
"""A question that the port's own thread asks, so it must be quick and safe from any thread."""


@contextmanager
def serving(metrics: KafkaMetrics, address: Address, is_ready: Question) -> Generator[int]:
    """Serve metrics and health in a thread while the block runs, and yield the port that is listened on.

    `/readyz` is 200 if `is_ready` is true (partitions are assigned and state is there), else 503;
    `/healthz` is 200 as long as there is the process: one that cannot go on ends.

    Raises:
        StreamError: TRL711 and TRL712 as `gate_for`; TRL713 where the address cannot be listened on.
    """
    gate = gate_for(address.host, address.token)
    with listening(address.host, address.port) as sock:
        app = Starlette(
            routes=[
                metrics_route(metrics.registry),
                _health("/healthz", lambda: True),
                _health("/readyz", is_ready),
            ],
            middleware=[Middleware(GateMiddleware, gate=gate, meter=metrics)],
        )
        begun = threading.Event()
        limits, meter = ConnectionLimits(CONNECTIONS_MAX), metrics.connections.of(OtlpTransport.HTTP)
        server = HttpServer(app, limits, meter, STOPPING_S, begun.set)
        thread = threading.Thread(
            target=asyncio.run, args=(server.serve([sock]),), name="health", daemon=True
        )
        thread.start()
        try:
            if not begun.wait(STARTING_S):
                hint = "the machine may be overloaded; start the process again"
                raise StreamError("TRL713", f"{address.url()} does not answer", hint)
            yield sock.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(STARTING_S)


def _health(path: str, question: Question) -> Route:
    async def answer(_request: Request) -> Response:
        return PlainTextResponse("ok\n") if question() else PlainTextResponse("not ready yet\n", 503)

    return Route(path, answer)
