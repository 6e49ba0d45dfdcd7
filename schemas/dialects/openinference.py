"""OpenInference's conventions: a kind for each span, messages flattened into attributes."""

from __future__ import annotations

from collections.abc import Mapping

from ..chat.message import string_of
from ..span import Span, Value
from ..span_content import Role, SpanRole, ToolCall
from . import haystack
from .names import openinference_0_1 as oi
from .names import scopes
from .parts.flattened import Cut, flattened
from .parts.framework_messages import messages_of
from .parts.message_parts import call_of, first_name, first_text
from .parts.messages import flat_listed, listed, spoken, worded
from .parts.reading import ABSENT, TRUNCATED, DialectReading, Half
from .parts.tool_runs import called_arguments, tool_result, tool_run
from .parts.values import REDACTIONS, is_object, parsed_if_nested

MARK = oi.KIND
MESSAGES = (oi.INPUT_MESSAGES + ".", oi.OUTPUT_MESSAGES + ".")
"""The attribute, and the prefixes of others, of which a span of these conventions has one."""

_EMPTY = Half(())


def read(span: Span) -> DialectReading | None:
    """Read a span by OpenInference's conventions; return None where it does not follow them."""
    attributes = span.attributes
    kind = attributes.get(oi.KIND)
    if not isinstance(kind, str):
        if not any(key.startswith(MESSAGES) for key in attributes):
            return None
        # The kind is set first, so an SDK drops it first where there are too many attributes.
        kind = oi.LLM
    if kind.upper() == oi.LLM:
        if not _is_model_call(span):
            return DialectReading(SpanRole.OTHER)
        models = (oi.RESPONSE_MODEL, oi.MODEL, oi.REQUEST_MODEL)
        return DialectReading(
            SpanRole.CHAT,
            model=first_text(attributes, models),
            input=_EMPTY if _has_no_input(span) else _sure(span, _input(span)),
            output=_sure(span, _output(span)),
        )
    if kind.upper() == oi.TOOL or (kind.upper() == oi.AGENT and oi.TOOL_NAME in attributes):
        # LangChain's instrumentation calls a tool with `agent` in its name an agent.
        return DialectReading(SpanRole.OTHER) if _is_hand_off(span) else _tool(span)
    if kind.upper() == oi.AGENT:
        names = (oi.AGENT_NAME, oi.GRAPH_NODE_NAME, oi.GRAPH_NODE_ID)
        return DialectReading(
            SpanRole.AGENT,
            agent=first_text(attributes, names),
            input=_input(span),
            output=_output(span, unread=ABSENT),
        )
    if span.scope == scopes.DSPY and span.name in scopes.DSPY_AGENTS:
        return DialectReading(SpanRole.AGENT)
    if span.scope == scopes.HAYSTACK and span.name == haystack.AGENT:
        return haystack.read_agent(span)
    return DialectReading(SpanRole.OTHER, call=_started(span))


def _is_model_call(span: Span) -> bool:
    """Return whether a span of a model is the call of one, not what prepares or wraps it (LlamaIndex)."""
    method = span.name.rpartition(".")[2]
    return span.scope != scopes.LLAMA_INDEX or not span.name or method in scopes.LLAMA_INDEX_CALLS


def _is_hand_off(span: Span) -> bool:
    """Return whether a span is the Agents SDK's of a hand-off: the model called a tool, and none was run."""
    return span.scope == scopes.OPENAI_AGENTS and oi.TOOL_NAME not in span.attributes


def _started(span: Span) -> ToolCall | None:
    """Return the call that a LangGraph node runs, with the id that the tool's span lacks."""
    if span.scope != scopes.LANGCHAIN:
        return None
    opened = parsed_if_nested(span.attributes.get(oi.INPUT_VALUE))
    only = opened[0] if isinstance(opened, list) and len(opened) == 1 else opened
    call = only.get("tool_call", only) if is_object(only) else None
    is_call = is_object(call) and call.get("type") == "tool_call" and "args" in call
    return call_of(call) if is_call and is_object(call) else None


def _sure(span: Span, half: Half) -> Half:
    """Return a half of a model's conversation, if nothing of it can be missing.

    The messages are many attributes; without them a value may have the text and not the calls.
    """
    return TRUNCATED if span.dropped_attributes and half is not ABSENT else half


def _has_no_input(span: Span) -> bool:
    """Return whether a model that answered had no input: a flattened empty list leaves no attribute.

    Where inputs are hidden, `input.value` remains with a placeholder. A span that lost its kind, or any
    attribute, may have lost its input.
    """
    attributes = span.attributes
    if oi.KIND not in attributes or span.dropped_attributes:
        return False
    inputs = (oi.INPUT_MESSAGES, oi.PROMPTS, "input.", "gen_ai.")
    return any(name.startswith(oi.OUTPUT_MESSAGES) for name in attributes) and not any(
        name.startswith(inputs) for name in attributes
    )


