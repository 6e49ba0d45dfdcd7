"""Accepting connections: a few at a time, each in the connection table from the start.

asyncio's own server accepts without a bound, and logs every failed accept where no file descriptor is left.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import cast

from .connections import Connection, ConnectionTable, peer_of

BACKLOG = 1_024
"""Connections that the kernel queues until they are accepted."""
ACCEPTS_MAX = 8
"""Connections accepted in one turn of the event loop; between turns it serves those it has."""
RETRY_S = 0.5
"""Seconds without accepting after no file descriptor was left and no connection could be evicted."""
SWEEP_S = 0.5
"""Seconds between two sweeps for silent connections."""
LOG_INTERVAL_S = 60.0
"""Seconds between two warnings about open files."""

_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_LOG = logging.getLogger(__name__)

MakeProtocol = Callable[[Connection], asyncio.Protocol]


class Acceptor:
    """Accepts connections of one socket into a table; `make` returns the protocol of each."""

    def __init__(self, sock: socket.socket, table: ConnectionTable, make: MakeProtocol) -> None:
        self._sock, self._table, self._make = sock, table, make
        self._loop = asyncio.get_running_loop()
        self._joining: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._warned_at = -LOG_INTERVAL_S

    def start(self) -> None:
        """Begin to accept connections."""
        self._sock.setblocking(False)
        self._sock.listen(BACKLOG)
        self._resume()
        self._sweep()

    def close(self) -> None:
        """Stop accepting; open connections continue."""
        if self._timers:
            self._loop.remove_reader(self._sock.fileno())
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def wait_closed(self) -> None:
        """Return once every accepted connection has its protocol."""
        await asyncio.gather(*self._joining, return_exceptions=True)

    def _resume(self) -> None:
        self._loop.add_reader(self._sock.fileno(), self._accept)

    def _sweep(self) -> None:
        self._table.sweep()
        self._timers["sweep"] = self._loop.call_later(SWEEP_S, self._sweep)

    def _accept(self) -> None:
        for _ in range(min(ACCEPTS_MAX, max(1, self._table.limits.connections_max // 8))):
            try:
                sock, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                self._without_files()
                return
            sock.setblocking(False)
            task = self._loop.create_task(self._join(sock))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def _join(self, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: _TrackedProtocol(self._table, self._make), sock)
        except OSError:
            # The client has closed the connection.
            sock.close()

    def _without_files(self) -> None:
        """Evict a connection, or else leave new ones to the kernel's queue for a while."""
        now = self._loop.time()
        if now - self._warned_at >= LOG_INTERVAL_S:
            self._warned_at = now
            _LOG.warning("too many open files: cannot accept a connection; raise the limit (ulimit -n)")
        if not self._table.evict():
            self._loop.remove_reader(self._sock.fileno())
            self._timers["resume"] = self._loop.call_later(RETRY_S, self._resume)


class _TrackedProtocol(asyncio.Protocol):
    """A protocol whose connection is in the table while it is open; it delegates all else."""

    def __init__(self, table: ConnectionTable, make: MakeProtocol) -> None:
        self._table, self._make = table, make
        self._connection: Connection | None = None
        self._protocol = asyncio.Protocol()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        carrier = cast("asyncio.Transport", transport)
        address = carrier.get_extra_info("peername") or ("",)
        self._connection = self._table.add(peer_of(str(address[0])), carrier)
        self._protocol = self._make(self._connection)
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._table.remove(self._connection)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
