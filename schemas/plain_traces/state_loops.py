"""Compiled loops that write plain traces as msgspec writes their `OpenTrace`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec

from ..compiled import compiled
from ..dialects.span_facts import UNNAMED_ERROR
from ..event import Content
from ..plain_readings.argument_loops import put_compact
from ..plain_readings.columns import (
    ANSWER,
    ARGUMENTS,
    CALL,
    CAPTURED,
    CLAIMS,
    COARSE,
    COMPACT,
    END,
    ENDS,
    ERROR,
    IDENTITY,
    INPUT_HALF,
    LACKS,
    MISSING,
    MODEL,
    NAME,
    NESTED,
    OFFSET,
    OWN,
    PARENT,
    PREFIX,
    PREFIX_SIZE,
    RECORD,
    REQUEST,
    RESOURCE,
    RESOURCE_STOP,
    ROLE,
    SCOPE,
    SCOPE_STOP,
    SENDER,
    SERVICE,
    SERVICE_SIZE,
    SESSION,
    SPAN,
    SPAN_STOP,
    START,
    TIME,
    TOOL,
    TOOL_NAME,
    TRACE,
    UNNAMED,
)
from ..sessions.span_reading import SpanReading
from ..sessions.trace import OpenTrace, Trace
from ..span_content import INPUT, OUTPUT, SpanContent, SpanRole, ToolCall
from .pack_loops import (
    put,
    put_byte,
    put_bytes_head,
    put_constant,
    put_id,
    put_list_head,
    put_map_head,
    put_number,
    put_struct_head,
    put_text,
    put_text_head,
)
from .request_loops import resource_size, scoped_size
from .trace_loops import KEY, KEY_END, KEY_SIZE

_pack = msgspec.msgpack.encode


def names_of(struct: type[msgspec.Struct]) -> dict[str, bytes]:
    """Return the names of a structure's fields as they are written, by the names that the code has."""
    return {field.name: _pack(field.encode_name) for field in msgspec.structs.fields(struct)}


_reading, _content, _call = names_of(SpanReading), names_of(SpanContent), names_of(ToolCall)
_trace, _opened = names_of(Trace), {field.name: _pack(field.name) for field in fields(OpenTrace)}
_TRACE_ID, _SPAN_ID, _PARENT_ID = _reading["trace_id"], _reading["span_id"], _reading["parent_id"]
_START, _END, _CONTENT, _SCOPE = _reading["start"], _reading["end"], _reading["content"], _reading["scope"]
_TIME, _NO_CLAIMS = _reading["record_time"], _reading["has_claims"] + _pack(False)
_IS_COARSE = _reading["coarse"] + _pack(True)
_ORIGIN, _CAPTURED, _REQUEST = _reading["origin"], _reading["captured"], _reading["request"]
_ROLE, _SESSION, _AGENT, _MODEL = (_content[name] for name in ("role", "session", "agent", "model"))
_SERVICE, _NESTED, _CALL, _ERROR = (_content[name] for name in ("service", "nested", "call", "error"))
_ENDS, _OWN = _content["ends"] + _pack(True), _content["own_conversation"] + _pack(True)
_ANSWER, _LACKS = _content["response_id"], _content["lacks"]
_CALL_ID, _TOOL_NAME, _ARGUMENTS = _call["call_id"], _call["tool"], _call["args"]
_ABSENT = _call["content"] + _pack(Content.ABSENT)
_WHOLE = bytes([0x80 | len(_opened)]) + _opened["trace"] + bytes([0x80 | len(_trace)]) + _trace["spans"]
_KEYED, _ENDED_BY_KEY = _trace["keyed"], _trace["ended_by_key"]
_WAITING, _TOUCHED, _SIZE = _opened["waiting"], _opened["touched"], _opened["size"]
_REST = _opened["records"] + b"\x80" + _opened["requests"] + b"\x00" + _opened["cut"] + b"\x90"
_READING_FIELDS, _CONTENT_FIELDS, _CALL_FIELDS = len(_reading), len(_content), len(_call)
_NIL, _TRUE, _FALSE = 0xC0, 0xC3, 0xC2
_ROLES = tuple(_pack(role) for role in (SpanRole.OTHER, SpanRole.CHAT, SpanRole.TOOL, SpanRole.AGENT))
_OTHER_ROLE, _CHAT_ROLE, _TOOL_ROLE, _AGENT_ROLE = _ROLES
_IN, _OUT, _UNNAMED = _pack(INPUT), _pack(OUTPUT), _pack(UNNAMED_ERROR)
DIGEST_SIZE = 32
_FIRST, _SECOND = 10, 18
"""The tags of a request's fields."""


@compiled
def put_role(out: Any, at: Any, role: Any) -> Any:
    """Write a role."""
    if role == 1:
        return put_constant(out, at, _CHAT_ROLE)
    if role == 2:
        return put_constant(out, at, _TOOL_ROLE)
    return put_constant(out, at, _AGENT_ROLE if role == 3 else _OTHER_ROLE)


