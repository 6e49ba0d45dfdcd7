"""The spans of a request, located: whose each is, and where its bytes are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import Any, cast

import msgspec
import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from ..otlp.attributes import from_protobuf
from ..otlp.decoded import Decoding
from ..otlp.protobuf import decode_protobuf
from ..otlp.single import single_request
from ..sessions.span_reading import Sender, SpanReading, read_span, sender_of
from ..span import Span
from . import keys
from .repeat_loops import BEHIND, MEMORY_COLUMNS, PLACES
from .request_loops import FOUND_COLUMNS, walk_all
from .single_span import NotRead, bare_reading
from .wire_loops import (
    BEGIN,
    COLUMNS,
    ENDED,
    FACT_COLUMNS,
    FULL,
    KEYS_MAX,
    ODD,
    RESOURCE,
    RESOURCE_STOP,
    SCOPE,
    SCOPE_STOP,
    STATE,
    STOP,
)

ROWS = 32
"""Spans for which there is room at first."""
_NOBODY = Sender(None, "", is_coarse=False)
CACHED_MAX = 1_024
CACHED_BYTES_MAX = 4_096
"""Resources and scopes that are cached, and the bytes of one."""


class PlacedSpan(msgspec.Struct, frozen=True, gc=False):
    """A span of a request: its reading, and the offsets of its bytes.

    `is_walked` is whether the walk alone read it; then the reading has no content (`SpanReading.bare`), but
    the span's scope. `ends` is whether it marks the end of its session. `ended` is the end as the span has
    it, `name` that of its instrumentation scope. The offsets are of the contents of the span, its resource
    and its scope.
    """

    reading: SpanReading
    ends: bool
    span: tuple[int, int]
    resource: tuple[int, int]
    scope: tuple[int, int]
    is_walked: bool
    ended: int
    name: str


class LocatedRequests:
    """The spans of requests in protobuf: one compiled call finds all of them, and each request is read alone.

    There is room for `size` spans of each request at first. `data` are the requests, each from a multiple of
    eight on (`begins`), and `bytes` the same as an array; `found`, `spans` and `facts` are what `walk_all`
    has found. `repeated` bytes of messages were known from an earlier text.
    """

    def __init__(self, requests: Sequence[bytes], size: int = ROWS) -> None:
        self._requests, self._size, count = requests, size, len(requests)
        self.data = b"".join([part for data in requests for part in (data, bytes(-len(data) % 8))])
        begins = [*accumulate((len(data) + -len(data) % 8 for data in requests), initial=0)]
        stops = [begin + len(data) for begin, data in zip(begins, requests, strict=False)]
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.data, np.uint8)
        self.begins: NDArray[np.int64] = np.array(begins[:-1], np.int64)
        spans: NDArray[np.int64] = np.empty((size * count, COLUMNS), np.int64)
        facts: NDArray[np.int64] = np.empty((16 * size * count, FACT_COLUMNS), np.int64)
        self.found: NDArray[np.int64] = np.empty((count, FOUND_COLUMNS), np.int64)
        memory: NDArray[np.int64] = np.zeros((PLACES + 1, MEMORY_COLUMNS), np.int64)
        span_count, fact_count = walk_all(
            self.bytes,
            np.frombuffer(self.data, np.uint64),
            np.array(stops, np.int64),
            *_table(),
            spans,
            facts,
            np.empty(2 * KEYS_MAX, np.uint64),
            memory,
            self.found,
        )
        self.spans, self.facts = spans[:span_count], facts[:fact_count]
        self.repeated = int(memory[PLACES, BEHIND])

    @cached_property
    def _behind(self) -> list[list[int]]:
        """Return the numbers of spans and of facts up to and with each request."""
        counted = np.where(self.found[:, :1] > 0, self.found, 0)
        return cast("list[list[int]]", counted.cumsum(axis=0).tolist())

    def at(self, place: int, scope: Sequence[str] = ()) -> list[PlacedSpan] | None:
        """Return the spans of the request at that place; None where the ordinary decoder has to read it.

        The resource attributes named by `scope` precede the session's id. A request with a flaw is never
        located.
        """
        count, fact_count = map(int, self.found[place])
        data = self._requests[place]
        if count == FULL:
            return LocatedRequests([data], 8 * self._size).at(0, scope)
        if count < 0:
            return None
        behind, facts_behind = self._behind[place]
        rows = cast("list[list[int]]", self.spans[behind - count : behind].tolist())
        facts = cast("list[list[int]]", self.facts[facts_behind - fact_count : facts_behind].tolist())
        try:
            return _located(data, rows, facts if count else [], tuple(scope))
        except NotRead:
            return None


def located(data: bytes, scope: Sequence[str] = ()) -> list[PlacedSpan] | None:
    """Return the spans of one request, as `LocatedRequests.at` does."""
    return LocatedRequests([data]).at(0, scope)


def request_of(data: bytes, span: PlacedSpan) -> bytes:
    """Return a request of one span of a request, with its resource and its scope."""
    return single_request(data[slice(*span.resource)], data[slice(*span.scope)], data[slice(*span.span)])


def unread(data: bytes, span: PlacedSpan, received: int, origin: tuple[int, bytes] | None) -> SpanReading:
    """Return the reading of a located span, with a request of the span where its content is not read."""
    if not span.is_walked:
        return msgspec.structs.replace(span.reading, record_time=received, origin=origin)
    content = msgspec.structs.replace(span.reading.content, ends=True) if span.ends else span.reading.content
    return msgspec.structs.replace(
        span.reading,
        content=content,
        record_time=received,
        origin=origin,
        request=request_of(data, span),
    )


def _located(
    data: bytes, rows: list[list[int]], facts: list[list[int]], prefixes: tuple[str, ...]
) -> list[PlacedSpan]:
    """Return the spans of the rows; those that the walk cannot read are read with the dialects."""
    found: list[PlacedSpan] = []
    decoded: Sequence[Span] = ()
    resource = scope = (0, 0)
    sender, name = _NOBODY, ""
    for place, row in enumerate(rows):
        if place == 0 or resource != (row[RESOURCE], row[RESOURCE_STOP]):
            resource = row[RESOURCE], row[RESOURCE_STOP]
            sender = sender_in(data[slice(*resource)], prefixes)
        if place == 0 or scope != (row[SCOPE], row[SCOPE_STOP]):
            scope = row[SCOPE], row[SCOPE_STOP]
            name = scope_name_of(data[slice(*scope)])
        places = (row[BEGIN], row[STOP]), resource, scope
        read = None if row[STATE] & ODD else bare_reading(data, row, facts, sender, name)
        if read is not None:
            found.append(PlacedSpan(*read, *places, is_walked=True, ended=row[ENDED], name=name))
            continue
        decoded = decoded or _decoded(data, len(rows))
        reading = read_span(decoded[place], prefixes)
        ends = reading.content.ends
        found.append(PlacedSpan(reading, ends, *places, is_walked=False, ended=row[ENDED], name=name))
    return found


def _decoded(data: bytes, count: int) -> Sequence[Span]:
    """Return the spans of a request with that many; raise NotRead where it has a flaw."""
    decoded = decode_protobuf(data)
    if decoded.flaws or len(decoded.spans) != count:
        raise NotRead
    return decoded.spans


@lru_cache(maxsize=CACHED_MAX)
def _cached_sender(resource: bytes, prefixes: tuple[str, ...]) -> Sender:
    return _sender_of(resource, prefixes)


def sender_in(resource: bytes, prefixes: tuple[str, ...]) -> Sender:
    """Return the sender of a resource in protobuf; raise NotRead where it has a flaw."""
    is_small = len(resource) <= CACHED_BYTES_MAX
    return _cached_sender(resource, prefixes) if is_small else _sender_of(resource, prefixes)


def _sender_of(resource: bytes, prefixes: tuple[str, ...]) -> Sender:
    decoding = Decoding()
    try:
        pairs = Resource.FromString(resource).attributes
    except DecodeError:
        raise NotRead from None
    sender = sender_of(from_protobuf(pairs, len(pairs), str, decoding), prefixes)
    if decoding.flaws:
        raise NotRead
    return sender


@lru_cache(maxsize=CACHED_MAX)
def _cached_scope_name(scope: bytes) -> str:
    return _read_scope_name(scope)


def scope_name_of(scope: bytes) -> str:
    """Return the name of an instrumentation scope in protobuf; raise NotRead where it is damaged."""
    return _cached_scope_name(scope) if len(scope) <= CACHED_BYTES_MAX else _read_scope_name(scope)


def _read_scope_name(scope: bytes) -> str:
    try:
        return InstrumentationScope.FromString(scope).name
    except DecodeError:
        raise NotRead from None


@cache
def _table() -> tuple[Any, ...]:
    return keys.name_table()
