"""Requests whose spans the compiled loops read, and the runs of spans of one trace in each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..dialects.names import scopes
from ..otlp.single import scope_of
from ..otlp.wire import header
from ..plain_readings import columns
from ..plain_readings.columns import (
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
    SPAN,
    SPAN_STOP,
)
from ..plain_readings.reading_loops import SLOTS
from ..sessions.late_ends import whole_end
from ..sessions.span_reading import SpanReading
from ..span_content import SpanRole
from ..walk.flat_span import ODD_SCOPES
from ..walk.locate import ROWS, LocatedRequests, PlacedSpan, scope_name_of, sender_in, unread
from ..walk.request_loops import SPANS
from ..walk.single_span import NotRead
from ..walk.wire_loops import FULL
from .request_loops import read_requests

SIZE_MAX = 1 << 20
"""Spans of a request, at most."""
SPAN_BYTES = 256
"""Bytes of a short span, for the room that a request has at first."""
SENDER_BYTES_MAX = 300
"""Bytes of a service's name, and of the prefix of sessions: a span that inherits them needs little room."""
_ROLE_PLACES = [columns.ROLE, columns.IDENTITY, SPAN, SPAN_STOP]
_TIME_PLACES = [columns.START, columns.END, columns.ROLE]
_ROLES = {
    columns.OTHER: SpanRole.OTHER,
    columns.CHAT: SpanRole.CHAT,
    columns.TOOL: SpanRole.TOOL,
    columns.AGENT: SpanRole.AGENT,
}
_UNUSUAL = frozenset({scopes.HAYSTACK, *scopes.AGENTS_BESIDE, *scopes.TEXT_PARTS})


class PlainRecord(msgspec.Struct, frozen=True, gc=False):
    """A record with a request: its bytes, its time, its offset, and the SHA-256 of its bytes."""

    data: bytes
    time: int
    offset: int
    digest: bytes


SenderFacts: TypeAlias = tuple[bytes | None, bytes, bool]
"""A service's name, if there is one, the prefix of sessions, and whether the sender's clock is coarse."""


class PlainRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive spans of one trace and scope in a request: their rows, and what they count.

    `chars` are the characters that they count while they wait, `read` is how many of them have claims.
    `scope` and `version` are the name and the version of the scope, `sender` is the number of their sender in
    the batch.
    """

    trace_id: str
    first: int
    stop: int
    chars: int
    read: int
    scope: str
    version: str
    sender: int


class WaitingRun(msgspec.Struct, frozen=True, gc=False):
    """A run that waits longer than its batch: its record, its rows, its sender, and the characters it counts.

    The offsets in the rows are greater than those in the record: by `begin`, those of resource and scope by
    numbers of their own.
    """

    record: PlainRecord
    begin: int
    resource_begin: int
    scope_begin: int
    readings: NDArray[np.int64]
    sender: SenderFacts
    chars: int


class PlainRequest(msgspec.Struct, frozen=True, gc=False):
    """A request of a batch with plain spans alone: its runs, the latest time and end of its spans.

    `is_mixed` is whether it has spans of several traces.
    """

    batch: PlainRequests
    place: int
    runs: list[PlainRun]
    latest: int
    last_end: int
    is_mixed: bool

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

    @property
    def size(self) -> int:
        """Return the number of its spans."""
        return self.runs[-1].stop - self.runs[0].first

    def recorded(self, offset: int, digest: bytes) -> PlainRequest:
        """Return the only request of its batch with the offset and the digest of its record."""
        record = msgspec.structs.replace(self.record, offset=offset, digest=digest)
        return msgspec.structs.replace(self, batch=self.batch.recorded([record]))

    def by_role(self) -> Iterator[tuple[PlainRun, list[str], list[bytes]]]:
        """Yield each run, with the ids of its spans of models, tools and agents, and the others' bytes."""
        data, first = self.batch.walked.data, self.runs[0].first
        whole = self.batch.readings[first : self.runs[-1].stop, _ROLE_PLACES]
        rows = cast("list[list[int]]", whole.tolist())
        for run in self.runs:
            read, others = list[str](), list[bytes]()
            for role, identity, begin, stop in rows[run.first - first : run.stop - first]:
                if role == columns.OTHER:
                    others.append(data[begin:stop])
                else:
                    read.append(data[identity : identity + 8].hex())
            yield run, read, others

    def waiting(self, run: PlainRun) -> WaitingRun:
        """Return a run without the others of its batch; of a mixed request it has the bytes of its spans."""
        batch, begin = self.batch, self.batch.begins[self.place]
        rows = batch.readings[run.first : run.stop].copy()
        cut = _cut(batch.walked.data, rows) if self.is_mixed else None
        if cut is None:
            return WaitingRun(self.record, begin, begin, begin, rows, batch.senders[run.sender], run.chars)
        data, begin, resource_begin, scope_begin = cut
        record = msgspec.structs.replace(self.record, data=data)
        return WaitingRun(
            record, begin, resource_begin, scope_begin, rows, batch.senders[run.sender], run.chars
        )


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
        self.begins = cast("list[int]", walked.begins.tolist())
        self.senders: list[SenderFacts] = []
        self._numbers: dict[bytes, int] = {}
        self._scopes: dict[bytes, tuple[str, str]] = {}

    def at(self, place: int) -> PlainRequest | None:
        """Return the request at a place; None where the ordinary path has to read it."""
        row = self._requests[place]
        if row[RUNS] == MISSING:
            return None
        try:
            runs = [self._run(number) for number in range(row[RUNS], row[RUNS_STOP])]
        except NotRead:
            return None
        is_mixed = any(run.trace_id != runs[0].trace_id for run in runs)
        return PlainRequest(self, place, runs, row[LATEST], row[LAST_END], is_mixed)

    def _run(self, number: int) -> PlainRun:
        """Return a run; raise NotRead where its sender or its scope is unusual."""
        data = self.walked.data
        trace, resource, resource_stop, scope, scope_stop = self._places[number]
        name, version = self._scope(data[scope:scope_stop])
        _, first, stop, chars, read, is_flat = self._runs[number]
        if is_flat and name in ODD_SCOPES:
            raise NotRead
        sender = self._sender(data[resource:resource_stop])
        if sender:
            self.readings[first:stop, columns.SENDER] = sender
        if self.senders[sender][2]:
            self._cut_ends(first, stop)
        return PlainRun(data[trace : trace + 16].hex(), first, stop, chars, read, name, version, sender)

    def _cut_ends(self, first: int, stop: int) -> None:
        """Cut the ends of spans whose clock is coarse, as the ordinary path does."""
        rows = cast("list[list[int]]", self.readings[first:stop, _TIME_PLACES].tolist())
        for place, (start, end, role) in enumerate(rows, first):
            self.readings[place, columns.END] = whole_end(start, end, _ROLES[role])

    def _scope(self, scope: bytes) -> tuple[str, str]:
        """Return the name and the version of a scope; raise NotRead for an unusual one."""
        found = self._scopes.get(scope)
        if found is None:
            name = scope_name_of(scope)
            if name in _UNUSUAL or name.startswith(scopes.LOGFIRE):
                raise NotRead
            found = self._scopes[scope] = scope_of(scope)
        return found

    def _sender(self, resource: bytes) -> int:
        """Return the number of a sender; raise NotRead for an unusual one."""
        found = self._numbers.get(resource)
        if found is not None:
            return found
        sender = sender_in(resource, self.scope)
        service = None if sender.service is None else sender.service.encode()
        prefix = sender.prefix.encode()
        if max(len(service or b""), len(prefix)) > SENDER_BYTES_MAX:
            raise NotRead
        self.senders.append((service, prefix, sender.is_coarse))
        number = self._numbers[resource] = len(self.senders) - 1
        return number

    @property
    def is_full(self) -> bool:
        """Return whether there was too little room for the last request."""
        return bool(self.walked.found[-1, SPANS] == FULL)

    def recorded(self, records: Sequence[PlainRecord]) -> PlainRequests:
        """Return these requests with other records of the same bytes."""
        made = copy(self)
        made.records = records
        return made

    @cached_property
    def given(self) -> tuple[Any, ...]:
        """Return what the loops are given that write, once the requests have been read that are needed."""
        return given_arrays(self.walked.bytes, self.senders, self.records)


