"""OpenInference's conventions: a kind for each span, messages flattened into attributes."""

from __future__ import annotations

from collections.abc import Mapping

from ..event import Content
from ..message import string_of
from ..semconv import openinference_0_1 as oi
from ..span import Span, Value
from ..step import Call, Part, Role
from .carried import arguments, is_object, parsed_if_nested
from .flat import flattened
from .messages import listed, spoken, worded
from .parts import first_name
from .runs import tool_result
from .said import ABSENT, Half, Said


def read(span: Span) -> Said | None:
    """What a span says by OpenInference's conventions; None where it does not speak by them."""
    attributes = span.attributes
    kind = attributes.get(oi.KIND)
    if not isinstance(kind, str):
        return None
    if kind.upper() == oi.LLM:
        models = (oi.RESPONSE_MODEL, oi.MODEL, oi.REQUEST_MODEL)
        return Said(
            Part.CHAT,
            model=next((model for name in models if (model := string_of(attributes.get(name)))), None),
            input=_input(attributes),
            output=_output(attributes),
        )
    if kind.upper() == oi.TOOL:
        return _tool(span)
    if kind.upper() == oi.AGENT:
        names = (oi.AGENT_NAME, oi.GRAPH_NODE_NAME, oi.GRAPH_NODE_ID)
        return Said(
            Part.AGENT,
            agent=next((agent for name in names if (agent := string_of(attributes.get(name)))), None),
            input=_input(attributes),
            output=_output(attributes, unread=ABSENT),
        )
    return Said(Part.OTHER)


def _input(attributes: Mapping[str, Value]) -> Half:
    """What the model, or the agent, was told: JSON that holds no messages is no message."""
    found = flattened(attributes, oi.INPUT_MESSAGES)
    if found is None:
        found = _texts(attributes, oi.PROMPTS, "prompt")
    if found is not None:
        return listed(found, Role.USER)
    return _valued(attributes, oi.INPUT_VALUE, oi.INPUT_TYPE, Role.USER, ABSENT)


def _output(attributes: Mapping[str, Value], unread: Half | None = None) -> Half:
    """What the model, or the agent, said; a model may answer in JSON."""
    found = flattened(attributes, oi.OUTPUT_MESSAGES)
    if found is None:
        found = _texts(attributes, oi.CHOICES, "completion")
    if found is not None:
        return listed(found, Role.ASSISTANT)
    return _valued(attributes, oi.OUTPUT_VALUE, oi.OUTPUT_TYPE, Role.ASSISTANT, unread)


def _valued(
    attributes: Mapping[str, Value], name: str, type_name: str, speaker: Role, unread: Half | None
) -> Half:
    value = attributes.get(name)
    if isinstance(value, str) and value and attributes.get(type_name) == oi.PLAIN_TEXT:
        return spoken(value, speaker)
    return worded(value, speaker, unread)


def _texts(attributes: Mapping[str, Value], prefix: str, wrapper: str) -> list[Value] | None:
    """The texts of a completion's prompts or choices."""
    found = flattened(attributes, prefix)
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
