"""Requests whose spans the compiled loops read, and the runs of spans of one trace in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..dialects.names import scopes
from ..sessions.span_reading import SpanReading
from ..walk.locate import ROWS, LocatedRequests, PlacedSpan, scope_name_of, sender_in, unread
from ..walk.single_span import NotRead
from . import columns
from .columns import (
    FIRST,
    LAST_END,
    LATEST,
    MISSING,
    READING_COLUMNS,
    RECORD_COLUMNS,
    REQUEST_COLUMNS,
    RUN_COLUMNS,
    RUNS,
    RUNS_STOP,
    SENDER_COLUMNS,
)
from .reading_loops import SLOTS
from .request_loops import read_requests

SENDER_BYTES_MAX = 300
"""Bytes of a service's name, and of the prefix of sessions: a span that inherits them needs little room."""
_UNUSUAL = frozenset({scopes.HAYSTACK, *scopes.AGENTS_BESIDE, *scopes.TEXT_PARTS})


class PlainRecord(msgspec.Struct, frozen=True, gc=False):
    """A record with a request: its bytes, its time, its offset, and the SHA-256 of its bytes."""

    data: bytes
    time: int
    offset: int
    digest: bytes


class PlainRun(NamedTuple):
    """Consecutive spans of one trace and scope in a request: their rows, and what they count.

    `chars` are the characters that they count while they wait, `read` is how many of them have claims.
    """

    trace_id: str
    first: int
    stop: int
    chars: int
    read: int
    scope: str


class PlainRequest(msgspec.Struct, frozen=True, gc=False):
    """A request of a batch with plain spans alone: its runs, the latest time and end of its spans."""

    batch: PlainRequests
    place: int
    runs: list[PlainRun]
    latest: int
    last_end: int

    @property
    def record(self) -> PlainRecord:
        """Return its record."""
        return self.batch.records[self.place]

    def located(self) -> list[PlacedSpan]:
        """Return its spans as the ordinary path locates them."""
        spans = self.batch.walked.at(self.place, self.batch.scope)
        assert spans is not None, "the walk has read a plain request"
        return spans

    def readings(self, run: PlainRun) -> list[SpanReading]:
        """Return the readings of a run as the ordinary path has them."""
        record, begin = self.record, self.runs[0].first
        spans = self.located()[run.first - begin : run.stop - begin]
        origin = record.offset, record.digest
        return [unread(record.data, span, record.time, origin) for span in spans]


class PlainRequests:
    """A batch of requests that are walked and read at once.

    The resource attributes named by `scope` precede the ids of sessions. There is room for `size` spans of
    each request.
    """

    def __init__(self, records: Sequence[PlainRecord], scope: Sequence[str] = (), size: int = ROWS) -> None:
        self.records, self.scope = records, tuple(scope)
        self.walked = walked = LocatedRequests([record.data for record in records], size)
        count, spans = len(records), len(walked.spans)
        self.readings: NDArray[np.int64] = np.empty((spans, READING_COLUMNS), np.int64)
        requests: NDArray[np.int64] = np.empty((count, REQUEST_COLUMNS), np.int64)
        runs: NDArray[np.int64] = np.empty((spans, RUN_COLUMNS), np.int64)
        of_slot: NDArray[np.int64] = np.empty(SLOTS, np.int64)
        run_count = read_requests(
            walked.bytes, walked.begins, walked.found, walked.spans, walked.facts, of_slot,
            self.readings, requests, runs,
        )  # fmt: skip
        self._requests = cast("list[list[int]]", requests.tolist())
        self._runs = cast("list[list[int]]", runs[:run_count].tolist())
        first = runs[:run_count, FIRST]
        places = (columns.TRACE, columns.RESOURCE, columns.RESOURCE_STOP, columns.SCOPE, columns.SCOPE_STOP)
        self._places = cast("list[list[int]]", self.readings[first][:, places].tolist())
        self._senders: dict[bytes, int] = {}
        self._sender_rows: list[tuple[int, ...]] = []
        self._names = bytearray()

    def at(self, place: int) -> PlainRequest | None:
        """Return the request at a place; None where the ordinary path has to read it."""
        row = self._requests[place]
        if row[RUNS] == MISSING:
            return None
        try:
            runs = [self._run(number) for number in range(row[RUNS], row[RUNS_STOP])]
        except NotRead:
            return None
        return PlainRequest(self, place, runs, row[LATEST], row[LAST_END])

    def _run(self, number: int) -> PlainRun:
        """Return a run; raise NotRead where its sender or its scope is unusual."""
        data = self.walked.data
        trace, resource, resource_stop, scope, scope_stop = self._places[number]
        name = scope_name_of(data[scope:scope_stop])
        if name in _UNUSUAL or name.startswith(scopes.LOGFIRE):
            raise NotRead
        _, first, stop, chars, read = self._runs[number]
        sender = self._sender(data[resource:resource_stop])
        if sender:
            self.readings[first:stop, columns.SENDER] = sender
        return PlainRun(data[trace : trace + 16].hex(), first, stop, chars, read, name)

    def _sender(self, resource: bytes) -> int:
        """Return the number of a sender; raise NotRead for an unusual one."""
        found = self._senders.get(resource)
        if found is not None:
            return found
        sender = sender_in(resource, self.scope)
        service = None if sender.service is None else sender.service.encode()
        prefix = sender.prefix.encode()
        if sender.is_coarse or max(len(service or b""), len(prefix)) > SENDER_BYTES_MAX:
            raise NotRead
        at = len(self._names)
        self._names += (service or b"") + prefix
        size = MISSING if service is None else len(service)
        self._sender_rows.append((at, size, at + max(size, 0), len(prefix)))
        self._senders[resource] = len(self._sender_rows) - 1
        return self._senders[resource]

    @cached_property
    def shared(self) -> tuple[Any, ...]:
        """Return what all loops that write need: bytes, names, senders, records and digests.

        All requests that are needed must have been read before.
        """
        senders = np.array(self._sender_rows or [(0, MISSING, 0, 0)], np.int64).reshape(-1, SENDER_COLUMNS)
        records = np.array([(record.time, record.offset) for record in self.records], np.int64)
        digests = np.frombuffer(b"".join([record.digest for record in self.records]), np.uint8)
        names = np.frombuffer(bytes(self._names) or b"\0", np.uint8)
        return self.walked.bytes, names, senders, records.reshape(-1, RECORD_COLUMNS), digests
