"""The compiled loop that reads the spans of a walk, as `schemas/walk/single_span.py` reads each of them.

It reads only what is usual; what else a request has, that module and the dialects read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..compiled import compiled
from ..dialects.names import frameworks as fw
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.parts.values import REDACTIONS
from ..dialects.session_key import CONVERSATIONS
from ..walk import keys
from ..walk.json_loops import EMPTY, FULL, OBJECT
from ..walk.single_span import QUOTED_MAX
from ..walk.wire_loops import (
    AT,
    FAILED,
    KIND,
    NOTHING,
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
    AGENT,
    ANSWER,
    ARGUMENTS,
    BOTH_HALVES,
    CALL,
    CAPTURED,
    CHAT,
    CLAIMS,
    ENDS,
    ERROR,
    INPUT_HALF,
    LACKS,
    MISSING,
    MODEL,
    NAME,
    NESTED,
    OTHER,
    OUTPUT_HALF,
    OWN,
    ROLE,
    SESSION,
    TOOL,
    TOOL_NAME,
    UNNAMED,
)

NAME_MAX = 200
"""Bytes of a name or an id, at most: most are short, and so each span needs little room."""
SLOTS = keys.AGENT
"""The number of slots of single attributes, by which facts are looked up."""
_AGENT_SLOTS, _SESSION_SLOTS = keys.AGENT, keys.SESSION
_INPUT, _OUTPUT, _ARGUMENTS, _RESULT = keys.INPUT, keys.OUTPUT, keys.ARGUMENTS, keys.RESULT
_TOOL_SLOT, _CALL_SLOT, _OPERATION = keys.TOOL, keys.CALL_ID, keys.OPERATION
_RESPONSE_MODEL, _REQUEST_MODEL, _RESPONSE_ID = keys.RESPONSE_MODEL, keys.REQUEST_MODEL, keys.RESPONSE_ID
_FINISH_REASONS, _OUTPUT_TOKENS, _ERROR_TYPE = keys.FINISH_REASONS, keys.OUTPUT_TOKENS, keys.ERROR_TYPE
_IS_NESTED, _IS_END = keys.IS_NESTED, keys.IS_END
_NO_OPERATION, _RUN, _AGENTS_RUN, _MODELS_CALL, _NOTHING_READ, _UNKNOWN, _ODD = range(7)
"""Kinds of operations; `_ODD` is an operation that is no usual name."""
_NO_HALF, _ODD_HALF = -1, -2
_IS_CONVERSATION = np.array([name in CONVERSATIONS for name in keys.SESSION_NAMES])


def _joined(names: Iterable[str]) -> bytes:
    """Return texts in one, each with a zero behind it."""
    return b"".join(name.encode() + b"\0" for name in sorted(names))


_AGENTS, _MODELS = _joined(otel.AGENT_OPERATIONS), _joined({*otel.MODEL_OPERATIONS, fw.ANY_AGENT_OPERATION})
_OTHERS, _TOOLS = _joined(otel.OTHER_OPERATIONS), _joined({otel.TOOL_OPERATION})
_MERGED, _REDACTED = _joined({fw.MERGED_TOOLS}), _joined(REDACTIONS)


@compiled
def _same(b: Any, at: Any, names: Any, begin: Any, size: Any) -> Any:
    is_same, place, name = True, np.uint64(at), np.uint64(begin)
    for k in range(np.uint64(size)):
        is_same &= b[place + k] == names[name + k]
    return is_same


@compiled
def _is_of(b: Any, at: Any, size: Any, names: Any) -> Any:
    """Return whether a text is one of these, which have a zero behind them."""
    begin = 0
    for stop in range(len(names)):
        if names[stop] == 0:
            if stop - begin == size and _same(b, at, names, begin, size):
                return True
            begin = stop + 1
    return False


@compiled
def _may_be_hidden(b: Any, at: Any, size: Any) -> Any:
    """Return whether a tool's short result may be a redaction, also in quotes and with escapes."""
    is_quoted = size > 0 and b[at] == 34
    for place in range(at, at + size):
        if is_quoted and b[place] == 92:
            return True
        begin = 0
        for stop in range(len(_REDACTED)):
            if _REDACTED[stop] == 0:
                length = stop - begin
                if place + length <= at + size and _same(b, place, _REDACTED, begin, length):
                    return True
                begin = stop + 1
    return False


