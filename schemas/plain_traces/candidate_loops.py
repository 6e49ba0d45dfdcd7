"""The compiled loop that writes the candidate of a plain span as msgspec writes a `Candidate`."""

from __future__ import annotations

from typing import Any

import msgspec

from ..candidate import Candidate
from ..compiled import compiled
from ..plain_readings.columns import (
    BOTH_HALVES,
    COARSE,
    END,
    ERROR,
    IDENTITY,
    INPUT_HALF,
    MISSING,
    MODEL,
    NAME,
    PREFIX,
    PREFIX_SIZE,
    RECORD,
    ROLE,
    SENDER,
    SERVICE,
    SERVICE_SIZE,
    SESSION,
    START,
    TOOL,
    TRACE,
)
from ..sessions.late_ends import CLOCK_ERROR
from ..span_content import INPUT, OUTPUT
from .pack_loops import (
    put,
    put_byte,
    put_constant,
    put_hex,
    put_id,
    put_list_head,
    put_number,
    put_struct_head,
    put_text,
    put_text_head,
)
from .state_loops import names_of, put_halves, put_origin, put_request, put_role
from .trace_loops import ABOVE, COVERED, HALVES, OUTER, enclosing, is_nested, nearest, session_of

_pack = msgspec.msgpack.encode
_candidate = names_of(Candidate)
_FIELDS = len(_candidate)
_SESSION_ID, _ROLE, _START, _END = (_candidate[name] for name in ("session_id", "role", "start", "end"))
_TRACE_ID = _candidate["claims"] + b"\x90" + _candidate["trace_id"]
_SPAN_ID, _WITHIN = _candidate["span_id"], _candidate["within"]
_FAILED, _COVERED = _candidate["failed"] + _pack(True), _candidate["covered"] + _pack(True)
_AGENT, _MODEL, _SERVICE = (_candidate[name] for name in ("agent", "model", "service"))
_NESTED = _candidate["nested"] + _pack(True)
_REQUEST, _WITHOUT, _ORIGIN = (_candidate[name] for name in ("request", "without", "origin"))
_IN, _OUT, _DOT = f"/{INPUT}".encode(), f"/{OUTPUT}".encode(), 46
_ID_CHARS = 2 + 32 + 16
"""The letters of a span's key beside its role: two dots and the ids."""


@compiled
def _put_key(out: Any, at: Any, b: Any, readings: Any, outer: Any, half: Any) -> Any:
    """Write the key of a span, or of a half of it."""
    role = put_role(out, at, readings[outer, ROLE]) - at - 1
    size = role + _ID_CHARS + (0 if half == BOTH_HALVES else len(_IN) if half == INPUT_HALF else len(_OUT))
    behind = put_text_head(out, at, size)
    # A role as a text has a head of one byte, over which the last byte of the key's head is written.
    put_role(out, behind - 1, readings[outer, ROLE])
    put_text_head(out, at, size)
    at = put_byte(out, behind + role, _DOT)
    at = put_byte(out, put_hex(out, at, b, readings[outer, TRACE], 16), _DOT)
    at = put_hex(out, at, b, readings[outer, IDENTITY], 8)
    if half == BOTH_HALVES:
        return at
    return put_constant(out, at, _IN if half == INPUT_HALF else _OUT)


@compiled
def _put_within(
    out: Any, at: Any, b: Any, readings: Any, members: Any, first: Any, within: Any, count: Any
) -> Any:
    """Write the keys of the enclosing spans, or of the halves that are claimed of them."""
    keys = 0
    for k in range(count):
        keys += within[k, HALVES] != 0
    at = put_list_head(out, put_constant(out, at, _WITHIN), keys)
    for k in range(count):
        if within[k, HALVES] != 0:
            at = _put_key(out, at, b, readings, members[first + within[k, OUTER]], within[k, HALVES])
    return at


@compiled
def _put_session(
    out: Any, at: Any, b: Any, names: Any, senders: Any, readings: Any, n: Any, keyed: Any
) -> Any:
    """Write a session's id, its prefix before the key; return its offsets."""
    prefix = senders[readings[n, SENDER], PREFIX_SIZE]
    size = prefix + (32 if keyed == MISSING else readings[keyed, SESSION + 1])
    begin = put_text_head(out, at, size)
    at = put(out, begin, names, senders[readings[n, SENDER], PREFIX], prefix)
    if keyed == MISSING:
        return begin, put_hex(out, at, b, readings[n, TRACE], 16)
    return begin, put(out, at, b, readings[keyed, SESSION], readings[keyed, SESSION + 1])


