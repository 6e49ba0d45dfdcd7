"""The connections of one server: which of them are closed, and which yields its place to a newer one.

Nothing here has a socket or a clock of its own. Every limit applies before a token is asked for: a
connection counts as a stranger's until the gate has let one of its requests pass, and strangers yield first.
So strangers cannot fill a server: where there is no place left, the newest connection gets a stranger's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from ipaddress import IPv6Address, ip_address
from typing import Protocol

HEADERS_S = 10.0
"""How long a connection may take to send the head of its first or next request, in seconds."""
UNREAD_S = 30.0
"""How long a client may read nothing of an answer that waits for it, in seconds."""
PREFIX_BITS = 64
"""Bits of an IPv6 address that make one peer: a network of one site."""


class CloseReason(StrEnum):
    """Why a server closes a connection: one word, for metrics."""

    SILENT = "silent"
    """It sent no whole head of a request in time."""
    EVICTED = "evicted"
    """It yielded its place to a newer one."""
    UNREAD = "unread"
    """Its client did not read the answer."""


class Rank(IntEnum):
    """What a connection is worth; those of the lowest rank yield first."""

    STRANGER = 0
    """The gate has let none of its requests pass."""
    IDLE = 1
    """It had a request that passed, and has none in work."""
    BUSY = 2
    """A request that passed is in work."""


class ConnectionMeter(Protocol):
    """Counts the connections of one server."""

    def opened(self) -> None:
        """A connection was accepted."""
        ...

    def ended(self) -> None:
        """A connection has ended, whoever closed it."""
        ...

    def closed(self, reason: CloseReason) -> None:
        """The server closed a connection."""
        ...


class Link(Protocol):
    """What carries a connection: `asyncio.WriteTransport` is one."""

    def abort(self) -> None:
        """Close at once."""
        ...

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the client has not taken yet."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server's connections, in seconds where they are times.

    `idle_s` is for connections that had a request which passed, `headers_s` for all others.
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
        self.rank = Rank.STRANGER
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
        """Return a place for a new connection; another connection yields where there is none left."""
        if len(self._open) >= self.limits.connections_max:
            self.evict()
        connection = Connection(peer, link, self._clock())
        self._open[connection] = None
        self._enter(connection)
        self._meter.opened()
        return connection

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended; one that is gone already is left alone."""
        if connection in self._open:
            del self._open[connection]
            self._leave(connection)
            self._meter.ended()

    def begin(self, connection: Connection) -> None:
        """Note that the gate let a request of the connection pass."""
        connection.requests += 1
        self._move(connection, Rank.BUSY)

    def end(self, connection: Connection) -> None:
        """Note that a request which passed was answered."""
        connection.requests -= 1
        connection.since = self._clock()
        if not connection.requests:
            self._move(connection, Rank.IDLE)

    def refused(self, connection: Connection) -> None:
        """Note that a request which did not pass, or asked for no token, was answered."""
        connection.since = self._clock()

    def evict(self) -> bool:
        """Close the connection that is worth least: of the peer with most of its rank, the oldest.

        Returns whether there was one.
        """
        for rank in Rank:
            if peers := self._ranks[rank]:
                crowd = max(peers.values(), key=len)
                self._close(next(iter(crowd)), CloseReason.EVICTED)
                return True
        return False

    def sweep(self) -> None:
        """Close every connection that was silent, or left its answer unread, for longer than it may."""
        now = self._clock()
        for connection in list(self._open):
            if self._is_unread(connection, now):
                self._close(connection, CloseReason.UNREAD)
            elif connection.rank is not Rank.BUSY and now - connection.since >= self._silence_max(connection):
                self._close(connection, CloseReason.SILENT)

    def _silence_max(self, connection: Connection) -> float:
        return self.limits.headers_s if connection.rank is Rank.STRANGER else self.limits.idle_s

    def _is_unread(self, connection: Connection, now: float) -> bool:
        """Return whether the client takes nothing: what waits for it was never less for `unread_s`."""
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
    """Return who an address stands for: itself, or the site's network where it is IPv6."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(int(address) >> (128 - PREFIX_BITS))
    return str(address)
