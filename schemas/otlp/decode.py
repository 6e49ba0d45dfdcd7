"""Spans and log records out of OTLP: requests in protobuf and JSON, and the dumps that SDKs write.

OTLP 1.x with the messages of `opentelemetry-proto`; `schemas/otlp/decoded.py` explains the codes of flaws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ..chat.find import InputFlaw, is_object, messages_of
from ..tolerant_json import read_json, read_json_exactly
from .decoded import Decoded, Decoding, Unreadable
from .framing import unpacked
from .json_span import NO_SCOPE, decode_resource, decode_scope, decode_span, first, is_span, lost_digits
from .logs import decode_logs_protobuf, decode_record, is_record
from .protobuf import decode_protobuf
from .signal import Signal, signal_of

__all__ = [
    "Decoded",
    "decode_json",
    "decode_logs_protobuf",
    "decode_protobuf",
    "decode_request",
    "is_span_dump",
    "read_span_json",
]

_RESOURCES = ("resourceSpans", "resource_spans")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_SCOPE = ("scope", "instrumentationLibrary", "instrumentation_library")
_LOGS = ("resourceLogs", "resource_logs")
_LOG_SCOPES = ("scopeLogs", "scope_logs")
_METRICS = ("resourceMetrics", "resource_metrics")
_PROFILES = ("resourceProfiles", "resource_profiles")
_LOOKED_AT = 20
"""Members of a list by which its kind is recognised."""


def read_span_json(data: bytes) -> object:
    """Return the value of one JSON text as `read_json` gives it; integer ids of span dumps keep their digits.

    Raises ValueError for what is no JSON.
    """
    value = read_json(data)
    if any(lost_digits(span) for list_ in _lists(value) for span in list_[:_LOOKED_AT]):
        return read_json_exactly(data)
    return value


def decode_request(data: bytes) -> Decoded:
    """Return the spans or records of one request in protobuf or JSON, or in zstd or gzip of it.

    The first byte shows the encoding, and in protobuf the layout of the elements the signal
    (`schemas/otlp/signal.py`). Never raises for any bytes.
    """
    try:
        data = unpacked(data)
        return decode_json(read_span_json(data)) if data[:1] in (b"{", b"[") else _decode_protobuf(data)
    except Unreadable as flaw:
        return Decoded(flaws=(InputFlaw("request", flaw.code, flaw.text),))
    except ValueError as error:
        return Decoded(flaws=(InputFlaw("request", "json", f"cannot be read: {error}"),))


def _decode_protobuf(data: bytes) -> Decoded:
    """Return what a request in protobuf holds, of whichever signal it is."""
    signal = signal_of(data)
    if signal is Signal.LOGS:
        return decode_logs_protobuf(data)
    return Decoded(metrics=1) if signal is Signal.METRICS else decode_protobuf(data)


def is_span_dump(value: object) -> bool:
    """Return whether a JSON value (of a file its first, or the beginning of it) is OTLP or a dump of spans.

    A request of metrics or logs counts: the collector may write all signals to one file.
    """
    if isinstance(value, list):
        members = cast("list[object]", value)[:_LOOKED_AT]
        return any(is_object(member) and is_span_dump(member) for member in members)
    if not is_object(value) or messages_of(value) is not None or "role" in value:
        return False
    if any(name in value for name in (*_RESOURCES, *_SCOPES, *_LOG_SCOPES, *_LOGS, *_METRICS, *_PROFILES)):
        return True
    return is_span(value) or any(is_span(span) for list_ in _lists(value) for span in list_[:_LOOKED_AT])


def decode_json(value: object) -> Decoded:
    """Return the spans and records in a JSON value. Never raises for any value.

    The value is an export request (`{"resourceSpans": [...]}`, `{"resourceLogs": [...]}`), an SDK's dump
    (`{"spans": [...]}`, or an object of lists of spans), a single span or log record, or a list of any of
    these or of ResourceSpans. Names may be in camel or snake case at every level;
    `schemas/otlp/json_span.py` has the spellings of a span. Metrics are counted.
    """
    decoding = Decoding()
    if isinstance(value, list):
        for number, member in enumerate(cast("list[object]", value), 1):
            _member(member, number, decoding)
    elif is_object(value):
        _object(value, "", 1, decoding)
    else:
        decoding.flaw("request", "otlp-shape", "is neither an object nor a list")
    return decoding.done()


def _lists(value: object) -> Iterator[list[object]]:
    """Yield the lists in which an SDK dump may have its spans."""
    if isinstance(value, list):
        yield cast("list[object]", value)
    elif is_object(value):
        yield [value]
        yield from (cast("list[object]", member) for member in value.values() if isinstance(member, list))


def _member(value: object, number: int, decoding: Decoding) -> None:
    if is_record(value):
        decode_record(value, lambda: f"record {number}", decoding)
    elif is_span(value):
        decode_span(value, None, NO_SCOPE, lambda: f"span {number}", decoding)
    elif not is_object(value):
        decoding.flaw(f"member {number}", "otlp-shape", "is not an object")
    elif first(value, _RESOURCES) is None and first(value, _SCOPES) is not None:
        _resource(value, f"resource {number}", decoding)
    else:
        _object(value, f"request {number}, ", number, decoding)


def _object(value: dict[str, object], above: str, number: int, decoding: Decoding) -> None:
    """Add the content of an object; `above` is the prefix of its places, `number` its index from 1."""
    place = above.removesuffix(", ") or "request"
    metrics = first(value, _METRICS)
    if metrics is not None:
        decoding.metrics += len(_list(metrics, place, decoding))
    logs = first(value, _LOGS)
    for index, resource in enumerate(_list(logs, place, decoding), 1):
        _log_resource(resource, f"{above}resource {index}", decoding)
    resources = first(value, _RESOURCES)
    if resources is not None:
        for index, resource in enumerate(_list(resources, place, decoding), 1):
            _resource(resource, f"{above}resource {index}", decoding)
    elif any(name in value for name in (*_LOGS, *_METRICS)):
        return
    elif first(value, _LOG_SCOPES) is not None:
        _log_resource(value, f"{above}resource {number}", decoding)
    elif is_record(value):
        decode_record(value, lambda: f"{above}record {number}", decoding)
    elif first(value, _SCOPES) is not None:
        _resource(value, f"{above}resource {number}", decoding)
    elif is_span(value):
        decode_span(value, None, NO_SCOPE, lambda: f"{above}span {number}", decoding)
    elif isinstance(value.get("spans"), list):
        _spans(cast("list[object]", value["spans"]), above, decoding)
    elif any(name in value for name in _PROFILES):
        decoding.flaw(place, "otlp-signal", "holds profiles, and neither spans nor log records")
    elif value and not any(name in value for name in (*_RESOURCES, *_LOG_SCOPES)):
        lists = [cast("list[object]", member) for member in value.values() if isinstance(member, list)]
        if len(lists) < len(value) or not any(is_span(span) for list_ in lists for span in list_):
            decoding.flaw(place, "otlp-shape", "holds no spans as OTLP or an SDK writes them")
            return
        for index, list_ in enumerate(lists, 1):
            _spans(list_, f"{above}list {index}, ", decoding)


def _spans(spans: list[object], above: str, decoding: Decoding) -> None:
    for number, span in enumerate(spans, 1):
        decode_span(span, None, NO_SCOPE, lambda n=number: f"{above}span {n}", decoding)


def _resource(value: object, place: str, decoding: Decoding) -> None:
    if not is_object(value):
        decoding.flaw(place, "otlp-shape", "is not an object")
        return
    resource = decode_resource(value.get("resource"), lambda: place, decoding)
    for at, scope in _scopes(first(value, _SCOPES), place, decoding):
        name = decode_scope(first(scope, _SCOPE), lambda at=at: at, decoding)
        for index, span in enumerate(_list(scope.get("spans"), at, decoding), 1):
            decode_span(span, resource, name, lambda at=at, i=index: f"{at}, span {i}", decoding)


def _log_resource(value: object, place: str, decoding: Decoding) -> None:
    if not is_object(value):
        decoding.flaw(place, "otlp-shape", "is not an object")
        return
    for at, scope in _scopes(first(value, _LOG_SCOPES), place, decoding):
        records = _list(first(scope, ("logRecords", "log_records")), at, decoding)
        for index, record in enumerate(records, 1):
            decode_record(record, lambda at=at, i=index: f"{at}, record {i}", decoding)


def _scopes(value: object, place: str, decoding: Decoding) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the scopes of a resource, each with its place."""
    for number, scope in enumerate(_list(value, place, decoding), 1):
        at = f"{place}, scope {number}"
        if is_object(scope):
            yield at, scope
        else:
            decoding.flaw(at, "otlp-shape", "is not an object")


def _list(value: object, place: str, decoding: Decoding) -> list[object]:
    """Return the list, empty where it is absent; any other value is a flaw."""
    if isinstance(value, list):
        return cast("list[object]", value)
    if value is not None:
        decoding.flaw(place, "otlp-shape", "has something else where a list belongs")
    return []
