"""The reading of one span from the facts that the walk found, without its content.

It follows the dialect of `schemas/dialects/genai.py`, `flat_span.py` those with flattened messages, and both
the parts of `read_content` that all dialects share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..chat.message import string_of
from ..dialects.genai import returned
from ..dialects.names import frameworks as fw
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.names import scopes
from ..dialects.parts.message_parts import name_of
from ..dialects.parts.values import arguments
from ..dialects.session_key import CONVERSATIONS
from ..dialects.span_facts import UNNAMED_ERROR
from ..event import Content
from ..sessions.late_ends import whole_end
from ..sessions.span_reading import Sender, SpanReading
from ..span_content import SpanContent, ToolCall
from . import keys
from .fact_values import (
    FAILED_OTHER,
    OTHER,
    Facts,
    Odd,
    RoleFacts,
    agent_run,
    model_call,
    name_in,
    plain_in,
    string_in,
    text_in,
    tool_run_of,
    truth_in,
)
from .flat_span import FLAT, flat_role
from .json_loops import EMPTY, FULL, OBJECT
from .wire_loops import (
    ENDED,
    FACTS,
    FACTS_STOP,
    FAILED,
    IDENTITY,
    PARENT,
    RAISED,
    SLOT_ESCAPED,
    SLOT_RAISED,
    SLOTS_MAX,
    STARTED,
    STATE,
    TEXT,
    TRACE,
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


class NotRead(Exception):
    """A span that only its whole request shows how to read."""


def bare_reading(
    data: bytes, row: Sequence[int], facts: Sequence[list[int]], sender: Sender, scope: str
) -> tuple[SpanReading, bool] | None:
    """Return a span's reading without content, and whether it ends its session.

    None where the dialects have to read the span.
    """
    try:
        return _read(data, row, facts, sender, scope)
    except Odd:
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
        agent=role.agent or agent,
        model=role.model,
        service=sender.service,
        nested=truth_in(data, found.get(keys.IS_NESTED)),
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
    return reading, truth_in(data, found.get(keys.IS_END)) is True


def _found(data: bytes, facts: Iterable[list[int]]) -> tuple[Facts, str | None, str | None, int]:
    """Return a span's facts by slot, its agent, and its session key with the slot of that."""
    found: Facts = {}
    session = agent = None
    session_slot = agent_slot = SLOTS_MAX
    for fact in facts:
        slot = fact[0]
        if slot < keys.SESSION:
            found[slot] = fact
        if keys.AGENT <= slot < keys.SESSION:
            if slot < agent_slot and (name := string_in(data, fact)) is not None:
                agent, agent_slot = name, slot
        elif keys.SESSION <= slot < session_slot and (name := name_in(data, fact)) is not None:
            session, session_slot = name, slot
    return found, agent, session, session_slot


def _role(data: bytes, found: Facts, scope: str, error: str | None) -> RoleFacts:
    """Return what `genai.read` and `read_content` make of the span."""
    if not FLAT.isdisjoint(found):
        role = flat_role(data, found, scope, error)
        if role is not None:
            return role
    operation = found.get(keys.OPERATION)
    name = None if operation is None else string_in(data, operation)
    is_tool = name == otel.TOOL_OPERATION or (name is None and keys.TOOL in found)
    if is_tool and text_in(data, found.get(keys.TOOL)) != fw.MERGED_TOOLS:
        return _tool(data, found, scope, error)
    is_other = name in otel.OTHER_OPERATIONS or (name is None and _MODELS.isdisjoint(found))
    if is_tool or is_other or (name not in _CONVERSING and _ANSWERED.isdisjoint(found)):
        return OTHER if error is None else FAILED_OTHER
    asked, answered = _half(found.get(keys.INPUT)), _half(found.get(keys.OUTPUT))
    model = text_in(data, found.get(keys.RESPONSE_MODEL)) or text_in(data, found.get(keys.REQUEST_MODEL))
    if name in otel.AGENT_OPERATIONS:
        return agent_run(asked, answered, error, model)
    answer = found.get(keys.RESPONSE_ID)
    response_id = None if answer is None else name_in(data, answer)
    if response_id is None and asked is not None and scope.startswith(scopes.LOGFIRE):
        raise Odd
    return model_call(asked, answered, error, model, response_id)


def _half(fact: list[int] | None) -> bool | None:
    """Return whether a half of a conversation has messages; None where it is absent."""
    if fact is None:
        return None
    if fact[1] not in (EMPTY, FULL):
        raise Odd
    return fact[1] == FULL


def _tool(data: bytes, found: Facts, scope: str, error: str | None) -> RoleFacts:
    """Return a tool's run."""
    given, answer = found.get(keys.ARGUMENTS), found.get(keys.RESULT)
    if scope in scopes.TEXT_PARTS and answer is not None:
        raise Odd
    args, asked = None, Content.ABSENT
    if given is not None:
        if given[1] not in (TEXT, OBJECT):
            raise Odd
        args, asked = arguments(data[given[2] : given[2] + given[3]].decode())
    answered = Content.ABSENT if answer is None else _answer(data, answer)
    call_id, tool = found.get(keys.CALL_ID), found.get(keys.TOOL)
    call = ToolCall(
        None if call_id is None else name_in(data, call_id),
        None if tool is None else string_in(data, tool),
        args,
        asked,
    )
    return tool_run_of(call, asked, answered, error)


def _answer(data: bytes, fact: list[int]) -> Content:
    """Return whether a tool's result is there to be read."""
    _, kind, at, size = fact
    if kind != TEXT:
        raise Odd
    if size > QUOTED_MAX:
        return Content.CAPTURED
    return returned(data[at : at + size].decode())[1]


def _error(data: bytes, row: Sequence[int], found: Facts) -> str | None:
    """Return the error type, as `error_of`."""
    given = plain_in(data, found.get(keys.ERROR_TYPE))
    failed = row[STATE] & FAILED
    if given not in _NO_ERROR:
        return name_of(given) or UNNAMED_ERROR
    if row[STATE] & RAISED and (failed or plain_in(data, found.get(SLOT_ESCAPED)) in _TRUE):
        return string_of(plain_in(data, found.get(SLOT_RAISED))) or UNNAMED_ERROR
    return UNNAMED_ERROR if failed else None
