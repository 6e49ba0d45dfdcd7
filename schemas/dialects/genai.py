"""OpenTelemetry's conventions for generative AI, today's and earlier, and what frameworks add to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ..chat.message import string_of
from ..event import Content
from ..span import Span, SpanEvent, Value
from ..span_content import Role, SpanRole, ToolCall, ToolResult
from .names import frameworks as fw
from .names import openinference_0_1 as oi
from .names import opentelemetry_1_36 as old
from .names import opentelemetry_1_41 as otel
from .names import scopes
from .openllmetry import flat_half
from .parts import span_events
from .parts.chunks import joined
from .parts.message_parts import name_of
from .parts.messages import listed, worded
from .parts.reading import ABSENT, TRUNCATED, DialectReading, Half
from .parts.tool_runs import text_parts, tool_result, tool_run, unquoted
from .parts.values import arguments, is_object, parsed_if_nested, result

_ARGUMENTS = (
    *(otel.TOOL_ARGUMENTS, fw.ANY_AGENT_TOOL_ARGS, fw.PYDANTIC_TOOL_ARGUMENTS, fw.ADK_TOOL_ARGS),
    *(oi.INPUT_VALUE, fw.INPUT),
)
_RESULTS = (
    *(otel.TOOL_RESULT, fw.TOOL_OUTPUT, fw.ANY_AGENT_OUTPUT, fw.PYDANTIC_TOOL_RESPONSE),
    *(fw.ADK_TOOL_RESPONSE, oi.OUTPUT_VALUE, fw.OUTPUT),
)
"""Attributes of a tool's arguments and of its result, in order of preference."""


def read(span: Span) -> DialectReading | None:
    """Read a span by OpenTelemetry's conventions; return None where it does not follow them."""
    attributes = span.attributes
    operation = string_of(attributes.get(otel.OPERATION))
    if operation == otel.TOOL_OPERATION or (operation is None and otel.TOOL_NAME in attributes):
        is_run = attributes.get(otel.TOOL_NAME) != fw.MERGED_TOOLS
        return _tool(span) if is_run else DialectReading(SpanRole.OTHER)
    if operation in otel.OTHER_OPERATIONS or _is_other_run(attributes):
        return DialectReading(SpanRole.OTHER)
    if operation is None and not _has_any(attributes):
        return None
    is_agent = operation in otel.AGENT_OPERATIONS
    asked, answered = input_of(span), output_of(span)
    is_known = operation in otel.MODEL_OPERATIONS or operation == fw.ANY_AGENT_OPERATION
    if not (is_agent or is_known or asked is not ABSENT or answered is not ABSENT or _answered(attributes)):
        return DialectReading(SpanRole.OTHER)
    model = attributes.get(otel.RESPONSE_MODEL) or attributes.get(otel.REQUEST_MODEL)
    part = SpanRole.AGENT if is_agent else SpanRole.CHAT
    return DialectReading(part, model=string_of(model), input=asked, output=answered)


def input_of(span: Span) -> Half:
    """Return the model's input from the first place on the span that has it."""
    names = (otel.INPUT_MESSAGES, fw.ADK_REQUEST)
    return _half_of(span, names, span_events.input_of, (old.PROMPT, _INPUTS), Role.USER)


def output_of(span: Span) -> Half:
    """Return the model's output from the first place on the span that has it."""
    names = (otel.OUTPUT_MESSAGES, fw.ADK_RESPONSE)
    return _half_of(span, names, span_events.output_of, (old.COMPLETION, _OUTPUTS), Role.ASSISTANT)


def _half_of(
    span: Span,
    names: Sequence[str],
    of_events: Callable[[Sequence[SpanEvent], int], Half],
    older: tuple[str, Sequence[str]],
    speaker: Role,
) -> Half:
    """Return a half from its messages, else from events, else from attributes of older conventions.

    Where attributes are missing, the older ones may not have all messages.
    """
    attributes = span.attributes
    for name in names:
        if not _is_nothing(attributes, name):
            half = listed(attributes[name], speaker)
            return half if speaker is Role.USER else joined(attributes[name], half)
    events = span_events.all_of(span)
    found = of_events(events, span.dropped_events) if events else ABSENT
    if found is ABSENT:
        found = flat_half(span, older[0], speaker)
    if found is ABSENT:
        found = _first_worded(attributes, older[1], speaker)
        return TRUNCATED if span.dropped_attributes and found is not ABSENT else found
    return found


