"""The spans of a request, located: whose each is, and where its bytes are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
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
from .json_loops import judge_texts
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
    TEXT,
    walk,
)

ROWS = 32
"""Spans for which there is room at first."""
_NOBODY = Sender(None, "", is_coarse=False)
_TEXTS = (keys.INPUT, keys.OUTPUT, keys.ARGUMENTS, TEXT)
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


def located(data: bytes, scope: Sequence[str] = ()) -> list[PlacedSpan] | None:
    """Return the spans of a request in protobuf; None where the ordinary decoder has to read it.

    The resource attributes named by `scope` precede the session's id. A request with a flaw is never located.
    """
    found = _walked(data, ROWS)
    if found is None:
        return None
    try:
        return _located(data, *found, tuple(scope))
    except NotRead:
        return None


def _walked(data: bytes, size: int) -> tuple[list[list[int]], list[list[int]]] | None:
    """Return the rows of spans and of facts; there is room for `size` spans at first."""
    whole, words = np.frombuffer(data, np.uint8), np.frombuffer(data, np.uint64, len(data) // 8)
    spans: NDArray[np.int64] = np.empty((size, COLUMNS), np.int64)
    facts: NDArray[np.int64] = np.empty((16 * size, FACT_COLUMNS), np.int64)
    count, fact_count = walk(whole, words, *_table(), spans, facts, np.empty(2 * KEYS_MAX, np.uint64))
    if count < 0:
        return _walked(data, 8 * size) if count == FULL else None
    judge_texts(whole, words, facts, fact_count, *_TEXTS)
    rows = cast("list[list[int]]", spans[:count].tolist())
    return rows, cast("list[list[int]]", facts[:fact_count].tolist())


def request_of(data: bytes, span: PlacedSpan) -> bytes:
    """Return a request of one span of a request, with its resource and its scope."""
    return single_request(data[slice(*span.resource)], data[slice(*span.scope)], data[slice(*span.span)])


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
            sender = _sender(data[slice(*resource)], prefixes)
        if place == 0 or scope != (row[SCOPE], row[SCOPE_STOP]):
            scope = row[SCOPE], row[SCOPE_STOP]
            name = _scope_name(data[slice(*scope)])
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


def _sender(resource: bytes, prefixes: tuple[str, ...]) -> Sender:
    is_small = len(resource) <= CACHED_BYTES_MAX
    return _cached_sender(resource, prefixes) if is_small else _sender_of(resource, prefixes)


def _sender_of(resource: bytes, prefixes: tuple[str, ...]) -> Sender:
    """Return the sender of a resource in protobuf; raise NotRead where it has a flaw."""
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
    return _scope_name_of(scope)


def _scope_name(scope: bytes) -> str:
    return _cached_scope_name(scope) if len(scope) <= CACHED_BYTES_MAX else _scope_name_of(scope)


def _scope_name_of(scope: bytes) -> str:
    """Return the name of an instrumentation scope in protobuf; raise NotRead where it is damaged."""
    try:
        return InstrumentationScope.FromString(scope).name
    except DecodeError:
        raise NotRead from None


@cache
def _table() -> tuple[Any, ...]:
    return keys.name_table()
