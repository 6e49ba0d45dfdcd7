"""The Vercel AI SDK's telemetry: an outer span for each request, an inner one for each model call."""

from __future__ import annotations

from collections.abc import Mapping

from ..chat.message import string_of
from ..event import Content
from ..span import Span, Value
from ..span_content import Message, Role, SpanRole
from .names import opentelemetry_1_41 as otel
from .names import vercel_ai_6 as ai
from .parts.message_parts import Parts, call_of, first_text, name_of
from .parts.messages import listed
from .parts.reading import ABSENT, REDACTED, TRUNCATED, DialectReading, Half, worst
from .parts.tool_runs import tool_result, tool_run, unquoted
from .parts.values import REDACTIONS, is_object, result

MARK = ai.OPERATION
"""The attribute that each span of these conventions has."""


def read(span: Span) -> DialectReading | None:
    """Read a span of the AI SDK's telemetry; return None for any other span."""
    attributes = span.attributes
    operation = attributes.get(ai.OPERATION)
    if not isinstance(operation, str) or not operation.startswith(ai.PREFIX):
        return None
    if operation == ai.TOOL_OPERATION:
        return _tool(attributes)
    if not operation.startswith(ai.MODEL_OPERATIONS):
        return DialectReading(SpanRole.OTHER)
    models = (ai.RESPONSE_MODEL, otel.RESPONSE_MODEL, ai.MODEL, otel.REQUEST_MODEL)
    asked = next((name for name in (ai.PROMPT_MESSAGES, ai.PROMPT) if name in attributes), None)
    return DialectReading(
        SpanRole.CHAT,
        model=first_text(attributes, models),
        input=ABSENT if asked is None else listed(attributes[asked], Role.USER),
        output=_output(span),
    )


def _output(span: Span) -> Half:
    """Return the model's output: text, calls, and an object as JSON text."""
    attributes, parts = span.attributes, Parts()
    text = _first(attributes, (*ai.RESPONSE_TEXT, *ai.RESPONSE_OBJECT))
    calls = _first(attributes, ai.RESPONSE_CALLS)
    if text is None and calls is None:
        return ABSENT
    if span.dropped_attributes and (text is None or calls is None):
        return TRUNCATED
    if text is not None:
        body, parts.content = result(text)
        parts.texts = [] if body is None else [body]
    opened = unquoted(calls)
    if isinstance(opened, str):
        return REDACTED if opened in REDACTIONS else TRUNCATED
    for call in opened if isinstance(opened, list) else [opened] if opened else []:
        if is_object(call):
            parts.calls.append(call_of(call))
        else:
            parts.content = worst(parts.content, Content.TRUNCATED)
    return Half((Message(Role.ASSISTANT, parts.text, tuple(parts.calls), content=parts.content),))


def _tool(attributes: Mapping[str, Value]) -> DialectReading:
    tool = string_of(attributes.get(ai.TOOL_NAME))
    answer = tool_result(attributes.get(ai.TOOL_RESULT), tool)
    return tool_run(tool, name_of(attributes.get(ai.TOOL_ID)), attributes.get(ai.TOOL_ARGS), answer)


def _first(attributes: Mapping[str, Value], names: tuple[str, ...]) -> Value:
    return next((attributes[name] for name in names if name in attributes), None)
