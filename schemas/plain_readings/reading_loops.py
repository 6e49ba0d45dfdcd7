"""The compiled loop that reads the spans of a walk, as `schemas/walk/single_span.py` reads each of them.

It reads only what is usual; what else a request has, that module and the dialects read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..dialects.names import frameworks as fw
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.session_key import CONVERSATIONS
from ..walk import keys
from ..walk.json_loops import EMPTY, FULL
from ..walk.name_loops import is_of, joined
from ..walk.wire_loops import (
    AT,
    FAILED,
    KIND,
    RAISED,
    SIZE,
    SLOT,
    SLOT_ESCAPED,
    SLOT_RAISED,
    SLOTS_MAX,
    TEXT,
    TRUTH,
)
from .columns import (
    ANSWER,
    ARGUMENTS,
    CALL,
    COMPACT,
    ENDS,
    ERROR,
    MISSING,
    NAME,
    NESTED,
    OWN,
    SESSION,
    TOOL_NAME,
    UNNAMED,
)
from .flat_loops import READ, UNDECIDED, read_flat
from .role_loops import NO_HALF, ODD_HALF, note_conversation, note_other, take_run
from .text_loops import NAME_MAX, take_model, take_name

SLOTS = keys.SESSION
"""The number of slots of lists, of single attributes and of agents, by which facts are looked up."""
_AGENT_SLOTS, _SESSION_SLOTS = keys.AGENT, keys.SESSION
_INPUT, _OUTPUT, _ARGUMENTS, _RESULT = keys.INPUT, keys.OUTPUT, keys.ARGUMENTS, keys.RESULT
_TOOL_SLOT, _CALL_SLOT, _OPERATION = keys.TOOL, keys.CALL_ID, keys.OPERATION
_RESPONSE_MODEL, _REQUEST_MODEL, _RESPONSE_ID = keys.RESPONSE_MODEL, keys.REQUEST_MODEL, keys.RESPONSE_ID
_FINISH_REASONS, _OUTPUT_TOKENS, _ERROR_TYPE = keys.FINISH_REASONS, keys.OUTPUT_TOKENS, keys.ERROR_TYPE
_IS_NESTED, _IS_END = keys.IS_NESTED, keys.IS_END
_NO_OPERATION, _RUN, _AGENTS_RUN, _MODELS_CALL, _NOTHING_READ, _UNKNOWN, _ODD = range(7)
"""Kinds of operations; `_ODD` is an operation that is no usual name."""
_IS_CONVERSATION = np.array([name in CONVERSATIONS for name in keys.SESSION_NAMES])


_AGENTS, _MODELS = joined(otel.AGENT_OPERATIONS), joined({*otel.MODEL_OPERATIONS, fw.ANY_AGENT_OPERATION})
_OTHERS, _TOOLS = joined(otel.OTHER_OPERATIONS), joined({otel.TOOL_OPERATION})
_MERGED = joined({fw.MERGED_TOOLS})


@compiled
def _read_names(base: Any, facts: Any, first: Any, stop: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note the agent and the session's key, and the facts of single attributes by slot."""
    of_slot[:] = MISSING
    agent_slot = session_slot = SLOTS_MAX
    for i in range(first, stop):
        slot = facts[i, SLOT]
        if slot < _SESSION_SLOTS:
            of_slot[slot] = i
        if slot < _AGENT_SLOTS:
            continue
        if slot < _SESSION_SLOTS:
            if slot < agent_slot:
                if not take_name(base, facts, i, readings, n, NAME):
                    return False
                agent_slot = slot if facts[i, SIZE] > 0 and facts[i, KIND] == TEXT else agent_slot
        elif slot < session_slot:
            if not take_name(base, facts, i, readings, n, SESSION):
                return False
            session_slot = slot if facts[i, SIZE] > 0 and facts[i, KIND] == TEXT else session_slot
    if session_slot < SLOTS_MAX:
        readings[n, OWN] = _IS_CONVERSATION[session_slot - _SESSION_SLOTS]
    return True


