"""Log records that hold message content: GenAI events, which name the span that they belong to.

OpenTelemetry's instrumentations send the content of messages as log records and leave it out of the span.
A record adds to the span with its trace and span id as an event of that span would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import orjson

from ...span import SpanEvent, Value
from ..names import frameworks as fw
from ..names import opentelemetry_1_36 as old
from ..names import opentelemetry_1_41 as otel
from .values import is_object, sound

CONTENT_EVENTS = frozenset({*old.MESSAGE_EVENTS, old.CHOICE_EVENT, otel.DETAILS_EVENT})
"""Names of the events that hold content; log records with other names are passed over."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log record that holds content, ids in lower-case hex, `time` in nanoseconds since the epoch.

    `content` is JSON text of the attributes that a span event with the same content would have. `place` is
    the record's place in its request and `request` identifies that request among those that a reader has
    read. `order` is the place in the prompt that the record itself states. `dropped` is how much of the
    record is known to be missing. `record_time` is when the record was received, 0 where it is not known.
    """

    trace_id: str
    span_id: str
    time: int
    name: str
    content: str
    dropped: int = 0
    place: int = 0
    order: int | None = None
    request: int = 0
    record_time: int = 0

    @property
    def chars(self) -> int:
        """Return how many characters of content the record has."""
        return len(self.name) + len(self.content)


def content_of(name: str, body: Value, attributes: Mapping[str, Value]) -> tuple[str, int]:
    """Return a record's content as JSON text, and how much of it cannot be written as JSON."""
    event = dict(attributes)
    if name == otel.DETAILS_EVENT and is_object(body):
        event.update(body)
    elif body is not None:
        event[old.EVENT_BODY] = body
    try:
        return orjson.dumps(sound(event)).decode(), 0
    except (ValueError, TypeError):
        return "{}", 1


def order_of(attributes: Mapping[str, Value]) -> int | None:
    """Return the place in the prompt that a record states."""
    order = attributes.get(fw.SEMANTIC_KERNEL_PLACE)
    return order if isinstance(order, int) and not isinstance(order, bool) and 0 <= order < 1 << 31 else None


def events_of(records: Iterable[LogRecord]) -> tuple[list[SpanEvent], int]:
    """Return the records of one span as its events, in their order, and how many are known to be missing.

    They are in order of time, then of the stream of requests. A request that was sent twice counts once: of
    equal records as many are read as the request with most of them has.
    """
    by_request: dict[int, list[LogRecord]] = {}
    for record in records:
        by_request.setdefault(record.request, []).append(record)
    most: Counter[LogRecord] = Counter()
    positions: dict[LogRecord, tuple[int, ...]] = {}
    for same in by_request.values():
        times, places = [record.time for record in same], [record.place for record in same]
        counts: Counter[LogRecord] = Counter()
        for record in same:
            alike = replace(record, place=0, request=0, record_time=0)
            counts[alike] += 1
            # Where a clock is coarse: a request ends where the next one goes on at its first place.
            position = (record.time, record.order or 0, min(times), max(times), -min(places), record.place)
            positions[alike] = min(position, positions.get(alike, position))
        most |= counts
    in_order = sorted(positions, key=lambda record: (positions[record], record.name, record.content))
    return [event for record in in_order for event in [_event(record)] * most[record]], _missing(in_order)


def _event(record: LogRecord) -> SpanEvent:
    attributes = cast("dict[str, Value]", orjson.loads(record.content))
    return SpanEvent(record.name, record.time, attributes, record.dropped)


def _missing(records: Sequence[LogRecord]) -> int:
    """Return how many messages of a prompt are missing among records that state their places in it."""
    orders = {record.order for record in records if record.order is not None}
    return max(orders) + 1 - len(orders) if orders else 0
