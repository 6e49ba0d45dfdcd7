"""Which connections a server closes: by a table alone, with a clock that is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from tracline.stream.error import StreamError
from tracline.stream.ingest.server.connections import (
    CloseReason,
    Connection,
    ConnectionLimits,
    ConnectionTable,
    peer_of,
)
from tracline.stream.ingest.server.open_files import (
    FILES_MIN,
    FILES_PER_FEED,
    FILES_PER_GRPC,
    FILES_RESERVED,
    divide_files,
)

LIMITS = ConnectionLimits(connections_max=4, headers_s=10, idle_s=20, unread_s=30)


@dataclass
class Wire:
    """A link that notes whether it was closed, and of which `unread` bytes wait."""

    is_open: bool = True
    unread: int = 0

    def abort(self) -> None:
        """Close."""
        self.is_open = False

    def get_write_buffer_size(self) -> int:
        """Return the bytes that wait."""
        return self.unread


@dataclass
class Server:
    """A table, its clock, and what it counted."""

    limits: ConnectionLimits = LIMITS
    now: float = 0.0
    count: int = 0
    reasons: Counter[CloseReason] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.table = ConnectionTable(self.limits, self, lambda: self.now)

    def connect(self, peer: str = "a") -> tuple[Connection, Wire]:
        """A new connection."""
        wire = Wire()
        return self.table.add(peer, wire), wire

    def opened(self) -> None:
        """Count it."""
        self.count += 1

    def ended(self) -> None:
        """Count it."""
        self.count -= 1

    def closed(self, reason: CloseReason) -> None:
        """Count it."""
        self.reasons[reason] += 1


def test_the_newest_connection_gets_in() -> None:
    """If the table is full the oldest silent one yields, and never are there more than may be."""
    server = Server()
    wires = [server.connect()[1] for _ in range(6)]
    assert [wire.is_open for wire in wires] == [False, False, True, True, True, True]
    assert (len(server.table), server.count, server.reasons) == (4, 4, {CloseReason.EVICTED: 2})


def test_strangers_yield_before_those_that_the_gate_let_pass() -> None:
    """A stranger yields first, then one that has no request in work, then the one longest at work."""
    server = Server()
    (busy, at_work), (idle, resting) = server.connect(), server.connect()
    server.table.begin(busy)
    server.table.begin(idle)
    server.table.end(idle)
    strangers = [server.connect()[1] for _ in range(2)]
    for new in range(4):
        newest, _ = server.connect()
        server.table.begin(newest)
        open_ = [wire.is_open for wire in (*strangers, resting, at_work)]
        assert open_ == [number > new for number in range(4)]


def test_the_peer_with_most_connections_yields() -> None:
    """One sender with many connections does not push out another with one."""
    server = Server()
    _, alone = server.connect("b")
    for _ in range(20):
        server.connect("a")
    assert alone.is_open


def test_a_silent_connection_is_closed_in_time() -> None:
    """Without a request's head it is closed after `headers_s`; one that has shown the token has `idle_s`."""
    server = Server()
    (_, silent), (known, idle), (busy, at_work) = server.connect(), server.connect(), server.connect()
    server.table.begin(known)
    server.table.end(known)
    server.table.begin(busy)
    opened: list[tuple[bool, bool, bool]] = []
    for server.now in (9.9, 10, 19.9, 20, 1_000):
        server.table.sweep()
        opened.append((silent.is_open, idle.is_open, at_work.is_open))
    assert opened == [(True,) * 3, (False, True, True), (False, True, True), *[(False, False, True)] * 2]
    assert server.reasons == {CloseReason.SILENT: 2}


def test_an_answer_begins_the_time_for_the_next_head() -> None:
    """A connection that goes on asking, with or without the token, is not silent."""
    server = Server()
    (stranger, probe), (known, sender) = server.connect(), server.connect()
    for server.now in range(0, 100, 9):
        server.table.refused(stranger)
        server.table.begin(known)
        server.table.end(known)
        server.table.sweep()
    assert probe.is_open
    assert sender.is_open


def test_an_answer_that_nobody_reads_is_given_up() -> None:
    """A connection whose client takes nothing for `unread_s` is closed, though it is at work."""
    server = Server()
    (slow, reading), (stuck, stopped) = server.connect(), server.connect()
    server.table.begin(slow)
    server.table.begin(stuck)
    stopped.unread = 500
    for server.now in range(0, 60, 5):
        reading.unread = 1_000 - round(server.now)
        server.table.sweep()
    assert (reading.is_open, stopped.is_open) == (True, False)
    assert server.reasons == {CloseReason.UNREAD: 1}


def test_a_connection_that_was_closed_is_gone_for_good() -> None:
    """Whatever is noted of it afterwards changes nothing for others."""
    server = Server()
    gone, _ = server.connect()
    assert server.table.evict()
    assert not server.table.evict()
    server.table.begin(gone)
    server.table.end(gone)
    server.table.remove(gone)
    assert (len(server.table), server.count) == (0, 0)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "192.0.2.1", False),
    ],
)
def test_a_site_is_one_peer(first: str, second: str, same: bool) -> None:
    """Addresses of one IPv6 network are one sender's, who may have as many as there are."""
    assert (peer_of(first) == peer_of(second)) is same


@pytest.mark.parametrize("files", [FILES_MIN, 256, 1_024, 4_096, 1 << 20])
def test_connections_fit_into_the_files(files: int) -> None:
    """All connections and feeds together need no more than there are, and requests leave room for others."""
    share = divide_files(files)
    needed = share.http_max + FILES_PER_GRPC * share.grpc_max + (FILES_PER_FEED - 1) * share.feeds_max
    assert needed + FILES_RESERVED <= files
    assert share.requests_max + share.feeds_max < share.http_max
    assert min(share.grpc_max, share.feeds_max, share.requests_max) > 3


def test_too_few_files_are_an_error() -> None:
    """The error names how many are needed."""
    with pytest.raises(StreamError, match=str(FILES_MIN)) as caught:
        divide_files(FILES_MIN - 1)
    assert caught.value.code == "TRL714"
