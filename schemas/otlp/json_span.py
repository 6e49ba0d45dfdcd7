"""One span in JSON, in any spelling of OTLP's writers and the SDKs' dumps.

OTLP has `traceId` (hex; base64 where protobuf's own JSON mapping wrote it) and `startTimeUnixNano`. Python's
SDK has `context.trace_id` (`0x` and hex, or an integer), `start_time` (ISO 8601 or nanoseconds) and
`parent_id` or `parent.span_id`. JavaScript's has `spanContext.traceId` and `startTime` as
`[seconds, nanoseconds]`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import cast

from ..chat.find import is_object
from ..span import Span, SpanEvent, Value
from ..time import NS, NS_MAX, parse_time
from .attributes import from_json, integer_of, text_of
from .decoded import BAD_PARENT_ID, BAD_SPAN_ID, BAD_TRACE_ID, Decoding, Place, Unreadable

_CONTEXTS = ("context", "spanContext", "span_context")
TRACE_IDS = ("traceId", "trace_id")
SPAN_IDS = ("spanId", "span_id")
_PARENT_IDS = ("parentSpanId", "parent_span_id", "parent_id", "parentId")
_PARENTS = ("parent", "parentSpanContext")
_SCOPES = ("instrumentationScope", "instrumentation_scope", "instrumentationLibrary", "instrumentation_info")
STARTS = (("startTimeUnixNano", "start_time_unix_nano"), ("startTime", "start_time"))
_ENDS = (("endTimeUnixNano", "end_time_unix_nano"), ("endTime", "end_time"))
_TIMES = (("timeUnixNano", "time_unix_nano"), ("time", "timestamp"))
_CODES = ("code", "statusCode", "status_code")
_LOST_ATTRIBUTES = ("droppedAttributesCount", "dropped_attributes_count", "_droppedAttributesCount")
_LOST_EVENTS = ("droppedEventsCount", "dropped_events_count", "_droppedEventsCount")
NO_SCOPE = "", ""


def first(value: Mapping[str, object], names: tuple[str, ...]) -> object:
    """Return the member of the first of these names that the object has and that is not null, else None."""
    for name in names:
        found = value.get(name)
        if found is not None:
            return found
    return None


def is_span(value: object) -> bool:
    """Return whether the value is an object with the two ids of a span, good or not."""
    if not is_object(value):
        return False
    ids = _ids(value)
    return first(ids, TRACE_IDS) is not None and first(ids, SPAN_IDS) is not None


def lost_digits(value: object) -> bool:
    """Return whether a span's trace id is an integer that was rounded to a float on reading."""
    return is_object(value) and isinstance(first(_ids(value), TRACE_IDS), float)


def decode_span(
    value: object,
    resource: Mapping[str, Value] | None,
    scope: tuple[str, str],
    place: Place,
    decoding: Decoding,
) -> None:
    """Add the span; where `resource` is None the span has its resource and scope itself.

    A scope is its name and its version.
    """
    if not is_object(value):
        decoding.reject(place, "otlp-shape", "is not an object")
        return
    ids = _decoded_ids(value, place, decoding)
    if ids is None:
        return
    if resource is None:
        resource = decode_resource(value.get("resource"), place, decoding)
        scope = decode_scope(first(value, _SCOPES), place, decoding)
    attributes, dropped = _attributes(value, place, decoding)
    events, dropped_events = _events(value, place, decoding)
    decoding.spans.append(
        Span(
            *ids,
            _parent(value, place, decoding),
            _name(value, place, decoding),
            time_of(value, STARTS, place, decoding),
            time_of(value, _ENDS, place, decoding),
            attributes,
            events,
            _failed(value.get("status"), place, decoding),
            resource,
            scope[0],
            dropped,
            dropped_events,
            scope[1],
        )
    )


def decode_resource(value: object, place: Place, decoding: Decoding) -> dict[str, Value]:
    """Return the attributes of a resource, empty where there is none."""
    if value is None:
        return {}
    if not is_object(value):
        decoding.flaw(place, "otlp-value", "has a resource that is not an object")
        return {}
    return from_json(first(value, ("attributes", "_attributes")), place, decoding)


def decode_scope(value: object, place: Place, decoding: Decoding) -> tuple[str, str]:
    """Return the name and the version of an instrumentation scope, empty where there is none."""
    if not is_object(value):
        return NO_SCOPE
    version = value.get("version")
    return _name(value, place, decoding), version if isinstance(version, str) else ""


def hex_id(value: object, size: int) -> str | None:
    """Return an id of `size` bytes in lower-case hex, or None where the value is none or all zero.

    It may be hex (after `0x` also without its leading zeros), base64, or an integer.
    """
    raw: bytes | None = None
    if isinstance(value, str):
        raw = _bytes_of(value, size)
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 8 * size:
        raw = value.to_bytes(size, "big")
    return raw.hex() if raw is not None and len(raw) == size and any(raw) else None


def _bytes_of(text: str, size: int) -> bytes | None:
    try:
        if text[:2] in ("0x", "0X"):
            return bytes.fromhex(text[2:].rjust(2 * size, "0")) if 2 < len(text) <= 2 * size + 2 else None
        if len(text) == 2 * size:
            return bytes.fromhex(text)
        if len(text) <= 2 * size:
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        pass
    return None


