"""The role of a span of OpenInference's or OpenLLMetry's conventions, from the facts that the walk found.

It follows `schemas/dialects/openinference.py` and `openllmetry.py` where a span has one of these conventions
alone, and leaves all others to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..chat.message import string_of
from ..dialects import openinference, openllmetry
from ..dialects.names import openinference_0_1 as oi
from ..dialects.names import openllmetry_0_4 as tl
from ..dialects.names import scopes
from ..dialects.parts.answer_ids import id_in_response
from ..dialects.parts.message_parts import marked_if_cut
from ..dialects.parts.reading import ABSENT, DialectReading, Half, own_output
from ..dialects.parts.tool_runs import tool_result, tool_run
from ..span import Value
from ..span_content import Role, SpanRole
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
    text_in,
    tool_run_of,
)
from .json_loops import OBJECT, REFUSED_TEXT
from .wire_loops import TEXT

ODD_SCOPES = frozenset(
    {scopes.LANGCHAIN, scopes.LLAMA_INDEX, scopes.SMOLAGENTS, scopes.DSPY, scopes.HAYSTACK, scopes.LITELLM}
)
"""Scopes whose spans of these conventions are read in ways of their own."""
_OI = frozenset(range(keys.OI_KIND, keys.TL_KIND)) | {keys.OI_MESSAGES, keys.OI_ANSWERS}
_TL = frozenset(range(keys.TL_KIND, keys.AGENT)) | {keys.TL_MESSAGES, keys.TL_ANSWERS}
FLAT = _OI | _TL
"""The slots of both conventions."""
_GENAI = frozenset(range(keys.INPUT, keys.ERROR_TYPE))
_FILLERS = _GENAI - {keys.REQUEST_MODEL, keys.RESPONSE_MODEL, keys.RESPONSE_ID}
"""GenAI's attributes that may fill what a span of OpenLLMetry lacks."""
_STRUCTURED = frozenset({keys.INPUT, keys.OUTPUT})
"""GenAI's messages."""
_GENAI_AGENT, _OI_AGENT = keys.AGENT, keys.AGENT + 1
_OI_VALUES = {
    keys.INPUT_VALUE: oi.INPUT_VALUE,
    keys.INPUT_TYPE: oi.INPUT_TYPE,
    keys.OUTPUT_VALUE: oi.OUTPUT_VALUE,
    keys.OUTPUT_TYPE: oi.OUTPUT_TYPE,
}
_TL_VALUES = {
    keys.TL_ENTITY: tl.ENTITY_NAME,
    keys.TL_INPUT: tl.ENTITY_INPUT,
    keys.TL_OUTPUT: tl.ENTITY_OUTPUT,
}


def flat_role(data: bytes, found: Facts, scope: str, error: str | None) -> RoleFacts | None:
    """Return what a span has in its role; None where GenAI's conventions decide. Raises Odd."""
    is_oi, is_tl = not _OI.isdisjoint(found), not _TL.isdisjoint(found)
    if scope in ODD_SCOPES or (is_oi and (is_tl or not _GENAI.isdisjoint(found))):
        raise Odd
    return _openinference(data, found, error) if is_oi else _openllmetry(data, found, error)


def _openinference(data: bytes, found: Facts, error: str | None) -> RoleFacts:
    kind = text_in(data, found.get(keys.OI_KIND))
    has_messages = keys.OI_MESSAGES in found or keys.OI_ANSWERS in found
    if kind is None and not has_messages:
        raise Odd
    kind = oi.LLM if kind is None else kind.upper()
    if kind == oi.LLM:
        return _oi_call(data, found, error)
    if kind == oi.TOOL or (kind == oi.AGENT and keys.OI_TOOL in found):
        return _oi_tool(data, found, error)
    if kind != oi.AGENT:
        return OTHER if error is None else FAILED_OTHER
    agent = _first_string(data, found, (_OI_AGENT,))
    if has_messages or (agent is None and (keys.OI_NODE in found or keys.OI_NODE_ID in found)):
        raise Odd
    given = _attributes(data, found, _OI_VALUES)
    asked = openinference.valued(given, oi.INPUT_VALUE, oi.INPUT_TYPE, Role.USER, ABSENT)
    answered = openinference.valued(given, oi.OUTPUT_VALUE, oi.OUTPUT_TYPE, Role.ASSISTANT, ABSENT)
    return _agent(asked, answered, error, agent)