def plain_request(record: PlainRecord, scope: Sequence[str] = ()) -> PlainRequest | None:
    """Return a request as the only one of its batch; None where the ordinary path has to read it."""
    size = max(ROWS, len(record.data) // SPAN_BYTES)
    batch = PlainRequests([record], scope, size)
    while batch.is_full and size < SIZE_MAX:
        size *= 8
        batch = PlainRequests([record], scope, size)
    return batch.at(0)


def _cut(data: bytes, rows: NDArray[np.int64]) -> tuple[bytes, int, int, int] | None:
    """Return a request of a run alone, and by how much the offsets in its rows are greater than those in it.

    These are of spans, of the resource and of the scope. Return None where something is between the spans.
    """
    first = cast("list[int]", rows[0].tolist())
    begin, stop = first[SPAN], first[SPAN_STOP]
    size = stop - begin
    for next_begin, next_stop in cast("list[list[int]]", rows[1:, (SPAN, SPAN_STOP)].tolist()):
        if next_begin - stop != len(header(2, next_stop - next_begin)):
            return None
        stop = next_stop
    resource = data[first[columns.RESOURCE] : first[columns.RESOURCE_STOP]]
    scope = data[first[columns.SCOPE] : first[columns.SCOPE_STOP]]
    scope_head, spans_head = header(1, len(scope)) + scope, header(2, size)
    scoped = len(scope_head) + len(spans_head) + stop - begin
    resource_head = header(1, len(resource)) + resource
    scoped_head = header(2, scoped)
    head = header(1, len(resource_head) + len(scoped_head) + scoped) + resource_head
    scope_stop = len(head) + len(scoped_head) + len(scope_head)
    cut = b"".join((head, scoped_head, scope_head, spans_head, data[begin:stop]))
    return (
        cut,
        begin - scope_stop - len(spans_head),
        first[columns.RESOURCE_STOP] - len(head),
        first[columns.SCOPE_STOP] - scope_stop,
    )


def given_arrays(
    data: NDArray[np.uint8], senders: Sequence[SenderFacts], records: Sequence[PlainRecord]
) -> tuple[Any, ...]:
    """Return what the loops are given that write: bytes, names, senders, records and digests."""
    names, rows = bytearray(b"\0"), list[tuple[int, ...]]()
    for service, prefix, is_coarse in senders or [(None, b"", False)]:
        at, size = len(names), len(service or b"")
        names += (service or b"") + prefix
        rows.append((at, MISSING if service is None else size, at + size, len(prefix), int(is_coarse)))
    times = np.array([(record.time, record.offset) for record in records], np.int64)
    digests = np.frombuffer(b"".join([record.digest for record in records]), np.uint8)
    return (
        data,
        np.frombuffer(bytes(names), np.uint8),
        np.array(rows, np.int64).reshape(-1, SENDER_COLUMNS),
        times.reshape(-1, RECORD_COLUMNS),
        digests,
    )
