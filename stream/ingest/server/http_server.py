"""The HTTP server of every process: uvicorn behind tracline's accept loop and connection table.

uvicorn limits requests, not connections, and has no timeout for a request's head.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .acceptor import Acceptor
from .connections import Connection, ConnectionLimits, ConnectionMeter, ConnectionTable

HEAD_BYTES_MAX = 64 << 10
"""Size limit of a request's line and headers together."""

_STATE = "tracline.connection"


@dataclass(frozen=True, slots=True)
class Client:
    """The connection of a request, in the table of its server."""

    connection: Connection
    table: ConnectionTable

    @contextmanager
    def answering(self, *, authenticated: bool) -> Generator[None]:
        """Note that a request is being answered, one that the gate accepted or one that needed no token."""
        if authenticated:
            self.table.begin(self.connection)
        try:
            yield
        finally:
            (self._end if authenticated else self.refused)()

    def refused(self) -> None:
        """Note that a refused request, or one that needed no token, was answered."""
        self.table.refused(self.connection)

    def _end(self) -> None:
        self.table.end(self.connection)


def client_of(scope: Scope) -> Client | None:
    """Return the connection of a request; None where another HTTP server handles it."""
    return cast("Client | None", scope.get("state", {}).get(_STATE))


class HttpServer(uvicorn.Server):
    """uvicorn with limited connections; it calls `on_start` once it answers."""

    def __init__(
        self,
        app: ASGIApp,
        limits: ConnectionLimits,
        meter: ConnectionMeter,
        stopping_s: int,
        on_start: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                _CompletedResponses(app),
                http="h11",
                ws="none",
                log_config=None,
                # It warns of every malformed request, so that anyone could fill the log.
                log_level="error",
                access_log=False,
                server_header=False,
                lifespan="off",
                h11_max_incomplete_event_size=HEAD_BYTES_MAX,
                timeout_keep_alive=round(limits.idle_s),
                timeout_graceful_shutdown=stopping_s,
            )
        )
        self._table = ConnectionTable(limits, meter, time.monotonic)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, with tracline's accept loop in place of uvicorn's, which has no bound."""
        assert sockets, "the server needs its socket"
        self.servers = cast(
            "list[asyncio.Server]", [Acceptor(sock, self._table, self._make) for sock in sockets]
        )
        for acceptor in cast("list[Acceptor]", self.servers):
            acceptor.start()
        self.started = True
        self._on_start()

    def _make(self, connection: Connection) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        return make(
            config=self.config,
            server_state=self.server_state,
            app_state={_STATE: Client(connection, self._table)},
        )


class _CompletedResponses:
    """An app that completes the responses which the wrapped app leaves open, as when the server stops.

    A response that has not begun becomes 503, after which exporters retry. Nothing is logged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = is_whole = False

        async def tracked(message: Message) -> None:
            nonlocal is_started, is_whole
            is_started = True
            is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        with suppress(asyncio.CancelledError):
            await self._app(scope, receive, tracked)
        if not is_started:
            headers = [(b"retry-after", b"1"), (b"connection", b"close"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body"})
        elif not is_whole and (client := client_of(scope)) is not None:
            client.connection.link.abort()
            # Let uvicorn see the lost connection before it checks that the response is complete.
            await asyncio.sleep(0)