@compiled
def _put_inherited(
    out: Any, at: Any, b: Any, names: Any, senders: Any, readings: Any, agent: Any, model: Any, sender: Any
) -> Any:
    """Write agent, model and service, of those that are known."""
    if agent != MISSING:
        at = put_constant(out, at, _AGENT)
        at = put_text(out, at, b, readings[agent, NAME], readings[agent, NAME + 1])
    if model != MISSING:
        at = put_constant(out, at, _MODEL)
        at = put_text(out, at, b, readings[model, MODEL], readings[model, MODEL + 1])
    if sender != MISSING:
        at = put_constant(out, at, _SERVICE)
        at = put_text(out, at, names, senders[sender, SERVICE], senders[sender, SERVICE_SIZE])
    return at


@compiled
def _service_of(senders: Any, readings: Any, members: Any, first: Any, links: Any, i: Any) -> Any:
    """Return the sender of the nearest span, from a span upwards, with a service."""
    place = i
    while place >= 0:
        sender = readings[members[first + place], SENDER]
        if senders[sender, SERVICE_SIZE] != MISSING:
            return sender
        place = links[place, ABOVE]
    return MISSING


@compiled
def _end_of(senders: Any, readings: Any, members: Any, first: Any, links: Any, i: Any) -> Any:
    """Return the end of a span, as `end_inside` has it where its clock is coarse."""
    end = readings[members[first + i], END]
    if senders[readings[members[first + i], SENDER], COARSE] == 0:
        return end
    least, place = end, links[i, ABOVE]
    while place >= 0:
        n = members[first + place]
        ended = readings[n, END]
        if readings[n, ROLE] == TOOL and ended < end <= ended + CLOCK_ERROR:
            least = min(least, ended)
        place = links[place, ABOVE]
    return least


@compiled
def put_candidate(
    out: Any, at: Any, b: Any, names: Any, senders: Any, records: Any, digests: Any,
    readings: Any, members: Any, first: Any, links: Any, i: Any, ended: Any, keys: Any, keyed: Any,
    within: Any,
) -> Any:  # fmt: skip
    """Write the candidate of a span; return the offset behind it, and the offsets of its session's id."""
    n = members[first + i]
    keyed = session_of(b, readings, members, first, links, i, ended, keys, keyed)
    agent = nearest(readings, members, first, links, i, NAME)
    model = nearest(readings, members, first, links, i, MODEL)
    sender = _service_of(senders, readings, members, first, links, i)
    count, halves = enclosing(b, readings, members, first, links, i, within), links[i, COVERED]
    is_within, has_without = False, halves != 0 and halves != BOTH_HALVES
    for k in range(count):
        is_within |= within[k, HALVES] != 0
    failed, nested = readings[n, ERROR + 1] != MISSING, is_nested(b, readings, members, first, links, i)
    size = 9 + failed + is_within + (halves == BOTH_HALVES) + (agent != MISSING) + (model != MISSING)
    at = put_struct_head(out, at, size + (sender != MISSING) + nested + has_without, _FIELDS)
    keyed = MISSING if keyed == MISSING else members[first + keyed]
    begin, behind = _put_session(
        out, put_constant(out, at, _SESSION_ID), b, names, senders, readings, n, keyed
    )
    at = put_role(out, put_constant(out, behind, _ROLE), readings[n, ROLE])
    end = _end_of(senders, readings, members, first, links, i)
    at = put_number(out, put_constant(out, at, _START), min(readings[n, START], end))
    at = put_number(out, put_constant(out, at, _END), end)
    at = put_id(out, put_constant(out, at, _TRACE_ID), b, readings[n, TRACE], 16)
    at = put_id(out, put_constant(out, at, _SPAN_ID), b, readings[n, IDENTITY], 8)
    if failed:
        at = put_constant(out, at, _FAILED)
    if is_within:
        at = _put_within(out, at, b, readings, members, first, within, count)
    if halves == BOTH_HALVES:
        at = put_constant(out, at, _COVERED)
    at = _put_inherited(out, at, b, names, senders, readings, agent, model, sender)
    if nested:
        at = put_constant(out, at, _NESTED)
    at = put_request(out, put_constant(out, at, _REQUEST), b, readings, n)
    if has_without:
        at = put_halves(out, put_constant(out, at, _WITHOUT), halves)
    at = put_origin(out, put_constant(out, at, _ORIGIN), records, digests, readings[n, RECORD])
    return at, begin, behind
