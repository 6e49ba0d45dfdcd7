"""Log records out of OTLP: export requests of logs in protobuf, and the same in JSON.

Only records with message content are decoded (`schemas/dialects/parts/log_record.py`); the rest are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from ..chat.find import is_object
from ..dialects.names import opentelemetry_1_36 as old
from ..dialects.parts.log_record import CONTENT_EVENTS, LogRecord, content_of, order_of
from ..span import Value
from ..time import NS_MAX
from .attributes import from_json, from_protobuf, value_of_json, value_of_protobuf
from .decoded import Decoded, Decoding, Place, Unreadable
from .json_span import SPAN_IDS, STARTS, TRACE_IDS, count_of, first, hex_id, time_of
from .salvage import salvaged

_NO_TRACE = bytes(16)
_NO_SPAN = bytes(8)
_SIGNS = (
    *("body", "severityNumber", "severity_number", "severityText", "severity_text"),
    *("observedTimeUnixNano", "observed_time_unix_nano", "observed_timestamp", "observedTimestamp"),
)
"""Members that only log records have; each record has at least one."""
_TIMES = (("timeUnixNano", "time_unix_nano"), ("timestamp", "time"))
_OBSERVED = (("observedTimeUnixNano", "observed_time_unix_nano"), ("observed_timestamp", "observedTimestamp"))
_NAMES = ("eventName", "event_name")
_LOST = ("droppedAttributesCount", "dropped_attributes_count", "dropped_attributes")


def decode_logs_protobuf(data: bytes) -> Decoded:
    """Return the content records of an ExportLogsServiceRequest, and its flaws.

    Never raises for any bytes; damaged parts are left out as in `decode_protobuf`.
    """
    decoding = Decoding()
    try:
        request = LogsData.FromString(data)
    except DecodeError:
        whole = salvaged(data, decoding, LogsData)
        if whole is None:
            return decoding.done()
        request = LogsData.FromString(whole)
    for number, resource in enumerate(request.resource_logs, 1):
        for index, scope in enumerate(resource.scope_logs, 1):
            for nth, record in enumerate(scope.log_records, 1):
                _message(record, lambda r=number, s=index, n=nth: _place(r, s, n), decoding)
    return decoding.done()


def is_record(value: object) -> bool:
    """Return whether a JSON value is one log record and no span, as SDKs print it to the console."""
    if not is_object(value) or not any(sign in value for sign in _SIGNS):
        return False
    return first(value, TRACE_IDS) is not None and all(first(value, names) is None for names in STARTS)


def decode_record(value: object, place: Place, decoding: Decoding) -> None:
    """Add a log record in JSON."""
    if not is_object(value):
        decoding.reject(place, "otlp-shape", "is not an object")
        return
    time = time_of(value, _TIMES, place, decoding) or time_of(value, _OBSERVED, place, decoding)
    decoding.latest = max(decoding.latest, time)
    name = _name_in(value)
    if name not in CONTENT_EVENTS:
        decoding.passed_over += 1
        return
    trace_id, span_id = hex_id(first(value, TRACE_IDS), 16), hex_id(first(value, SPAN_IDS), 8)
    if trace_id is None or span_id is None:
        decoding.unlinked += 1
        return
    lost = decoding.lost
    attributes = from_json(value.get("attributes"), place, decoding)
    dropped = count_of(value, _LOST, place, decoding) + decoding.lost - lost
    try:
        body = value_of_json(value.get("body"))
    except Unreadable as flaw:
        decoding.flaw(place, flaw.code, flaw.text)
        body, dropped = None, dropped + 1
    _add(decoding, trace_id, span_id, time, name, body, attributes, dropped)


def _place(resource: int, scope: int, record: int) -> str:
    return f"resource {resource}, scope {scope}, record {record}"


def _message(message: Message, place: Place, decoding: Decoding) -> None:
    """Add a log record in protobuf."""
    time = message.time_unix_nano or message.observed_time_unix_nano
    if time > NS_MAX:
        decoding.flaw(place, "otlp-time", "has a time after the year 2262")
        time = 0
    decoding.latest = max(decoding.latest, time)
    pairs = message.attributes
    name = message.event_name or next(
        (pair.value.string_value for pair in pairs if pair.key == old.EVENT_NAME), ""
    )
    if name not in CONTENT_EVENTS:
        decoding.passed_over += 1
        return
    trace_id, span_id = message.trace_id, message.span_id
    if len(trace_id) != 16 or len(span_id) != 8 or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        decoding.unlinked += 1
        return
    lost = decoding.lost
    attributes = from_protobuf(pairs, len(pairs), place, decoding)
    dropped = message.dropped_attributes_count + decoding.lost - lost
    try:
        body = value_of_protobuf(message.body)
    except Unreadable as flaw:
        decoding.flaw(place, flaw.code, flaw.text)
        body, dropped = None, dropped + 1
    _add(decoding, trace_id.hex(), span_id.hex(), time, name, body, attributes, dropped)


def _add(
    decoding: Decoding,
    trace_id: str,
    span_id: str,
    time: int,
    name: str,
    body: Value,
    attributes: Mapping[str, Value],
    dropped: int,
) -> None:
    content, lost = content_of(name, body, attributes)
    place = len(decoding.records)
    decoding.records.append(
        LogRecord(trace_id, span_id, time, name, content, dropped + lost, place, order_of(attributes))
    )


def _name_in(value: Mapping[str, object]) -> str:
    """Return the name of a record's event: its field, else the attribute `event.name`."""
    name = first(value, _NAMES)
    if isinstance(name, str) and name:
        return name
    attributes = value.get("attributes")
    if is_object(attributes):
        name = attributes.get(old.EVENT_NAME)
    elif isinstance(attributes, list):
        name = next(_named(cast("list[object]", attributes)), None)
    return name if isinstance(name, str) else ""


def _named(attributes: Iterable[object]) -> Iterator[object]:
    for pair in attributes:
        if is_object(pair) and pair.get("key") == old.EVENT_NAME and is_object(value := pair.get("value")):
            yield first(value, ("stringValue", "string_value"))
