"""The compiled loop that reads spans of conventions with flattened messages, as `schemas/walk/flat_span.py`.

It reads only what is usual; what else a request has, that module and the dialects read.
"""

from __future__ import annotations

from typing import Any

from ..compiled import compiled
from ..dialects.names import openinference_0_1 as oi
from ..dialects.names import openllmetry_0_4 as tl
from ..walk import keys
from ..walk.name_loops import begins_with, is_of, joined
from ..walk.wire_loops import AT, KIND, SIZE, TEXT
from .argument_loops import own_arguments
from .columns import ANSWER, ARGUMENTS, CALL, COMPACT, FLAT, MISSING, NAME, TOOL_NAME
from .role_loops import NO_HALF, ODD_HALF, note_conversation, note_other, take_run
from .text_loops import NAME_MAX, REDACTED, take_model, take_name

READ, ODD, UNDECIDED = range(3)
"""Results: the span is read, only the dialects can read it, or GenAI's conventions decide."""
_OI_KIND, _TL_KIND, _AGENTS = keys.OI_KIND, keys.TL_KIND, keys.AGENT
_OI_MESSAGES, _OI_ANSWERS = keys.OI_MESSAGES, keys.OI_ANSWERS
_TL_MESSAGES, _TL_ANSWERS = keys.TL_MESSAGES, keys.TL_ANSWERS
_INPUT, _OUTPUT, _ERROR_TYPE = keys.INPUT, keys.OUTPUT, keys.ERROR_TYPE
_REQUEST_MODEL, _RESPONSE_MODEL, _RESPONSE_ID = keys.REQUEST_MODEL, keys.RESPONSE_MODEL, keys.RESPONSE_ID
_OI_MODELS = (keys.OI_RESPONSE_MODEL, keys.OI_MODEL, keys.OI_REQUEST_MODEL)
_NO_FILLERS = (_REQUEST_MODEL, _RESPONSE_MODEL, _RESPONSE_ID)
_INPUT_VALUE, _OUTPUT_VALUE = keys.INPUT_VALUE, keys.OUTPUT_VALUE
_OI_TOOL, _OI_CALL_ID, _OI_TOOL_ID = keys.OI_TOOL, keys.OI_CALL_ID, keys.OI_TOOL_ID
_OI_PARAMETERS, _OI_NODE, _OI_NODE_ID = keys.OI_PARAMETERS, keys.OI_NODE, keys.OI_NODE_ID
_TL_REQUEST, _TL_ENTITY = keys.TL_REQUEST, keys.TL_ENTITY
_TL_INPUT, _TL_OUTPUT = keys.TL_INPUT, keys.TL_OUTPUT
_LLM, _OI_TOOLS, _OI_AGENTS = joined([oi.LLM]), joined([oi.TOOL]), joined([oi.AGENT])
_TL_TOOLS, _TL_AGENTS, _TL_MODELS = joined([tl.TOOL]), joined([tl.AGENT]), joined(tl.MODEL_REQUESTS)
_ID = joined(['"id":'])
_MEANT = joined(['"kwargs"', '"raw_output"', '"response"', '"tool_call_id"', '"type"', "\\u"])
"""Names of a result in JSON that only the dialects read, and an escape that may be part of one."""
_IDS_MAX = 200
_BRACE, _BRACKET, _QUOTE, _SPACE, _WIDE = 123, 91, 34, 32, 128