def _input(span: Span) -> Half:
    """Return the input of the model or the agent; JSON without messages is no message."""
    if span.scope == scopes.HAYSTACK and (found := haystack.input_of(span)) is not ABSENT:
        return found
    found = _listed(span, (oi.INPUT_MESSAGES, oi.PROMPTS, "prompt"), Role.USER)
    if found is not ABSENT:
        return found
    return valued(span.attributes, oi.INPUT_VALUE, oi.INPUT_TYPE, Role.USER, ABSENT)


def _output(span: Span, unread: Half | None = None) -> Half:
    """Return the output of the model or the agent.

    A model may answer in JSON. A value with the type JSON was serialized by a program, as a response or a
    request, and only the messages in it count.
    """
    if span.scope == scopes.HAYSTACK and (found := haystack.output_of(span)) is not ABSENT:
        return found
    if span.attributes.get(oi.OUTPUT_TYPE) == oi.JSON:
        unread = ABSENT
    found = _listed(span, (oi.OUTPUT_MESSAGES, oi.CHOICES, "completion"), Role.ASSISTANT)
    if found is not ABSENT:
        return found
    return valued(span.attributes, oi.OUTPUT_VALUE, oi.OUTPUT_TYPE, Role.ASSISTANT, unread)


def _listed(span: Span, names: tuple[str, str, str], speaker: Role) -> Half:
    """Return the flattened messages, else the texts of a completion; absent where there are neither."""
    messages, texts, wrapper = names
    try:
        found = flattened(span, messages)
        if found is None:
            found = _texts(span, texts, wrapper)
        else:
            return flat_listed(messages_of(span, found), speaker)
    except Cut:
        return TRUNCATED
    return ABSENT if found is None else listed(found, speaker)


def valued(
    attributes: Mapping[str, Value], name: str, type_name: str, speaker: Role, unread: Half | None
) -> Half:
    """Return a half from a value of a type: its messages, else its text; JSON without any is `unread`."""
    value = attributes.get(name)
    if isinstance(value, str) and value and attributes.get(type_name) == oi.PLAIN_TEXT:
        return spoken(value, speaker)
    return worded(value, speaker, unread)


def _texts(span: Span, prefix: str, wrapper: str) -> list[Value] | None:
    """Return the texts of a completion's prompts or choices."""
    found = flattened(span, prefix)
    if found is None:
        return None
    inner = [item.get(wrapper, item) if is_object(item) else item for item in found]
    return [item.get("text") if is_object(item) else item for item in inner]


def _tool(span: Span) -> DialectReading:
    attributes = span.attributes
    tool = first_name(attributes, (oi.TOOL_NAME, oi.TOOL_CALL_NAME)) or string_of(_tool_named(span))
    call_id = first_name(attributes, (oi.TOOL_CALL_ID, oi.TOOL_ID))
    return tool_run(tool, call_id, _given(span), tool_result(attributes.get(oi.OUTPUT_VALUE), tool))


def _tool_named(span: Span) -> str:
    """Return the name of a tool's span, without the method that DSPy's integration appends."""
    name, method, _ = span.name.rpartition(".")
    is_method = span.scope == scopes.DSPY and span.name.endswith(scopes.DSPY_METHODS)
    return name if is_method and method else span.name


def _given(span: Span) -> Value:
    """Return a tool's arguments; None where they are missing.

    Some instrumentations write the call of the function that runs it. LangChain's writes a single argument
    without its name, which then is not known.
    """
    attributes = span.attributes
    value, parameters = attributes.get(oi.INPUT_VALUE), attributes.get(oi.TOOL_PARAMETERS)
    if value is None:
        value = attributes.get(oi.TOOL_CALL_ARGUMENTS)
        if value is None and not _is_schema(parameters):
            value = parameters
    elif span.scope == scopes.LANGCHAIN and value not in REDACTIONS:
        value = value if is_object(parsed_if_nested(value)) else None
    if span.scope in scopes.FUNCTIONS_CALLED:
        schema = parsed_if_nested(parameters)
        names = schema.get("properties", schema) if is_object(schema) else {}
        return called_arguments(value, [*names] if is_object(names) else [])
    return value


def _is_schema(value: Value) -> bool:
    """Return whether the parameters are the tool's schema, not its arguments."""
    opened = parsed_if_nested(value)
    return is_object(opened) and "properties" in opened