@compiled
def _take(base: Any, facts: Any, i: Any, readings: Any, n: Any, column: Any) -> Any:
    """Note a name or an id, if there is one; return whether it is usual."""
    if i == MISSING or facts[i, KIND] == NOTHING:
        return True
    size = facts[i, SIZE]
    if facts[i, KIND] == TEXT and 0 < size <= NAME_MAX:
        readings[n, column], readings[n, column + 1] = base + facts[i, AT], size
        return True
    return facts[i, KIND] == TEXT and size == 0


@compiled
def _read_names(base: Any, facts: Any, first: Any, stop: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note the agent and the session's key, and the facts of single attributes by slot."""
    of_slot[:] = MISSING
    agent_slot = session_slot = SLOTS_MAX
    for i in range(first, stop):
        slot = facts[i, SLOT]
        if slot < _AGENT_SLOTS:
            of_slot[slot] = i
        elif slot < _SESSION_SLOTS:
            if slot < agent_slot:
                if not _take(base, facts, i, readings, n, NAME):
                    return False
                agent_slot = slot if facts[i, SIZE] > 0 and facts[i, KIND] == TEXT else agent_slot
        elif slot < session_slot:
            if not _take(base, facts, i, readings, n, SESSION):
                return False
            session_slot = slot if facts[i, SIZE] > 0 and facts[i, KIND] == TEXT else session_slot
    if session_slot < SLOTS_MAX:
        readings[n, OWN] = _IS_CONVERSATION[session_slot - _SESSION_SLOTS]
    return True


@compiled
def _read_error(base: Any, state: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note the error type, as `single_span.py` reads it; return whether it is usual."""
    if not _take(base, facts, of_slot[_ERROR_TYPE], readings, n, ERROR):
        return False
    is_failed, is_raised = state & FAILED != 0, state & RAISED != 0
    if readings[n, ERROR + 1] != MISSING or not (is_failed or is_raised):
        return True
    if not is_failed:
        return of_slot[SLOT_ESCAPED] == MISSING
    if is_raised and not _take(base, facts, of_slot[SLOT_RAISED], readings, n, ERROR):
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
    if _is_of(b, at, size, _MODELS):
        return _MODELS_CALL
    if _is_of(b, at, size, _TOOLS):
        return _RUN
    if _is_of(b, at, size, _AGENTS):
        return _AGENTS_RUN
    return _NOTHING_READ if _is_of(b, at, size, _OTHERS) else _UNKNOWN


@compiled
def _half(facts: Any, i: Any) -> Any:
    """Return whether a half of a conversation has messages, as a number."""
    if i == MISSING:
        return _NO_HALF
    kind = facts[i, KIND]
    return 1 if kind == FULL else 0 if kind == EMPTY else _ODD_HALF


@compiled
def _read_model(base: Any, facts: Any, i: Any, readings: Any, n: Any) -> Any:
    """Note a model's name unless there is one; return whether it is usual."""
    if i == MISSING:
        return True
    size = facts[i, SIZE]
    if facts[i, KIND] != TEXT or size > NAME_MAX:
        return False
    if size > 0 and readings[n, MODEL + 1] == MISSING:
        readings[n, MODEL], readings[n, MODEL + 1] = base + facts[i, AT], size
    return True


@compiled
def _read_conversation(base: Any, facts: Any, of_slot: Any, is_agent: Any, readings: Any, n: Any) -> Any:
    """Note what a model's or an agent's span has; return whether it is usual."""
    asked, answered = _half(facts, of_slot[_INPUT]), _half(facts, of_slot[_OUTPUT])
    if asked == _ODD_HALF or answered == _ODD_HALF:
        return False
    missing = (INPUT_HALF if asked == _NO_HALF else 0) | (OUTPUT_HALF if answered == _NO_HALF else 0)
    readings[n, LACKS] = missing
    if readings[n, ERROR + 1] != MISSING:
        missing &= INPUT_HALF
    has_messages = asked == 1 or answered == 1
    readings[n, CAPTURED] = BOTH_HALVES & ~missing
    readings[n, ROLE] = AGENT if is_agent else CHAT
    readings[n, CLAIMS] = has_messages or (not is_agent and missing != 0)
    if not _read_model(base, facts, of_slot[_RESPONSE_MODEL], readings, n):
        return False
    if not _read_model(base, facts, of_slot[_REQUEST_MODEL], readings, n):
        return False
    return is_agent or _take(base, facts, of_slot[_RESPONSE_ID], readings, n, ANSWER)


@compiled
def _read_run(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note what a tool's span has; return whether it is usual."""
    given, answer = of_slot[_ARGUMENTS], of_slot[_RESULT]
    missing = (INPUT_HALF if given == MISSING else 0) | (OUTPUT_HALF if answer == MISSING else 0)
    if given != MISSING:
        kind, at, size = facts[given, KIND], base + facts[given, AT], facts[given, SIZE]
        if (kind != TEXT and kind != OBJECT) or _is_of(b, at, size, _REDACTED):
            return False
        readings[n, ARGUMENTS], readings[n, ARGUMENTS + 1] = at, size
    if answer != MISSING:
        at, size = base + facts[answer, AT], facts[answer, SIZE]
        if facts[answer, KIND] != TEXT or (size <= QUOTED_MAX and _may_be_hidden(b, at, size)):
            return False
    readings[n, LACKS] = missing
    if readings[n, ERROR + 1] != MISSING and given != MISSING:
        missing &= INPUT_HALF
    readings[n, ROLE], readings[n, CAPTURED], readings[n, CLAIMS] = TOOL, BOTH_HALVES & ~missing, 1
    if not _take(base, facts, of_slot[_CALL_SLOT], readings, n, CALL):
        return False
    return _take(base, facts, of_slot[_TOOL_SLOT], readings, n, TOOL_NAME)


@compiled
def _read_role(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note what a span has in its role; return whether it is usual."""
    operation, tool = _operation(b, base, facts, of_slot[_OPERATION]), of_slot[_TOOL_SLOT]
    if operation == _ODD:
        return False
    is_run = operation == _RUN or (operation == _NO_OPERATION and tool != MISSING)
    if is_run and tool != MISSING and facts[tool, KIND] != TEXT:
        return False
    is_merged = is_run and tool != MISSING
    is_merged = is_merged and _is_of(b, base + facts[tool, AT], facts[tool, SIZE], _MERGED)
    if is_run and not is_merged:
        return _read_run(b, base, facts, of_slot, readings, n)
    has_half = of_slot[_INPUT] != MISSING or of_slot[_OUTPUT] != MISSING
    has_answer = has_half or of_slot[_FINISH_REASONS] != MISSING or of_slot[_OUTPUT_TOKENS] != MISSING
    has_model = has_half or of_slot[_REQUEST_MODEL] != MISSING or of_slot[_RESPONSE_MODEL] != MISSING
    is_agent = operation == _AGENTS_RUN
    is_read = is_agent or operation == _MODELS_CALL or has_answer
    is_other = is_merged or operation == _NOTHING_READ or (operation == _NO_OPERATION and not has_model)
    if is_other or not is_read:
        readings[n, ROLE], readings[n, CLAIMS], readings[n, LACKS] = OTHER, 0, 0
        readings[n, CAPTURED] = 0 if readings[n, ERROR + 1] == MISSING else OUTPUT_HALF
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
    readings[n, OWN] = 0
    if not _read_names(base, facts, first, stop, of_slot, readings, n):
        return False
    if not _read_error(base, state, facts, of_slot, readings, n):
        return False
    nested, ends = _truth(facts, of_slot[_IS_NESTED]), _truth(facts, of_slot[_IS_END])
    readings[n, NESTED], readings[n, ENDS] = nested, ends == 1
    return nested <= 1 and ends <= 1 and _read_role(b, base, facts, of_slot, readings, n)