@compiled
def put_halves(out: Any, at: Any, halves: Any) -> Any:
    """Write halves as a list."""
    at = put_list_head(out, at, (halves & 1) + (halves >> 1))
    if halves & INPUT_HALF:
        at = put_constant(out, at, _IN)
    return put_constant(out, at, _OUT) if halves > INPUT_HALF else at


@compiled
def put_column(out: Any, at: Any, b: Any, readings: Any, n: Any, column: Any, name: Any) -> Any:
    """Write a field with a text, unless it is missing."""
    if readings[n, column + 1] == MISSING:
        return at
    at = put_constant(out, at, name)
    return put_text(out, at, b, readings[n, column], readings[n, column + 1])


@compiled
def put_or_nil(out: Any, at: Any, b: Any, readings: Any, n: Any, column: Any, name: Any) -> Any:
    """Write a field with a text, or without one."""
    if readings[n, column + 1] != MISSING:
        return put_column(out, at, b, readings, n, column, name)
    return put_byte(out, put_constant(out, at, name), _NIL)


@compiled
def _put_field_head(out: Any, at: Any, tag: Any, size: Any) -> Any:
    out[at] = tag
    at += 1
    while size > 127:
        out[at] = (size & 127) | 128
        size >>= 7
        at += 1
    out[at] = size
    return at + 1


@compiled
def put_request(out: Any, at: Any, b: Any, readings: Any, n: Any) -> Any:
    """Write a request of the span alone, as `schemas/otlp/single.py` does."""
    resource, scope = readings[n, RESOURCE], readings[n, SCOPE]
    resource_bytes, scope_bytes = readings[n, RESOURCE_STOP] - resource, readings[n, SCOPE_STOP] - scope
    span_bytes = readings[n, SPAN_STOP] - readings[n, SPAN]
    at = put_bytes_head(out, at, readings[n, REQUEST])
    at = _put_field_head(out, at, _FIRST, resource_size(readings, n))
    at = put(out, _put_field_head(out, at, _FIRST, resource_bytes), b, resource, resource_bytes)
    at = _put_field_head(out, at, _SECOND, scoped_size(readings, n))
    at = put(out, _put_field_head(out, at, _FIRST, scope_bytes), b, scope, scope_bytes)
    return put(out, _put_field_head(out, at, _SECOND, span_bytes), b, readings[n, SPAN], span_bytes)


@compiled
def put_origin(out: Any, at: Any, records: Any, digests: Any, record: Any) -> Any:
    """Write the offset and the digest of a record."""
    at = put_number(out, put_list_head(out, at, 2), records[record, OFFSET])
    return put(out, put_bytes_head(out, at, DIGEST_SIZE), digests, DIGEST_SIZE * record, DIGEST_SIZE)


@compiled
def _put_call(out: Any, at: Any, b: Any, readings: Any, n: Any) -> Any:
    """Write the call of a tool's run."""
    is_absent = readings[n, ARGUMENTS + 1] == MISSING
    at = put_struct_head(out, put_constant(out, at, _CALL), 4 if is_absent else 3, _CALL_FIELDS)
    at = put_or_nil(out, at, b, readings, n, CALL, _CALL_ID)
    at = put_or_nil(out, at, b, readings, n, TOOL_NAME, _TOOL_NAME)
    if readings[n, COMPACT] == MISSING:
        at = put_or_nil(out, at, b, readings, n, ARGUMENTS, _ARGUMENTS)
    else:
        at = put_text_head(out, put_constant(out, at, _ARGUMENTS), readings[n, COMPACT])
        at = put_compact(out, at, b, readings[n, ARGUMENTS], readings[n, ARGUMENTS + 1])
    return put_constant(out, at, _ABSENT) if is_absent else at


@compiled
def _put_content(
    out: Any, at: Any, b: Any, names: Any, senders: Any, readings: Any, n: Any, is_full: Any
) -> Any:
    """Write the content of a span."""
    sender, error = readings[n, SENDER], readings[n, ERROR + 1]
    service, service_size = senders[sender, SERVICE], senders[sender, SERVICE_SIZE]
    ends = readings[n, ENDS] and is_full
    count = 1 + (service_size != MISSING) + (readings[n, NESTED] != MISSING) + (readings[n, ROLE] == TOOL)
    count += (error != MISSING) + (ends != 0) + (readings[n, OWN] != 0) + (readings[n, LACKS] != 0)
    for column in (SESSION, NAME, MODEL, ANSWER):
        count += readings[n, column + 1] != MISSING
    at = put_constant(out, put_struct_head(out, at, count, _CONTENT_FIELDS), _ROLE)
    at = put_role(out, at, readings[n, ROLE])
    at = put_column(out, at, b, readings, n, SESSION, _SESSION)
    at = put_column(out, at, b, readings, n, NAME, _AGENT)
    at = put_column(out, at, b, readings, n, MODEL, _MODEL)
    if service_size != MISSING:
        at = put_text(out, put_constant(out, at, _SERVICE), names, service, service_size)
    if readings[n, NESTED] != MISSING:
        at = put_byte(out, put_constant(out, at, _NESTED), _TRUE if readings[n, NESTED] else _FALSE)
    if readings[n, ROLE] == TOOL:
        at = _put_call(out, at, b, readings, n)
    if error == UNNAMED:
        at = put_constant(out, put_constant(out, at, _ERROR), _UNNAMED)
    else:
        at = put_column(out, at, b, readings, n, ERROR, _ERROR)
    if ends:
        at = put_constant(out, at, _ENDS)
    if readings[n, OWN]:
        at = put_constant(out, at, _OWN)
    at = put_column(out, at, b, readings, n, ANSWER, _ANSWER)
    return put_halves(out, put_constant(out, at, _LACKS), readings[n, LACKS]) if readings[n, LACKS] else at