_INPUTS = (old.PROMPT, oi.INPUT_VALUE, fw.INPUT)
_OUTPUTS = (old.COMPLETION, fw.ANY_AGENT_OUTPUT, oi.OUTPUT_VALUE, fw.OUTPUT)


def _first_worded(attributes: Mapping[str, Value], names: Sequence[str], speaker: Role) -> Half:
    return next((worded(attributes[name], speaker) for name in names if name in attributes), ABSENT)


def _tool(span: Span) -> DialectReading:
    """Return a tool's run; span events may have what its attributes lack, as messages."""
    attributes = span.attributes
    if attributes.get(fw.LANGSMITH_KIND) == fw.LANGSMITH_TOOL:
        return _langsmith_tool(attributes)
    tool, call_id = string_of(attributes.get(otel.TOOL_NAME)), name_of(attributes.get(otel.TOOL_CALL_ID))
    args, asked = _value(attributes, _ARGUMENTS, arguments)
    body, given = _value(
        attributes, _RESULTS, _returned_parts if span.scope in scopes.TEXT_PARTS else returned
    )
    answer = ToolResult(call_id, tool, body, None, given)
    run = DialectReading(SpanRole.TOOL, call=ToolCall(call_id, tool, args, asked), result=answer)
    if not (span.events and run.has_gaps):
        return run
    call, answer = span_events.run_of(span.events)
    if call is not None:
        call = replace(call, call_id=call_id or call.call_id, tool=tool or call.tool)
    return run.filled(DialectReading(SpanRole.TOOL, call=call, result=answer))


def _is_other_run(attributes: Mapping[str, Value]) -> bool:
    """Return whether a span is LangSmith's of a chain or the like, with the messages of models inside it."""
    kind = attributes.get(fw.LANGSMITH_KIND)
    return kind is not None and kind not in (fw.LANGSMITH_MODEL, fw.LANGSMITH_TOOL)


def _langsmith_tool(attributes: Mapping[str, Value]) -> DialectReading:
    """Read a tool's run as LangSmith's SDK writes it."""
    tool, call_id = string_of(attributes.get(otel.TOOL_NAME)), name_of(attributes.get(otel.TOOL_CALL_ID))
    back = attributes.get(old.COMPLETION)
    opened = parsed_if_nested(back)
    if is_object(opened) and [*opened] == [fw.LANGSMITH_OUTPUT]:
        back = opened[fw.LANGSMITH_OUTPUT]
    return tool_run(tool, call_id, attributes.get(old.PROMPT), tool_result(back, tool))


def returned(value: Value) -> tuple[str | None, Content]:
    """Read a tool's result; text in quotes, as JSON has it, loses these."""
    if isinstance(value, str) and value[:1] == '"' and isinstance(opened := unquoted(value), str):
        return result(opened)
    return result(value)


def _returned_parts(value: Value) -> tuple[str | None, Content]:
    return result(text_parts(value))


def _value(
    attributes: Mapping[str, Value],
    names: tuple[str, ...],
    as_text: Callable[[Value], tuple[str | None, Content]],
) -> tuple[str | None, Content]:
    """Return the text of the first of the attributes that is there."""
    name = next((name for name in names if not _is_nothing(attributes, name)), None)
    return (None, Content.ABSENT) if name is None else as_text(attributes[name])


def _is_nothing(attributes: Mapping[str, Value], name: str) -> bool:
    """Return whether an attribute is missing, unreadable, or a placeholder for uncaptured content."""
    value = attributes.get(name)
    return value is None or (value == fw.ADK_NOTHING and name.startswith(fw.ADK_PREFIX))


def _has_any(attributes: Mapping[str, Value]) -> bool:
    """Return whether a span without an operation's name has attributes of a model."""
    return (
        old.PROMPT in attributes
        or f"{old.COMPLETION}.0.role" in attributes
        or fw.PYDANTIC_EVENTS in attributes
        or otel.INPUT_MESSAGES in attributes
        or otel.OUTPUT_MESSAGES in attributes
        or otel.REQUEST_MODEL in attributes
        or otel.RESPONSE_MODEL in attributes
    )


def _answered(attributes: Mapping[str, Value]) -> bool:
    """Return whether a model answered, in any operation."""
    return otel.FINISH_REASONS in attributes or otel.OUTPUT_TOKENS in attributes
