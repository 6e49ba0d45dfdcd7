"""The signal of a request in protobuf that does not state it: spans, log records or metrics.

All three signals nest alike: resources hold scopes, and these hold elements in field 2.
The elements differ in the wire types of their fields: field 1 is a span's trace id (bytes), a log record's
time (fixed64) and a metric's name (bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from .wire import BYTES, FIXED32, FIXED64, VARINT, WireField, fields_of

ELEMENTS_MAX = 1_000
"""Elements of a request that are examined; one alone may fit several signals."""

_RESOURCES, _SCOPES, _ELEMENTS = 1, 2, 2
_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8

_OF_A_SPAN = frozenset({(2, BYTES), (6, VARINT), (7, FIXED64), (8, FIXED64), (10, VARINT), (16, FIXED32)})
_OF_A_RECORD = frozenset({(2, VARINT), (6, BYTES), (7, VARINT), (8, FIXED32), (10, BYTES), (11, FIXED64)})
"""Fields by number and wire type that only a span, or only a record, has."""


class Signal(StrEnum):
    """A kind of telemetry."""

    SPANS = "spans"
    LOGS = "logs"
    METRICS = "metrics"


def signal_of(data: bytes) -> Signal:
    """Return the signal of a request; spans where its elements fit several signals, or contradict each other.

    One element that cannot be a log record excludes logs.
    """
    found: set[Signal] = set()
    for number, element in enumerate(_elements(data)):
        if number == ELEMENTS_MAX:
            break
        signal = _signal_of(data, element)
        if signal is not None:
            found.add(signal)
        if signal is Signal.SPANS:
            break
    return found.pop() if len(found) == 1 else Signal.SPANS


def _elements(data: bytes) -> Iterator[WireField]:
    """Yield the elements of a request, as far as it can be read."""
    try:
        for resource in fields_of(data, 0, len(data)):
            if resource.number != _RESOURCES or resource.wire != BYTES:
                continue
            for scope in fields_of(data, resource.content, resource.end):
                if scope.number != _SCOPES or scope.wire != BYTES:
                    continue
                for element in fields_of(data, scope.content, scope.end):
                    if element.number == _ELEMENTS and element.wire == BYTES:
                        yield element
    except ValueError:
        return


def _signal_of(data: bytes, element: WireField) -> Signal | None:
    """Return the signal of one element; None where it fits several."""
    try:
        fields = list(fields_of(data, element.content, element.end))
    except ValueError:
        return None
    kinds = {(field.number, field.wire) for field in fields}
    if (1, BYTES) in kinds:
        sizes = {field.number: field.size for field in fields if field.number in (1, 2)}
        has_ids = sizes == {1: _TRACE_ID_BYTES, 2: _SPAN_ID_BYTES}
        is_timed = (7, FIXED64) in kinds or (8, FIXED64) in kinds
        if is_timed or not _is_metric(data[element.content : element.end]):
            return Signal.SPANS if has_ids or is_timed else None
        return Signal.METRICS
    votes = bool(kinds & _OF_A_SPAN), bool(kinds & _OF_A_RECORD) or (1, FIXED64) in kinds
    return {(True, False): Signal.SPANS, (False, True): Signal.LOGS}.get(votes)


def _is_metric(data: bytes) -> bool:
    """Return whether the bytes are a metric that has a name and points with times."""
    try:
        metric = Metric.FromString(data)
    except DecodeError:
        return False
    kind = metric.WhichOneof("data")
    points = getattr(metric, kind).data_points if kind else ()
    return bool(metric.name) and any(point.time_unix_nano for point in points)
