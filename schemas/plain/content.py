"""The content of plain spans as far as claims are made of it: a model's messages, a tool's run."""

from __future__ import annotations

from ..chat.message import string_of
from ..dialects.genai import returned
from ..dialects.names import frameworks as fw
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.parts.chunks import joined
from ..dialects.parts.message_parts import marked_if_cut, name_of
from ..dialects.parts.messages import listed, remembered
from ..dialects.parts.reading import ABSENT, EMPTY, own_output, worst
from ..dialects.parts.remembered import InputMemory
from ..dialects.parts.values import arguments, is_hidden
from ..dialects.span_facts import UNNAMED_ERROR
from ..event import Content
from ..span_content import Role, SpanContent, SpanRole, ToolCall, ToolResult
from .span import MODELS, PlainSpan

_CHAT, _TOOL, _USER, _ASSISTANT = SpanRole.CHAT, SpanRole.TOOL, Role.USER, Role.ASSISTANT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


def input_text(span: PlainSpan) -> str | None:
    """Return the text of the input of a model's call, as a list in JSON; None for another span."""
    texts = span.texts
    if texts.get(otel.OPERATION) not in MODELS:
        return None
    text = texts.get(otel.INPUT_MESSAGES)
    if text is None or text[:1] != "[" or is_hidden(text):
        return None
    has_output = otel.OUTPUT_MESSAGES in texts or (not span.has_more and error_of(span) is not None)
    return text if has_output else None


def chat_content(span: PlainSpan, asked: str, memory: InputMemory) -> SpanContent:
    """Return the content of a model's call with that input, as `read_claimed_content` does.

    `memory` is that of the input of an earlier call, and becomes that of this one.
    """
    error, written = error_of(span), span.texts.get(otel.OUTPUT_MESSAGES)
    first, second = remembered(asked, memory, _USER), EMPTY
    if written is not None:
        answered = own_output(_CHAT, joined(written, listed(written, _ASSISTANT)))
        second = answered if error is None or answered is not ABSENT else EMPTY
    return SpanContent(
        role=_CHAT,
        input=first.messages,
        output=second.messages,
        content=worst(first.content, second.content),
        error=error,
        attributes=span.attributes,
    )


def tool_content(span: PlainSpan) -> SpanContent | None:
    """Return the content of a tool's run, as `read_claimed_content` does; None for another span."""
    texts = span.texts
    given, answer = texts.get(otel.TOOL_ARGUMENTS), texts.get(otel.TOOL_RESULT)
    name = texts.get(otel.TOOL_NAME)
    is_run = texts.get(otel.OPERATION) == otel.TOOL_OPERATION and name != fw.MERGED_TOOLS
    if not is_run or given is None or (answer is None and span.has_more):
        return None
    error = error_of(span)
    tool, call_id = string_of(name), name_of(texts.get(otel.TOOL_CALL_ID))
    args, asked = arguments(given)
    body, content = (None, Content.ABSENT) if answer is None else returned(answer)
    if error is not None and asked is Content.CAPTURED and content is Content.ABSENT:
        content = Content.CAPTURED
    return SpanContent(
        role=_TOOL,
        output=None if error is None else EMPTY.messages,
        call=marked_if_cut(ToolCall(call_id, tool, args, asked)),
        result=ToolResult(call_id, tool, body, None, content),
        error=error,
        attributes=span.attributes,
    )


def error_of(span: PlainSpan) -> str | None:
    """Return the error type of a span, like `dialects.parts.values.error_of`."""
    if given := span.texts.get(otel.ERROR_TYPE):
        return name_of(given) or UNNAMED_ERROR
    return UNNAMED_ERROR if span.failed else None