@compiled
def put_reading(
    out: Any, at: Any, b: Any, names: Any, senders: Any, records: Any, digests: Any,
    readings: Any, n: Any, is_full: Any,
) -> Any:  # fmt: skip
    """Write a reading, with the span's request where it is full, else what others inherit from it."""
    record, sender = readings[n, RECORD], readings[n, SENDER]
    prefix = senders[sender, PREFIX_SIZE] if is_full else 0
    time = records[record, TIME]
    count = 7 + (prefix > 0) + (time != 0) + (readings[n, CLAIMS] == 0) + (2 if is_full else 0)
    count += senders[sender, COARSE]
    at = put_constant(out, put_struct_head(out, at, count, _READING_FIELDS), _TRACE_ID)
    at = put_constant(out, put_id(out, at, b, readings[n, TRACE], 16), _SPAN_ID)
    at = put_constant(out, put_id(out, at, b, readings[n, IDENTITY], 8), _PARENT_ID)
    if readings[n, PARENT] == MISSING:
        at = put_byte(out, at, _NIL)
    else:
        at = put_id(out, at, b, readings[n, PARENT], 8)
    at = put_number(out, put_constant(out, at, _START), readings[n, START])
    at = put_number(out, put_constant(out, at, _END), readings[n, END])
    at = put_constant(out, at, _CONTENT)
    at = _put_content(out, at, b, names, senders, readings, n, is_full)
    if prefix > 0:
        at = put_text(out, put_constant(out, at, _SCOPE), names, senders[sender, PREFIX], prefix)
    if time != 0:
        at = put_number(out, put_constant(out, at, _TIME), time)
    if readings[n, CLAIMS] == 0:
        at = put_constant(out, at, _NO_CLAIMS)
    if is_full:
        at = put_origin(out, put_constant(out, at, _ORIGIN), records, digests, record)
    at = put_halves(out, put_constant(out, at, _CAPTURED), readings[n, CAPTURED])
    if senders[sender, COARSE]:
        at = put_constant(out, at, _IS_COARSE)
    if not is_full:
        return at
    return put_request(out, put_constant(out, at, _REQUEST), b, readings, n)


@compiled
def put_trace(
    out: Any, at: Any, b: Any, names: Any, senders: Any, records: Any, digests: Any,
    readings: Any, members: Any, first: Any, count: Any, ended: Any, keys: Any, keyed: Any, is_waiting: Any,
) -> Any:  # fmt: skip
    """Write a trace, with its spans also as waiting ones where they wait."""
    at, touched = put_map_head(out, put_constant(out, at, _WHOLE), count), 0
    for i in range(first, first + count):
        n = members[i]
        touched = max(touched, records[readings[n, RECORD], TIME])
        at = put_list_head(out, put_id(out, at, b, readings[n, IDENTITY], 8), 1)
        at = put_reading(out, at, b, names, senders, records, digests, readings, n, False)
    at = put_constant(out, at, _KEYED)
    if keyed == MISSING:
        at = put_byte(out, at, _NIL)
    else:
        n = members[first + keyed]
        at = put_reading(out, at, b, names, senders, records, digests, readings, n, False)
    at = put_map_head(out, put_constant(out, at, _ENDED_BY_KEY), keys)
    for k in range(keys):
        at = put_text(out, at, b, ended[k, KEY], ended[k, KEY_SIZE])
        at = put_number(out, at, ended[k, KEY_END])
    at = put_list_head(out, put_constant(out, at, _WAITING), count if is_waiting else 0)
    for i in range(first, first + count if is_waiting else first):
        at = put_reading(out, at, b, names, senders, records, digests, readings, members[i], True)
    at = put_number(out, put_constant(out, at, _TOUCHED), touched)
    at = put_number(out, put_constant(out, at, _SIZE), count)
    return put_constant(out, at, _REST)


@compiled
def put_changes(
    out: Any, at: Any, b: Any, names: Any, senders: Any, records: Any, digests: Any,
    readings: Any, members: Any, first: Any, count: Any, known: Any, is_released: Any,
) -> Any:  # fmt: skip
    """Write the changes of a stored trace: the spans behind those `known`, and the release of all spans."""
    at = put_list_head(out, at, count - known + is_released)
    for i in range(first + known, first + count):
        at = put_reading(out, at, b, names, senders, records, digests, readings, members[i], True)
    if is_released:
        at = put_list_head(out, at, count)
        for place in range(count):
            at = put_number(out, at, place)
    return at
