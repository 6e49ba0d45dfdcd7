"""The reading of one span from the facts that the walk found, without its content.

It follows the dialect of `schemas/dialects/genai.py`, of which alone the walk knows the attributes, and the
parts of `read_content` that all dialects share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ..chat.message import ID_CHARS_MAX, string_of
from ..dialects.genai import returned
from ..dialects.names import frameworks as fw
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.names import scopes
from ..dialects.parts.message_parts import name_of
from ..dialects.parts.values import arguments
from ..dialects.session_key import CONVERSATIONS
from ..dialects.span_facts import UNNAMED_ERROR, truth_of
from ..event import Content
from ..sessions.late_ends import whole_end
from ..sessions.span_reading import Sender, SpanReading
from ..span import Value
from ..span_content import INPUT, OUTPUT, SpanContent, SpanRole, ToolCall
from . import keys
from .json_loops import EMPTY, FULL, OBJECT
from .wire_loops import (
    ENDED,
    FACTS,
    FACTS_STOP,
    FAILED,
    IDENTITY,
    NOTHING,
    NUMBER,
    PARENT,
    RAISED,
    SLOT_ESCAPED,
    SLOT_RAISED,
    SLOTS_MAX,
    STARTED,
    STATE,
    TEXT,
    TRACE,
    TRUTH,
)

_CONVERSATIONS = frozenset(keys.SESSION + keys.SESSION_NAMES.index(name) for name in CONVERSATIONS)
_MODELS = frozenset({keys.INPUT, keys.OUTPUT, keys.REQUEST_MODEL, keys.RESPONSE_MODEL})
"""Slots that make a span without an operation a model's."""
_ANSWERED = frozenset({keys.INPUT, keys.OUTPUT, keys.FINISH_REASONS, keys.OUTPUT_TOKENS})
"""Slots that make a span of an unknown operation a model's."""
_CONVERSING = otel.MODEL_OPERATIONS | otel.AGENT_OPERATIONS | {fw.ANY_AGENT_OPERATION}
QUOTED_MAX = 100
"""Bytes of a redaction in JSON, at most: a character takes six bytes as an escape."""
_NO_ERROR = (None, "", False)
_TRUE = (True, "true", "True")

Facts: TypeAlias = dict[int, list[int]]


class NotRead(Exception):
    """A span that only its whole request shows how to read."""


class _Odd(Exception):
    """A span that the dialects have to read."""


class _Role(NamedTuple):
    """The fields of a reading that depend on the role, as `SpanContent` and `SpanReading` name them."""

    role: SpanRole
    has_claims: bool = False
    captured: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    model: str | None = None
    call: ToolCall | None = None
    response_id: str | None = None


_PAIR = (INPUT, OUTPUT)
_OTHER = _Role(SpanRole.OTHER)
_FAILED_OTHER = _Role(SpanRole.OTHER, captured=(OUTPUT,))


def bare_reading(
    data: bytes, row: Sequence[int], facts: Sequence[list[int]], sender: Sender, scope: str
) -> tuple[SpanReading, bool] | None:
    """Return a span's reading without content, and whether it ends its session.

    None where the dialects have to read the span.
    """
    try:
        return _read(data, row, facts, sender, scope)
    except _Odd:
        return None


def _read(
    data: bytes, row: Sequence[int], facts: Sequence[list[int]], sender: Sender, scope: str
) -> tuple[SpanReading, bool]:
    found, agent, session, session_slot = _found(data, facts[row[FACTS] : row[FACTS_STOP]])
    error = _error(data, row, found)
    role = _role(data, found, scope, error)
    content = SpanContent(
        role=role.role,
        session=session,
        agent=agent,
        model=role.model,
        service=sender.service,
        nested=_truth(data, found.get(keys.IS_NESTED)),
        call=role.call,
        error=error,
        own_conversation=session_slot in _CONVERSATIONS,
        response_id=role.response_id,
        lacks=role.lacks,
    )
    trace, identity, parent, start, end = row[TRACE], row[IDENTITY], row[PARENT], row[STARTED], row[ENDED]
    reading = SpanReading(
        data[trace : trace + 16].hex(),
        data[identity : identity + 8].hex(),
        None if parent < 0 else data[parent : parent + 8].hex(),
        start,
        whole_end(start, end, role.role) if sender.is_coarse else end,
        content,
        sender.prefix,
        has_claims=role.has_claims,
        captured=role.captured,
        beside=scope in scopes.AGENTS_BESIDE,
        coarse=sender.is_coarse,
        apart=scope == scopes.HAYSTACK,
    )
    return reading, _truth(data, found.get(keys.IS_END)) is True


def _found(data: bytes, facts: Iterable[list[int]]) -> tuple[Facts, str | None, str | None, int]:
    """Return a span's facts by slot, its agent, and its session key with the slot of that."""
    found: Facts = {}
    session = agent = None
    session_slot = agent_slot = SLOTS_MAX
    for fact in facts:
        slot = fact[0]
        if slot < keys.AGENT:
            found[slot] = fact
        elif slot < keys.SESSION:
            if slot < agent_slot and (name := _string(data, fact)) is not None:
                agent, agent_slot = name, slot
        elif slot < session_slot and (name := _name(data, fact)) is not None:
            session, session_slot = name, slot
    return found, agent, session, session_slot