@compiled
def _read_error(base: Any, state: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note the error type, as `single_span.py` reads it; return whether it is usual."""
    if not take_name(base, facts, of_slot[_ERROR_TYPE], readings, n, ERROR):
        return False
    is_failed, is_raised = state & FAILED != 0, state & RAISED != 0
    if readings[n, ERROR + 1] != MISSING or not (is_failed or is_raised):
        return True
    if not is_failed:
        return of_slot[SLOT_ESCAPED] == MISSING
    if is_raised and not take_name(base, facts, of_slot[SLOT_RAISED], readings, n, ERROR):
        return False
    if readings[n, ERROR + 1] == MISSING:
        readings[n, ERROR + 1] = UNNAMED
    return True


@compiled
def _truth(facts: Any, i: Any) -> Any:
    """Return a truth value as a number, `MISSING` without the attribute, another number for any other."""
    if i == MISSING:
        return MISSING
    return np.int64(facts[i, AT] != 0) if facts[i, KIND] == TRUTH else 2


@compiled
def _operation(b: Any, base: Any, facts: Any, i: Any) -> Any:
    """Return the kind of a span's operation."""
    if i == MISSING:
        return _NO_OPERATION
    at, size = base + facts[i, AT], facts[i, SIZE]
    if facts[i, KIND] != TEXT or size == 0 or size > NAME_MAX:
        return _ODD
    if is_of(b, at, size, _MODELS):
        return _MODELS_CALL
    if is_of(b, at, size, _TOOLS):
        return _RUN
    if is_of(b, at, size, _AGENTS):
        return _AGENTS_RUN
    return _NOTHING_READ if is_of(b, at, size, _OTHERS) else _UNKNOWN


@compiled
def _half(facts: Any, i: Any) -> Any:
    """Return whether a half of a conversation has messages, as a number."""
    if i == MISSING:
        return NO_HALF
    kind = facts[i, KIND]
    return 1 if kind == FULL else 0 if kind == EMPTY else ODD_HALF


@compiled
def _read_conversation(base: Any, facts: Any, of_slot: Any, is_agent: Any, readings: Any, n: Any) -> Any:
    """Note what a model's or an agent's span has; return whether it is usual."""
    asked, answered = _half(facts, of_slot[_INPUT]), _half(facts, of_slot[_OUTPUT])
    if asked == ODD_HALF or answered == ODD_HALF:
        return False
    note_conversation(readings, n, asked, answered, is_agent)
    if not take_model(base, facts, of_slot[_RESPONSE_MODEL], readings, n):
        return False
    if not take_model(base, facts, of_slot[_REQUEST_MODEL], readings, n):
        return False
    return is_agent or take_name(base, facts, of_slot[_RESPONSE_ID], readings, n, ANSWER)


@compiled
def _read_run(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note what a tool's span has; return whether it is usual."""
    if not take_run(b, base, facts, of_slot[_ARGUMENTS], of_slot[_RESULT], readings, n):
        return False
    if not take_name(base, facts, of_slot[_CALL_SLOT], readings, n, CALL):
        return False
    return take_name(base, facts, of_slot[_TOOL_SLOT], readings, n, TOOL_NAME)


@compiled
def _read_role(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note what a span has in its role; return whether it is usual."""
    found = read_flat(b, base, facts, of_slot, readings, n)
    if found != UNDECIDED:
        return found == READ
    operation, tool = _operation(b, base, facts, of_slot[_OPERATION]), of_slot[_TOOL_SLOT]
    if operation == _ODD:
        return False
    is_run = operation == _RUN or (operation == _NO_OPERATION and tool != MISSING)
    if is_run and tool != MISSING and facts[tool, KIND] != TEXT:
        return False
    is_merged = is_run and tool != MISSING
    is_merged = is_merged and is_of(b, base + facts[tool, AT], facts[tool, SIZE], _MERGED)
    if is_run and not is_merged:
        return _read_run(b, base, facts, of_slot, readings, n)
    has_half = of_slot[_INPUT] != MISSING or of_slot[_OUTPUT] != MISSING
    has_answer = has_half or of_slot[_FINISH_REASONS] != MISSING or of_slot[_OUTPUT_TOKENS] != MISSING
    has_model = has_half or of_slot[_REQUEST_MODEL] != MISSING or of_slot[_RESPONSE_MODEL] != MISSING
    is_agent = operation == _AGENTS_RUN
    is_read = is_agent or operation == _MODELS_CALL or has_answer
    is_other = is_merged or operation == _NOTHING_READ or (operation == _NO_OPERATION and not has_model)
    if is_other or not is_read:
        note_other(readings, n)
        return True
    return _read_conversation(base, facts, of_slot, is_agent, readings, n)


@compiled
def read_facts(
    b: Any, base: Any, state: Any, facts: Any, first: Any, stop: Any, of_slot: Any, readings: Any, n: Any
) -> Any:
    """Note what is known of a span by its facts; return whether they are usual.

    `base` is the offset of its request, `of_slot` has room for `SLOTS`.
    """
    for column in range(ERROR, ARGUMENTS + 2, 2):
        readings[n, column], readings[n, column + 1] = 0, MISSING
    readings[n, OWN], readings[n, COMPACT] = 0, MISSING
    if not _read_names(base, facts, first, stop, of_slot, readings, n):
        return False
    if not _read_error(base, state, facts, of_slot, readings, n):
        return False
    nested, ends = _truth(facts, of_slot[_IS_NESTED]), _truth(facts, of_slot[_IS_END])
    readings[n, NESTED], readings[n, ENDS] = nested, ends == 1
    return nested <= 1 and ends <= 1 and _read_role(b, base, facts, of_slot, readings, n)
