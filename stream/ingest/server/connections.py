"""The table of a server's connections: limits, timeouts, and eviction where the table is full.

This module has neither socket nor clock. A connection counts as unauthenticated until the gate has accepted
one of its requests, and unauthenticated connections are evicted first. So they cannot lock others out: in a
full table a new connection takes the place of an unauthenticated one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from ipaddress import IPv6Address, ip_address
from typing import Protocol

HEADERS_S = 10.0
"""Seconds that a connection may take to send the head of its first or next request."""
UNREAD_S = 30.0
"""Seconds that a client may leave an answer unread."""
PREFIX_BITS = 64
"""Bits of an IPv6 address that identify a peer: one site's network."""


class CloseReason(StrEnum):
    """The reason why a server closes a connection: one word, for metrics."""

    SILENT = "silent"
    """It sent no whole head of a request in time."""
    EVICTED = "evicted"
    """A newer connection took its place."""
    UNREAD = "unread"
    """Its client did not read the answer."""


class Rank(IntEnum):
    """The rank of a connection; the lowest rank is evicted first."""

    UNAUTHENTICATED = 0
    """The gate has accepted none of its requests."""
    IDLE = 1
    """It had an accepted request, and none runs now."""
    BUSY = 2
    """An accepted request runs."""


class ConnectionMeter(Protocol):
    """Counts the connections of one server."""

    def opened(self) -> None:
        """Count an accepted connection."""
        ...

    def ended(self) -> None:
        """Count a connection that has ended, whichever side closed it."""
        ...

    def closed(self, reason: CloseReason) -> None:
        """Count a connection that the server closed."""
        ...


class Link(Protocol):
    """The transport of a connection, such as an `asyncio.WriteTransport`."""

    def abort(self) -> None:
        """Close at once."""
        ...

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the client has not read yet."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server's connections; times in seconds.

    `idle_s` applies to authenticated connections, `headers_s` to all others.
    """

    connections_max: int
    headers_s: float = HEADERS_S
    idle_s: float = HEADERS_S
    unread_s: float = UNREAD_S


class Connection:
    """One connection of a `ConnectionTable`."""

    __slots__ = ("link", "peer", "rank", "requests", "since", "unread", "unread_since")

    def __init__(self, peer: str, link: Link, now: float) -> None:
        self.peer = peer
        self.link = link
        self.rank = Rank.UNAUTHENTICATED
        self.requests = 0
        self.since = now
        self.unread = 0
        self.unread_since = now


class ConnectionTable:
    """The open connections of one server, at most `connections_max`; for one event loop."""

    def __init__(self, limits: ConnectionLimits, meter: ConnectionMeter, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._meter = meter
        self._clock = clock
        self._open: dict[Connection, None] = {}
        self._ranks: dict[Rank, dict[str, dict[Connection, None]]] = {rank: {} for rank in Rank}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, peer: str, link: Link) -> Connection:
        """Add a new connection and return it; in a full table another connection is evicted."""
        if len(self._open) >= self.limits.connections_max:
            self.evict()
        connection = Connection(peer, link, self._clock())
        self._open[connection] = None
        self._enter(connection)
        self._meter.opened()
        return connection

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended, if it is still in the table."""
        if connection in self._open:
            del self._open[connection]
            self._leave(connection)
            self._meter.ended()

    def begin(self, connection: Connection) -> None:
        """Note that the gate accepted a request of the connection."""
        connection.requests += 1
        self._move(connection, Rank.BUSY)

    def end(self, connection: Connection) -> None:
        """Note that an accepted request was answered."""
        connection.requests -= 1
        connection.since = self._clock()
        if not connection.requests:
            self._move(connection, Rank.IDLE)

    def refused(self, connection: Connection) -> None:
        """Note that a request was answered which was refused, or needed no token."""
        connection.since = self._clock()

    def evict(self) -> bool:
        """Close one connection of the lowest rank: the oldest of the peer with most of them.

        Return whether there was one.
        """
        for rank in Rank:
            if peers := self._ranks[rank]:
                crowd = max(peers.values(), key=len)
                self._close(next(iter(crowd)), CloseReason.EVICTED)
                return True
        return False

    def sweep(self) -> None:
        """Close every connection that was silent, or left its answer unread, for too long."""
        now = self._clock()
        for connection in list(self._open):
            if self._is_unread(connection, now):
                self._close(connection, CloseReason.UNREAD)
            elif connection.rank is not Rank.BUSY and now - connection.since >= self._silence_max(connection):
                self._close(connection, CloseReason.SILENT)

    def _silence_max(self, connection: Connection) -> float:
        return self.limits.headers_s if connection.rank is Rank.UNAUTHENTICATED else self.limits.idle_s

    def _is_unread(self, connection: Connection, now: float) -> bool:
        """Return whether the client reads nothing: its unread bytes did not shrink for `unread_s`."""
        unread = connection.link.get_write_buffer_size()
        if not unread or unread < connection.unread or not connection.unread:
            connection.unread_since = now
        connection.unread = unread
        return now - connection.unread_since >= self.limits.unread_s

    def _close(self, connection: Connection, reason: CloseReason) -> None:
        self.remove(connection)
        self._meter.closed(reason)
        connection.link.abort()

    def _move(self, connection: Connection, rank: Rank) -> None:
        if connection in self._open and connection.rank is not rank:
            self._leave(connection)
            connection.rank = rank
            self._enter(connection)

    def _enter(self, connection: Connection) -> None:
        self._ranks[connection.rank].setdefault(connection.peer, {})[connection] = None

    def _leave(self, connection: Connection) -> None:
        peers = self._ranks[connection.rank]
        del peers[connection.peer][connection]
        if not peers[connection.peer]:
            del peers[connection.peer]


def peer_of(host: str) -> str:
    """Return the peer of an address: itself, or the site's network of an IPv6 address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(int(address) >> (128 - PREFIX_BITS))
    return str(address)