def _role(data: bytes, found: Facts, scope: str, error: str | None) -> _Role:
    """Return what `genai.read` and `read_content` make of the span."""
    operation = found.get(keys.OPERATION)
    name = None if operation is None else _string(data, operation)
    is_tool = name == otel.TOOL_OPERATION or (name is None and keys.TOOL in found)
    if is_tool and _text(data, found.get(keys.TOOL)) != fw.MERGED_TOOLS:
        return _tool(data, found, scope, error)
    is_other = name in otel.OTHER_OPERATIONS or (name is None and _MODELS.isdisjoint(found))
    if is_tool or is_other or (name not in _CONVERSING and _ANSWERED.isdisjoint(found)):
        # A failed span without an output counts as one with an empty output, whatever its role.
        return _OTHER if error is None else _FAILED_OTHER
    asked, answered = _half(found.get(keys.INPUT)), _half(found.get(keys.OUTPUT))
    lacks = _halves(asked is None, answered is None)
    if answered is None and error is not None:
        answered = False
    captured = _halves(asked is not None, answered is not None)
    model = _text(data, found.get(keys.RESPONSE_MODEL)) or _text(data, found.get(keys.REQUEST_MODEL))
    has_messages = bool(asked or answered)
    if name in otel.AGENT_OPERATIONS:
        return _Role(SpanRole.AGENT, has_messages, captured, lacks, string_of(model))
    answer = found.get(keys.RESPONSE_ID)
    response_id = None if answer is None else _name(data, answer)
    if response_id is None and asked is not None and scope.startswith(scopes.LOGFIRE):
        raise _Odd
    has_claims = has_messages or len(captured) < 2
    return _Role(SpanRole.CHAT, has_claims, captured, lacks, string_of(model), None, response_id)


def _halves(has_input: bool, has_output: bool) -> tuple[str, ...]:
    return _PAIR if has_input and has_output else (INPUT,) if has_input else (OUTPUT,) if has_output else ()


def _half(fact: list[int] | None) -> bool | None:
    """Return whether a half of a conversation has messages; None where it is absent."""
    if fact is None:
        return None
    if fact[1] not in (EMPTY, FULL):
        raise _Odd
    return fact[1] == FULL


def _tool(data: bytes, found: Facts, scope: str, error: str | None) -> _Role:
    """Return a tool's run."""
    given, answer = found.get(keys.ARGUMENTS), found.get(keys.RESULT)
    if scope in scopes.TEXT_PARTS and answer is not None:
        raise _Odd
    args, asked = None, Content.ABSENT
    if given is not None:
        if given[1] not in (TEXT, OBJECT):
            raise _Odd
        args, asked = arguments(data[given[2] : given[2] + given[3]].decode())
    answered = Content.ABSENT if answer is None else _answer(data, answer)
    lacks = _halves(asked is Content.ABSENT, answered is Content.ABSENT)
    if error is not None and asked is Content.CAPTURED and answered is Content.ABSENT:
        answered = Content.CAPTURED
    captured = _halves(asked is Content.CAPTURED, answered is Content.CAPTURED)
    call_id, tool = found.get(keys.CALL_ID), found.get(keys.TOOL)
    call = ToolCall(
        None if call_id is None else _name(data, call_id),
        None if tool is None else _string(data, tool),
        args,
        asked,
    )
    return _Role(SpanRole.TOOL, has_claims=True, captured=captured, lacks=lacks, call=call)


def _answer(data: bytes, fact: list[int]) -> Content:
    """Return whether a tool's result is there to be read."""
    _, kind, at, size = fact
    if kind != TEXT:
        raise _Odd
    if size > QUOTED_MAX:
        return Content.CAPTURED
    return returned(data[at : at + size].decode())[1]


def _error(data: bytes, row: Sequence[int], found: Facts) -> str | None:
    """Return the error type, as `error_of`."""
    given = _plain(data, found.get(keys.ERROR_TYPE))
    failed = row[STATE] & FAILED
    if given not in _NO_ERROR:
        return name_of(given) or UNNAMED_ERROR
    if row[STATE] & RAISED and (failed or _plain(data, found.get(SLOT_ESCAPED)) in _TRUE):
        return string_of(_plain(data, found.get(SLOT_RAISED))) or UNNAMED_ERROR
    return UNNAMED_ERROR if failed else None


def _truth(data: bytes, fact: list[int] | None) -> bool | None:
    return None if fact is None else truth_of(_value(data, fact))


def _name(data: bytes, fact: list[int]) -> str | None:
    """Return an attribute as `name_of` does."""
    _, kind, at, size = fact
    is_name = kind == TEXT and 0 < size <= ID_CHARS_MAX
    return data[at : at + size].decode() if is_name else name_of(_value(data, fact))


def _string(data: bytes, fact: list[int]) -> str | None:
    """Return an attribute as `string_of` does."""
    return _name(data, fact) if fact[1] == TEXT else string_of(_value(data, fact))


def _text(data: bytes, fact: list[int] | None) -> str | None:
    """Return the text of an attribute; None where it is missing."""
    if fact is None:
        return None
    _, kind, at, size = fact
    if kind != TEXT:
        raise _Odd
    return data[at : at + size].decode()


def _plain(data: bytes, fact: list[int] | None) -> Value:
    return None if fact is None else _value(data, fact)


def _value(data: bytes, fact: list[int]) -> Value:
    """Return the value of an attribute."""
    _, kind, at, size = fact
    if kind == TEXT:
        return data[at : at + size].decode()
    if kind in (TRUTH, NUMBER):
        return at != 0 if kind == TRUTH else at
    if kind == NOTHING:
        return None
    raise _Odd