def _oi_call(data: bytes, found: Facts, error: str | None) -> RoleFacts:
    """Return a model's call with its messages flattened, or without any content."""
    asked, answered = _half(found.get(keys.OI_MESSAGES)), _half(found.get(keys.OI_ANSWERS))
    output = text_in(data, found.get(keys.OUTPUT_VALUE))
    is_sure = asked is not None or (answered is None and keys.INPUT_VALUE not in found)
    if not is_sure or (answered is None and output is not None):
        raise Odd
    model = _first_string(data, found, (keys.OI_RESPONSE_MODEL, keys.OI_MODEL, keys.OI_REQUEST_MODEL))
    return model_call(asked, answered, error, model, None if output is None else id_in_response(output))


def _oi_tool(data: bytes, found: Facts, error: str | None) -> RoleFacts:
    """Return a tool's run with the name of the tool."""
    tool = None if keys.OI_TOOL not in found else name_in(data, found[keys.OI_TOOL])
    if tool is None or (keys.OI_PARAMETERS in found and keys.INPUT_VALUE not in found):
        raise Odd
    ids = (name_in(data, found[slot]) for slot in (keys.OI_CALL_ID, keys.OI_TOOL_ID) if slot in found)
    call_id = next((call_id for call_id in ids if call_id is not None), None)
    given = _value(data, found[keys.INPUT_VALUE]) if keys.INPUT_VALUE in found else None
    answer = tool_result(text_in(data, found.get(keys.OUTPUT_VALUE)), tool)
    return _tool(tool_run(tool, call_id, given, answer), error)


def _openllmetry(data: bytes, found: Facts, error: str | None) -> RoleFacts | None:
    kind, request = text_in(data, found.get(keys.TL_KIND)), text_in(data, found.get(keys.TL_REQUEST))
    if kind in (tl.TOOL, tl.AGENT):
        if not _FILLERS.isdisjoint(found):
            raise Odd
        given = _attributes(data, found, _TL_VALUES)
        if kind == tl.TOOL:
            return _tool(openllmetry.tool_of(given), error)
        asked = openllmetry.entity_half(given.get(tl.ENTITY_INPUT), Role.USER)
        answered = openllmetry.entity_half(given.get(tl.ENTITY_OUTPUT), Role.ASSISTANT)
        return _agent(asked, answered, error, _first_string(data, found, (_GENAI_AGENT, keys.TL_ENTITY)))
    if request is None:
        if keys.TL_MESSAGES in found or keys.TL_ANSWERS in found:
            raise Odd
        return None
    if request not in tl.MODEL_REQUESTS:
        return OTHER if error is None else FAILED_OTHER
    asked, answered = _half(found.get(keys.TL_MESSAGES)), _half(found.get(keys.TL_ANSWERS))
    has_gaps = asked is None or answered is None
    if not found.keys().isdisjoint(_FILLERS if has_gaps else _STRUCTURED):
        raise Odd
    model = _first_string(data, found, (keys.RESPONSE_MODEL, keys.REQUEST_MODEL))
    response_id = None if keys.RESPONSE_ID not in found else name_in(data, found[keys.RESPONSE_ID])
    return model_call(asked, answered, error, model, response_id)


def _half(fact: list[int] | None) -> bool | None:
    """Return true for messages whose roles are all known, the first one among them; None without any."""
    if fact is None:
        return None
    _, _, messages, roles = fact
    if messages != roles or not roles & 1:
        raise Odd
    return True


def _agent(asked: Half, answered: Half, error: str | None, agent: str | None) -> RoleFacts:
    """Return an agent's run from what it was asked and answered."""
    answered = own_output(SpanRole.AGENT, answered)
    for half in (asked, answered):
        if half.messages is None and half is not ABSENT:
            raise Odd
    return agent_run(_has_messages(asked), _has_messages(answered), error, None, agent)


def _has_messages(half: Half) -> bool | None:
    return None if half.messages is None else bool(half.messages)


def _tool(run: DialectReading, error: str | None) -> RoleFacts:
    """Return a tool's run of its reading."""
    call, result = run.call, run.result
    assert call is not None, "a tool's run has a call"
    assert result is not None, "a tool's run has a result"
    return tool_run_of(marked_if_cut(call), call.content, result.content, error)


def _attributes(data: bytes, found: Facts, names: Mapping[int, str]) -> dict[str, Value]:
    """Return the texts of attributes by name."""
    return {name: _value(data, found[slot]) for slot, name in names.items() if slot in found}


def _value(data: bytes, fact: list[int]) -> str:
    """Return a text, whatever the walk found in it."""
    _, kind, at, size = fact
    if kind not in (TEXT, OBJECT, REFUSED_TEXT):
        raise Odd
    return data[at : at + size].decode()


def _first_string(data: bytes, found: Facts, slots: Iterable[int]) -> str | None:
    """Return the first of the attributes with a text that is neither empty nor too long for a name."""
    texts = (string_of(text_in(data, found[slot])) for slot in slots if slot in found)
    return next((text for text in texts if text is not None), None)
