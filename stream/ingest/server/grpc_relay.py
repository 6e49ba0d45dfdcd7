"""Connections of gRPC: accepted and limited here, and relayed to gRPC's own server over a private socket.

gRPC itself can only refuse connections beyond a number, so that the first clients lock out all others. A call
finds its connection by the name of the relay's socket, which gRPC reports as its peer.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import cast

from .acceptor import Acceptor
from .connections import Connection, ConnectionLimits, ConnectionMeter, ConnectionTable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every HTTP/2 connection. RFC 9113, section 3.4."""
IDLE_S = 600.0
"""Seconds that an authenticated connection may be without calls."""


class Relay:
    """Relays connections of a public socket to the server that listens on `target`; for one event loop."""

    def __init__(self, sock: socket.socket, limits: ConnectionLimits, meter: ConnectionMeter) -> None:
        self._sock = sock
        self._folder = Path(tempfile.mkdtemp(prefix="tracline-"))
        self._numbers = count()
        self._connections: dict[str, Connection] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self.table = ConnectionTable(limits, meter, time.monotonic)
        self._acceptor = Acceptor(sock, self.table, lambda connection: _Front(self, connection))

    @property
    def target(self) -> str:
        """Return the address of gRPC's server: a socket in a folder that no other user can enter."""
        return f"unix:{self._folder / 'server'}"

    def connection(self, peer: str) -> Connection | None:
        """Return the connection of a call, by the peer that gRPC reports."""
        return self._connections.get(peer)

    def start(self) -> None:
        """Begin to accept connections."""
        self._acceptor.start()

    async def close(self) -> None:
        """Stop accepting; connections stay open until the server closes them."""
        self._acceptor.close()
        self._sock.close()
        await self._acceptor.wait_closed()

    def remove(self) -> None:
        """Remove the private socket, once the server has stopped."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def join(self, front: _Front) -> None:
        """Connect a client to the server."""
        task = asyncio.get_running_loop().create_task(self._join(front))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _join(self, front: _Front) -> None:
        loop = asyncio.get_running_loop()
        name = self._folder / str(next(self._numbers))
        sock: socket.socket | None = None
        try:
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            sock.bind(str(name))
            await loop.sock_connect(sock, str(self._folder / "server"))
            name.unlink()
            self._connections[f"unix:{name}"] = front.connection
            front.name = f"unix:{name}"
            await loop.create_unix_connection(lambda: _Back(front), sock=sock)
        except OSError:
            # No file descriptor is left, or the server has stopped: the client may retry.
            if sock is not None:
                sock.close()
            name.unlink(missing_ok=True)
            front.connection.link.abort()

    def remove_connection(self, name: str) -> None:
        """Remove a connection that has ended."""
        self._connections.pop(name, None)


class _Front(asyncio.Protocol):
    """The client's side of a relayed connection. The server sees it once it has sent the HTTP/2 preface."""

    def __init__(self, relay: Relay, connection: Connection) -> None:
        self._relay = relay
        self._preface = b""
        self.connection = connection
        self.name = ""
        self.back: _Back | None = None
        self.transport = cast("asyncio.Transport", None)
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.back is not None:
            self.back.transport.write(data)
            return
        self._preface += data
        if not self._preface.startswith(PREFACE[: len(self._preface)]):
            self.transport.abort()
        elif len(self._preface) >= len(PREFACE):
            self.transport.pause_reading()
            self._relay.join(self)

    def joined(self, back: _Back) -> None:
        """Send the server the bytes that came before its side was connected."""
        self.back = back
        back.transport.write(self._preface)
        self._preface = b""
        self.transport.resume_reading()

    def pause_writing(self) -> None:
        if self.back is not None:
            self.back.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.back is not None:
            self.back.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_lost = True
        self._relay.remove_connection(self.name)
        if self.back is not None:
            self.back.transport.close()


class _Back(asyncio.Protocol):
    """The server's side of a relayed connection."""

    def __init__(self, front: _Front) -> None:
        self._front = front
        self.transport = cast("asyncio.Transport", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._front.is_lost:
            self.transport.close()
        else:
            self._front.joined(self)

    def data_received(self, data: bytes) -> None:
        self._front.transport.write(data)

    def pause_writing(self) -> None:
        self._front.transport.pause_reading()

    def resume_writing(self) -> None:
        self._front.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._front.transport.close()
