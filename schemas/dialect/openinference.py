"""OpenInference's conventions: a kind for each span, messages flattened into attributes."""

from __future__ import annotations

from collections.abc import Mapping

from ..event import Content
from ..message import string_of
from ..semconv import openinference_0_1 as oi
from ..span import Span, Value
from ..step import Call, Part, Role
from .carried import arguments, is_object, parsed_if_nested
from .flat import Cut, flattened
from .messages import flat_listed, listed, spoken, worded
from .parts import first_name
from .runs import tool_result
from .said import ABSENT, TRUNCATED, Half, Said

_MESSAGES = (oi.INPUT_MESSAGES + ".", oi.OUTPUT_MESSAGES + ".")

_EMPTY = Half(())


def read(span: Span) -> Said | None:
    """What a span says by OpenInference's conventions; None where it does not speak by them."""
    attributes = span.attributes
    kind = attributes.get(oi.KIND)
    if not isinstance(kind, str):
        if not any(key.startswith(_MESSAGES) for key in attributes):
            return None
        # The kind is set first, and so is what an SDK forgets first where there are too many attributes.
        kind = oi.LLM
    if kind.upper() == oi.LLM:
        models = (oi.RESPONSE_MODEL, oi.MODEL, oi.REQUEST_MODEL)
        return Said(
            Part.CHAT,
            model=next((model for name in models if (model := string_of(attributes.get(name)))), None),
            input=_EMPTY if _has_no_input(span) else _sure(span, _input(span)),
            output=_sure(span, _output(span)),
        )
    if kind.upper() == oi.TOOL:
        return _tool(span)
    if kind.upper() == oi.AGENT:
        names = (oi.AGENT_NAME, oi.GRAPH_NODE_NAME, oi.GRAPH_NODE_ID)
        return Said(
            Part.AGENT,
            agent=next((agent for name in names if (agent := string_of(attributes.get(name)))), None),
            input=_input(span),
            output=_output(span, unread=ABSENT),
        )
    return Said(Part.OTHER)


def _sure(span: Span, half: Half) -> Half:
    """What a model was told or said, if nothing of it can be missing.

    The messages are many attributes, and without them a value may tell the text and not the calls.
    """
    return TRUNCATED if span.dropped_attributes and half is not ABSENT else half


def _has_no_input(span: Span) -> bool:
    """Whether a model that spoke was told nothing: a flattened list without members leaves no attribute.

    Where inputs are hidden, `input.value` stays and says so. A span that lost its kind, or anything, may have
    lost them.
    """
    attributes = span.attributes
    if oi.KIND not in attributes or span.dropped_attributes:
        return False
    told = (oi.INPUT_MESSAGES, oi.PROMPTS, "input.", "gen_ai.")
    return any(name.startswith(oi.OUTPUT_MESSAGES) for name in attributes) and not any(
        name.startswith(told) for name in attributes
    )


def _input(span: Span) -> Half:
    """What the model, or the agent, was told: JSON that holds no messages is no message."""
    found = _listed(span, (oi.INPUT_MESSAGES, oi.PROMPTS, "prompt"), Role.USER)
    if found is not ABSENT:
        return found
    return _valued(span.attributes, oi.INPUT_VALUE, oi.INPUT_TYPE, Role.USER, ABSENT)


def _output(span: Span, unread: Half | None = None) -> Half:
    """What the model, or the agent, said; a model may answer in JSON."""
    found = _listed(span, (oi.OUTPUT_MESSAGES, oi.CHOICES, "completion"), Role.ASSISTANT)
    if found is not ABSENT:
        return found
    return _valued(span.attributes, oi.OUTPUT_VALUE, oi.OUTPUT_TYPE, Role.ASSISTANT, unread)


def _listed(span: Span, names: tuple[str, str, str], speaker: Role) -> Half:
    """The flattened messages, else the texts of a completion; absent where there are neither."""
    messages, texts, wrapper = names
    try:
        found = flattened(span, messages)
        if found is None:
            found = _texts(span, texts, wrapper)
        else:
            inner = [one.get("message", one) if is_object(one) else one for one in found]
            return flat_listed(inner, speaker)
    except Cut:
        return TRUNCATED
    return ABSENT if found is None else listed(found, speaker)


def _valued(
    attributes: Mapping[str, Value], name: str, type_name: str, speaker: Role, unread: Half | None
) -> Half:
    value = attributes.get(name)
    if isinstance(value, str) and value and attributes.get(type_name) == oi.PLAIN_TEXT:
        return spoken(value, speaker)
    return worded(value, speaker, unread)


def _texts(span: Span, prefix: str, wrapper: str) -> list[Value] | None:
    """The texts of a completion's prompts or choices."""
    found = flattened(span, prefix)
    if found is None:
        return None
    inner = [one.get(wrapper, one) if is_object(one) else one for one in found]
    return [one.get("text") if is_object(one) else one for one in inner]


def _tool(span: Span) -> Said:
    attributes = span.attributes
    tool = first_name(attributes, (oi.TOOL_NAME, oi.TOOL_CALL_NAME)) or string_of(span.name)
    args, asked = None, Content.ABSENT
    for name in (oi.INPUT_VALUE, oi.TOOL_CALL_ARGUMENTS, oi.TOOL_PARAMETERS):
        value = attributes.get(name)
        if value is not None and not (name == oi.TOOL_PARAMETERS and _is_schema(value)):
            args, asked = arguments(value)
            break
    answer = tool_result(attributes.get(oi.OUTPUT_VALUE), tool)
    call_id = first_name(attributes, (oi.TOOL_CALL_ID, oi.TOOL_ID)) or answer.call_id
    return Said(Part.TOOL, call=Call(call_id, tool, args, asked), result=answer)


def _is_schema(value: Value) -> bool:
    """Whether the parameters are those that the tool takes, not those that it was given."""
    told = parsed_if_nested(value)
    return is_object(told) and "properties" in told
