"""Mastra's spans: a generation has the conversation, its steps have the model's output of each call."""

from __future__ import annotations

from ..chat.message import string_of
from ..span import Span, Value
from ..span_content import Message, Role, SpanRole
from .names import mastra_1 as ma
from .names import opentelemetry_1_41 as otel
from .parts.message_parts import Parts, call_of
from .parts.messages import worded
from .parts.reading import ABSENT, TRUNCATED, DialectReading, Half
from .parts.values import is_object, parsed_if_nested

MARK = ma.TYPE
"""The attribute that each span of these conventions has."""


def read(span: Span) -> DialectReading | None:
    """Read an agent's run or a model's call; None for other spans, and those with standard messages."""
    attributes = span.attributes
    kind = attributes.get(ma.TYPE)
    if not isinstance(kind, str) or kind not in ma.OUTPUT or otel.INPUT_MESSAGES in attributes:
        return None
    if kind == ma.INFERENCE:
        return _inference(span)
    if ma.INPUT[kind] not in attributes and ma.OUTPUT[kind] not in attributes:
        return None
    is_agent = kind == ma.AGENT
    return DialectReading(
        SpanRole.AGENT if is_agent else SpanRole.CHAT,
        model=_model(attributes.get(ma.MODEL_METADATA)),
        input=ABSENT if kind == ma.STEP else worded(attributes.get(ma.INPUT[kind]), Role.USER, ABSENT),
        output=_output(attributes.get(ma.OUTPUT[kind])),
    )


def _inference(span: Span) -> DialectReading:
    """Read a model's call; its messages lack the tool calls."""
    reasons = span.attributes.get(otel.FINISH_REASONS)
    called = reasons is not None and ma.CALLED_TOOLS in str(reasons)
    model = span.attributes.get(otel.RESPONSE_MODEL) or span.attributes.get(otel.REQUEST_MODEL)
    return DialectReading(SpanRole.CHAT, model=string_of(model), output=TRUNCATED if called else ABSENT)


def _output(value: Value) -> Half:
    """Return the text and the calls of an object with both."""
    opened = parsed_if_nested(value)
    if not is_object(opened):
        return ABSENT if value is None else worded(value, Role.ASSISTANT)
    text, calls, parts = opened.get("text"), opened.get("toolCalls"), Parts()
    if isinstance(text, str) and (text or not calls):
        parts.add_text(text)
    parts.calls.extend(
        call_of(call) for call in (calls if isinstance(calls, list) else []) if is_object(call)
    )
    if text is None and not parts.calls:
        return ABSENT
    return Half((Message(Role.ASSISTANT, parts.text, tuple(parts.calls), content=parts.content),))


def _model(value: Value) -> str | None:
    opened = parsed_if_nested(value)
    return string_of(opened.get(ma.MODEL_ID)) if is_object(opened) else None