@compiled
def read_flat(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note what a span of these conventions has in its role."""
    is_oi = of_slot[_OI_MESSAGES] != MISSING or of_slot[_OI_ANSWERS] != MISSING
    is_tl = of_slot[_TL_MESSAGES] != MISSING or of_slot[_TL_ANSWERS] != MISSING
    is_genai = False
    for slot in range(_OI_KIND, _TL_KIND):
        is_oi |= of_slot[slot] != MISSING
    for slot in range(_TL_KIND, _AGENTS):
        is_tl |= of_slot[slot] != MISSING
    for slot in range(_INPUT, _ERROR_TYPE):
        is_genai |= of_slot[slot] != MISSING
    readings[n, FLAT] = is_oi or is_tl
    if is_oi:
        if is_tl or is_genai:
            return ODD
        return READ if _read_openinference(b, base, facts, of_slot, readings, n) else ODD
    return _read_openllmetry(b, base, facts, of_slot, readings, n) if is_tl else UNDECIDED


@compiled
def _is_name(b: Any, base: Any, facts: Any, i: Any, names: Any) -> Any:
    """Return whether an attribute is one of these names."""
    is_text = i != MISSING and facts[i, KIND] == TEXT
    return is_text and is_of(b, base + facts[i, AT], facts[i, SIZE], names)


@compiled
def _half(facts: Any, i: Any) -> Any:
    """Return 1 for messages whose roles are all known, the first one among them."""
    if i == MISSING:
        return NO_HALF
    return 1 if facts[i, AT] == facts[i, SIZE] and facts[i, SIZE] & 1 else ODD_HALF


@compiled
def _is_capital(b: Any, at: Any, size: Any) -> Any:
    is_capital = size > 0
    for place in range(at, at + size):
        is_capital &= 65 <= b[place] <= 90 or b[place] == 95
    return is_capital


@compiled
def _read_openinference(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note a span of OpenInference's conventions alone; return whether it is usual."""
    kind = of_slot[_OI_KIND]
    has_messages = of_slot[_OI_MESSAGES] != MISSING or of_slot[_OI_ANSWERS] != MISSING
    if kind == MISSING:
        return has_messages and _read_call(b, base, facts, of_slot, readings, n)
    if facts[kind, KIND] != TEXT or not _is_capital(b, base + facts[kind, AT], facts[kind, SIZE]):
        return False
    if _is_name(b, base, facts, kind, _LLM):
        return _read_call(b, base, facts, of_slot, readings, n)
    is_agent = _is_name(b, base, facts, kind, _OI_AGENTS)
    tool = of_slot[_OI_TOOL]
    if _is_name(b, base, facts, kind, _OI_TOOLS) or (is_agent and tool != MISSING):
        return _read_tool(b, base, facts, of_slot, readings, n)
    if not is_agent:
        note_other(readings, n)
        return True
    agent = of_slot[_AGENTS + 1]
    is_named = agent != MISSING and facts[agent, KIND] == TEXT and facts[agent, SIZE] > 0
    is_node = of_slot[_OI_NODE] != MISSING or of_slot[_OI_NODE_ID] != MISSING
    if has_messages or (is_named and of_slot[_AGENTS] != MISSING) or (is_node and not is_named):
        return False
    asked = _value(b, base, facts, of_slot[_INPUT_VALUE])
    answered = _value(b, base, facts, of_slot[_OUTPUT_VALUE])
    note_conversation(readings, n, asked, answered, True)
    return asked != ODD_HALF and answered != ODD_HALF


@compiled
def _value(b: Any, base: Any, facts: Any, i: Any) -> Any:
    """Return 1 for a text that cannot be JSON of messages, nor hidden."""
    if i == MISSING:
        return NO_HALF
    at, size = base + facts[i, AT], facts[i, SIZE]
    if facts[i, KIND] != TEXT or size == 0:
        return ODD_HALF
    begin = b[at]
    is_plain = _SPACE < begin < _WIDE and begin != _BRACE and begin != _BRACKET
    return 1 if is_plain and not is_of(b, at, size, REDACTED) else ODD_HALF


@compiled
def _read_call(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note a model's call; return whether it is usual."""
    asked, answered = _half(facts, of_slot[_OI_MESSAGES]), _half(facts, of_slot[_OI_ANSWERS])
    output = of_slot[_OUTPUT_VALUE]
    if asked == ODD_HALF or answered == ODD_HALF:
        return False
    is_sure = asked == 1 or (answered == NO_HALF and of_slot[_INPUT_VALUE] == MISSING)
    if not is_sure or (answered == NO_HALF and output != MISSING):
        return False
    note_conversation(readings, n, asked, answered, False)
    for slot in _OI_MODELS:
        if not take_model(base, facts, of_slot[slot], readings, n):
            return False
    return output == MISSING or (
        facts[output, KIND] == TEXT and _take_id(b, base, facts, output, readings, n)
    )


@compiled
def _behind_space(b: Any, at: Any, stop: Any) -> Any:
    while at < stop and (b[at] == _SPACE or 9 <= b[at] <= 13 or 28 <= b[at] <= 31):
        at += 1
    return at


@compiled
def _take_id(b: Any, base: Any, facts: Any, i: Any, readings: Any, n: Any) -> Any:
    """Note the id of a response in JSON, as `id_in_response`; return whether all characters are usual."""
    at, stop = base + facts[i, AT], base + facts[i, AT] + facts[i, SIZE]
    if at == stop or b[at] != _BRACE:
        return True
    at = _behind_space(b, at + 1, stop)
    size = len(_ID) - 1
    if at < stop and b[at] >= _WIDE:
        return False
    if at + size > stop or not is_of(b, at, size, _ID):
        return True
    at = _behind_space(b, at + size, stop)
    if at == stop or b[at] != _QUOTE:
        return at == stop or b[at] < _WIDE
    at += 1
    begin = at
    while at < stop and _is_of_id(b[at]):
        at += 1
    if at < stop and b[at] == _QUOTE and 0 < at - begin <= _IDS_MAX:
        readings[n, ANSWER], readings[n, ANSWER + 1] = begin, at - begin
    return at == stop or b[at] < _WIDE


@compiled
def _is_of_id(byte: Any) -> Any:
    is_letter = 65 <= byte <= 90 or 97 <= byte <= 122 or byte == 95
    return is_letter or 48 <= byte <= 58 or byte == 45 or byte == 46


@compiled
def _read_tool(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note a tool's run; return whether it is usual."""
    tool = of_slot[_OI_TOOL]
    if tool == MISSING or facts[tool, KIND] != TEXT or not 0 < facts[tool, SIZE] <= NAME_MAX:
        return False
    if of_slot[_OI_PARAMETERS] != MISSING and of_slot[_INPUT_VALUE] == MISSING:
        return False
    if not take_name(base, facts, tool, readings, n, TOOL_NAME):
        return False
    if not take_name(base, facts, of_slot[_OI_CALL_ID], readings, n, CALL):
        return False
    if readings[n, CALL + 1] == MISSING and not take_name(
        base, facts, of_slot[_OI_TOOL_ID], readings, n, CALL
    ):
        return False
    return _read_run(b, base, facts, of_slot[_INPUT_VALUE], of_slot[_OUTPUT_VALUE], readings, n)


@compiled
def _read_run(b: Any, base: Any, facts: Any, given: Any, answer: Any, readings: Any, n: Any) -> Any:
    """Note the arguments and the result of a tool; return whether they are usual."""
    if answer != MISSING:
        at, size = base + facts[answer, AT], facts[answer, SIZE]
        is_text = facts[answer, KIND] == TEXT and size > 0
        if is_text and _may_be_object(b[at]) and _has_meaning(b, at, at + size):
            return False
    return take_run(b, base, facts, given, answer, readings, n)


@compiled
def _may_be_object(byte: Any) -> Any:
    """Return whether a text that begins with this byte may be an object in JSON."""
    return byte == _BRACE or byte <= _SPACE or byte >= _WIDE


@compiled
def _has_meaning(b: Any, at: Any, stop: Any) -> Any:
    """Return whether a result in JSON may have names that the dialects know."""
    for place in range(at, stop):
        if b[place] != _MEANT[0] and b[place] != 92:
            continue
        if begins_with(b, place, stop - place, _MEANT):
            return True
    return False


@compiled
def _read_openllmetry(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note a span of OpenLLMetry's conventions."""
    kind, request = of_slot[_TL_KIND], of_slot[_TL_REQUEST]
    is_odd = (kind != MISSING and facts[kind, KIND] != TEXT) or (
        request != MISSING and facts[request, KIND] != TEXT
    )
    has_fillers = False
    for slot in range(_INPUT, _ERROR_TYPE):
        has_fillers |= slot not in _NO_FILLERS and of_slot[slot] != MISSING
    is_tool, is_agent = _is_name(b, base, facts, kind, _TL_TOOLS), _is_name(b, base, facts, kind, _TL_AGENTS)
    if is_odd or ((is_tool or is_agent) and has_fillers):
        return ODD
    if is_tool:
        return READ if _read_entity(b, base, facts, of_slot, readings, n) else ODD
    if is_agent:
        if of_slot[_TL_INPUT] != MISSING or of_slot[_TL_OUTPUT] != MISSING:
            return ODD
        note_conversation(readings, n, NO_HALF, NO_HALF, True)
        is_named = of_slot[_AGENTS] != MISSING
        return READ if is_named or take_name(base, facts, of_slot[_TL_ENTITY], readings, n, NAME) else ODD
    return _read_request(b, base, facts, of_slot, has_fillers, readings, n)


@compiled
def _read_entity(b: Any, base: Any, facts: Any, of_slot: Any, readings: Any, n: Any) -> Any:
    """Note the run of a tool of OpenLLMetry's conventions; return whether it is usual."""
    if not take_name(base, facts, of_slot[_TL_ENTITY], readings, n, TOOL_NAME):
        return False
    given = of_slot[_TL_INPUT]
    if not _read_run(b, base, facts, given, of_slot[_TL_OUTPUT], readings, n):
        return False
    if given == MISSING or facts[given, SIZE] == 0:
        return True
    at = base + facts[given, AT]
    if facts[given, KIND] == TEXT:
        return not _may_be_object(b[at])
    begin, stop, size = own_arguments(b, at, at + facts[given, SIZE])
    readings[n, ARGUMENTS], readings[n, ARGUMENTS + 1] = begin, stop - begin
    readings[n, COMPACT] = size
    return begin != MISSING


@compiled
def _read_request(
    b: Any, base: Any, facts: Any, of_slot: Any, has_fillers: Any, readings: Any, n: Any
) -> Any:
    """Note a request to a model of OpenLLMetry's conventions, or a part of a workflow."""
    asked, answered = _half(facts, of_slot[_TL_MESSAGES]), _half(facts, of_slot[_TL_ANSWERS])
    if of_slot[_TL_REQUEST] == MISSING:
        return UNDECIDED if asked == NO_HALF and answered == NO_HALF else ODD
    if not _is_name(b, base, facts, of_slot[_TL_REQUEST], _TL_MODELS):
        note_other(readings, n)
        return READ
    has_gaps = asked == NO_HALF or answered == NO_HALF
    is_structured = of_slot[_INPUT] != MISSING or of_slot[_OUTPUT] != MISSING
    if asked == ODD_HALF or answered == ODD_HALF or is_structured or (has_gaps and has_fillers):
        return ODD
    note_conversation(readings, n, asked, answered, False)
    is_usual = take_model(base, facts, of_slot[_RESPONSE_MODEL], readings, n)
    is_usual = is_usual and take_model(base, facts, of_slot[_REQUEST_MODEL], readings, n)
    is_usual = is_usual and take_name(base, facts, of_slot[_RESPONSE_ID], readings, n, ANSWER)
    return READ if is_usual else ODD