def _ids(value: dict[str, object]) -> dict[str, object]:
    """Return the object with a span's ids: the span, or its context."""
    context = first(value, _CONTEXTS)
    return context if is_object(context) and first(value, TRACE_IDS) is None else value


def _decoded_ids(value: dict[str, object], place: Place, decoding: Decoding) -> tuple[str, str] | None:
    """Return the ids of the trace and the span; reject the span and return None where it lacks one."""
    ids = _ids(value)
    trace_id, span_id = hex_id(first(ids, TRACE_IDS), 16), hex_id(first(ids, SPAN_IDS), 8)
    if trace_id is None:
        decoding.reject(place, *BAD_TRACE_ID)
    elif span_id is None:
        decoding.reject(place, *BAD_SPAN_ID)
    else:
        return trace_id, span_id
    return None


def _parent(value: dict[str, object], place: Place, decoding: Decoding) -> str | None:
    given = first(value, _PARENT_IDS)
    if given is None:
        parent = first(value, _PARENTS)
        given = first(parent, SPAN_IDS) if is_object(parent) else parent
    if given is None or given == "":
        return None
    parent_id = hex_id(given, 8)
    if parent_id is None and not _is_zero(given):
        decoding.flaw(place, *BAD_PARENT_ID)
    return parent_id


def _is_zero(given: object) -> bool:
    """Return whether an invalid id is all zero, as some writers have it for no parent."""
    return given == 0 or (isinstance(given, str) and _bytes_of(given, 8) == bytes(8))


def _name(value: Mapping[str, object], place: Place, decoding: Decoding) -> str:
    name = value.get("name")
    if name is None:
        return ""
    try:
        return text_of(name)
    except Unreadable as flaw:
        decoding.flaw(place, flaw.code, "has a name that is no text, or none that UTF-8 can carry")
        return ""


def time_of(
    value: Mapping[str, object],
    names: tuple[tuple[str, str], tuple[str, str]],
    place: Place,
    decoding: Decoding,
) -> int:
    """Return a time in nanoseconds, 0 without one; the first names are OTLP's, in nanoseconds."""
    try:
        given = first(value, names[0])
        if given is not None:
            ns = 0 if given == "" else integer_of(given)
        else:
            ns = _sdk_time(first(value, names[1]))
    except Unreadable:
        ns = -1
    if 0 <= ns <= NS_MAX:
        return ns
    decoding.flaw(place, "otlp-time", "has a time that is none, or is not between 1970 and 2262")
    return 0


def _sdk_time(given: object) -> int:
    if given is None:
        return 0
    if isinstance(given, list):
        parts = [integer_of(part) for part in cast("list[object]", given)]
        if len(parts) != 2:
            raise Unreadable("otlp-time", "has a time that is none")
        return parts[0] * NS + parts[1]
    is_number = isinstance(given, str) and given.isascii() and given.isdigit()
    ns = parse_time(integer_of(given) if is_number else given)
    return -1 if ns is None else ns


def _attributes(
    value: Mapping[str, object], place: Place, decoding: Decoding
) -> tuple[dict[str, Value], int]:
    """Return the attributes of a span or an event, and how many were dropped or lost."""
    lost = decoding.lost
    attributes = from_json(value.get("attributes"), place, decoding)
    return attributes, count_of(value, _LOST_ATTRIBUTES, place, decoding) + decoding.lost - lost


def count_of(value: Mapping[str, object], names: tuple[str, ...], place: Place, decoding: Decoding) -> int:
    """Return a count of dropped items; 1 where it cannot be decoded."""
    given = first(value, names)
    if given is None:
        return 0
    try:
        return max(0, integer_of(given))
    except Unreadable as flaw:
        decoding.flaw(place, flaw.code, "counts what was dropped by what is no number")
        return 1


def _events(
    value: Mapping[str, object], place: Place, decoding: Decoding
) -> tuple[tuple[SpanEvent, ...], int]:
    """Return a span's events, and how many were dropped."""
    dropped, events = count_of(value, _LOST_EVENTS, place, decoding), value.get("events")
    if not events:
        return (), dropped
    if not isinstance(events, list):
        decoding.flaw(place, "otlp-value", "has span events that are no list")
        return (), dropped + 1
    decoded: list[SpanEvent] = []
    for number, event in enumerate(cast("list[object]", events), 1):

        def inner(n: int = number) -> str:
            return f"{place()}, event {n}"

        if not is_object(event):
            decoding.flaw(inner, "otlp-value", "is not an object")
            dropped += 1
            continue
        name, time = _name(event, inner, decoding), time_of(event, _TIMES, inner, decoding)
        decoded.append(SpanEvent(name, time, *_attributes(event, inner, decoding)))
        dropped += not name
    return tuple(decoded), dropped


def _failed(status: object, place: Place, decoding: Decoding) -> bool:
    """Return whether a status is an error: code 2, or a name such as `STATUS_CODE_ERROR` or `error`."""
    code = first(status, _CODES) if is_object(status) else status
    if isinstance(code, str):
        return code.upper().endswith("ERROR")
    if code is None or isinstance(code, (int, float)):
        return code == 2
    decoding.flaw(place, "otlp-value", "has a status that is none")
    return False
