"""OpenLLMetry's conventions: workflows and their parts, and messages flattened into attributes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat

from ..chat.message import string_of
from ..span import Span, Value
from ..span_content import Message, Role, SpanRole
from .names import openllmetry_0_4 as tl
from .names import opentelemetry_1_41 as otel
from .names import scopes
from .parts.flattened import Cut, flattened
from .parts.message_parts import call_of, first_text, marked_if_cut
from .parts.messages import flat_listed, listed, spoken, unforged, worded
from .parts.reading import ABSENT, TRUNCATED, DialectReading, Half
from .parts.tool_runs import tool_result, tool_run, unquoted, unwrapped_arguments
from .parts.values import is_object, parsed_if_nested

MARKS = (tl.KIND, tl.REQUEST_TYPE)
"""Attributes of which a span of these conventions has one."""


def read(span: Span) -> DialectReading | None:
    """Read a span by OpenLLMetry's conventions; return None where it does not follow them."""
    attributes = span.attributes
    kind = attributes.get(tl.KIND)
    if kind == tl.TOOL:
        return tool_of(attributes)
    if kind == tl.AGENT:
        return DialectReading(
            SpanRole.AGENT,
            agent=first_text(attributes, (otel.AGENT_NAME, tl.ENTITY_NAME)),
            input=entity_half(attributes.get(tl.ENTITY_INPUT), Role.USER),
            output=entity_half(attributes.get(tl.ENTITY_OUTPUT), Role.ASSISTANT),
        )
    request = attributes.get(tl.REQUEST_TYPE)
    if not isinstance(request, str):
        return None
    if request not in tl.MODEL_REQUESTS:
        return DialectReading(SpanRole.OTHER)
    models = (tl.RESPONSE_MODEL, tl.OLD_RESPONSE_MODEL, tl.REQUEST_MODEL, tl.OLD_REQUEST_MODEL)
    return DialectReading(
        SpanRole.CHAT,
        model=first_text(attributes, models),
        input=_model_half(span, (tl.PROMPT, tl.OLD_PROMPT), Role.USER),
        output=_litellm(span) if span.scope == scopes.LITELLM else _output(span),
    )


def flat_half(span: Span, prefix: str, speaker: Role) -> Half:
    """Return the messages that were flattened under a prefix; absent where there are none."""
    try:
        found = flattened(span, prefix)
    except Cut:
        return TRUNCATED
    if found is None:
        return ABSENT
    opened = [_opened(message) for message in found]
    if any(new is not message for message, new in zip(found, opened, strict=True)):
        opened = list(unforged(zip(found, opened, repeat(speaker))))
    return flat_listed(opened, speaker)


def _output(span: Span) -> Half:
    return _model_half(span, (tl.COMPLETION, tl.OLD_COMPLETION), Role.ASSISTANT)


def _litellm(span: Span) -> Half:
    """Read LiteLLM's answer, which has calls in place of choices, and text where OpenTelemetry has it."""
    answer = listed(span.attributes.get(otel.OUTPUT_MESSAGES), Role.ASSISTANT)
    try:
        found = flattened(span, tl.COMPLETION) or []
    except Cut:
        return TRUNCATED
    calls = [call_of(item) for item in found if is_object(item) and is_object(item.get("function_call"))]
    if not calls:
        return _output(span) if answer is ABSENT else answer
    texts = [message.text for message in answer.messages or () if message.text]
    texts += [text for item in found if is_object(item) and isinstance(text := item.get("content"), str)]
    return Half((Message(Role.ASSISTANT, texts[0] if texts else None, tuple(map(marked_if_cut, calls))),))


def _model_half(span: Span, prefixes: tuple[str, ...], speaker: Role) -> Half:
    halves = (flat_half(span, prefix, speaker) for prefix in prefixes)
    return next((half for half in halves if half is not ABSENT), ABSENT)


def _opened(message: Value) -> Value:
    """Return a message with its content, a list of parts as JSON text, parsed."""
    if not is_object(message):
        return message
    content = parsed_if_nested(message.get("content"))
    is_parts = isinstance(content, list) and all(is_object(part) and "type" in part for part in content)
    return {**message, "content": content} if is_parts and content else message


def tool_of(attributes: Mapping[str, Value]) -> DialectReading:
    """Return a tool's run."""
    tool = string_of(attributes.get(tl.ENTITY_NAME))
    given = unwrapped_arguments(attributes.get(tl.ENTITY_INPUT))
    return tool_run(tool, None, given, tool_result(attributes.get(tl.ENTITY_OUTPUT), tool))


def entity_half(value: Value, speaker: Role) -> Half:
    """Return an agent's input or output, where that is a message or just text."""
    opened = unquoted(value)
    if (
        is_object(opened)
        and is_object(kwargs := opened.get("kwargs"))
        and isinstance(args := opened.get("args"), list)
    ):
        # These are the arguments of a function call.
        opened = args[0] if len(args) == 1 and not kwargs else kwargs
    if isinstance(opened, str):
        # It was parsed from JSON once; text that still looks like JSON is an author's.
        return spoken(opened, speaker) if opened else ABSENT
    return worded(opened, speaker, unread=ABSENT)
