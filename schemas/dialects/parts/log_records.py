"""Content in log records, read as the events of the span that they belong to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ...event import Content
from ...span import SpanEvent
from ...span_content import INPUT, OUTPUT, Message, SpanContent, SpanRole
from ..names import opentelemetry_1_41 as otel
from ..names import scopes
from . import span_events
from .reading import ABSENT, DialectReading, Half, own_output, worst
from .tool_runs import marked_in


def joined(
    content: SpanContent, events: Sequence[SpanEvent], prompts_missing: int, answers_missing: int
) -> SpanContent:
    """Return a span's content, completed from its log records as events.

    The span's content wins. The numbers are of records that are known to be missing, of those with the prompt
    and of those with the answer.
    """
    if content.role is SpanRole.TOOL:
        return _run(content, events)
    answer = own_output(content.role, span_events.output_of(events, answers_missing))
    # Exporters send in order: without the answer, which comes last, some of the prompt may be missing, too.
    is_cut_short = answer is ABSENT and OUTPUT in content.lacks and content.error is None
    prompt = span_events.input_of(events, prompts_missing + is_cut_short)
    if content.attributes.get(otel.SCOPE_NAME) in scopes.ADK:
        prompt = marked_in(prompt)
    first = _filled(content, INPUT, content.input, _captured(prompt))
    second = _filled(content, OUTPUT, content.output, _captured(answer))
    return msgspec.structs.replace(
        content, input=first.messages, output=second.messages, content=worst(first.content, second.content)
    )


def _run(content: SpanContent, events: Sequence[SpanEvent]) -> SpanContent:
    """Return a tool's run with the call and the result that it lacks."""
    call, answer = span_events.run_of(events)
    if call is not None and content.call is not None:
        call = replace(
            call, call_id=content.call.call_id or call.call_id, tool=content.call.tool or call.tool
        )
    present, recorded = (
        DialectReading(SpanRole.TOOL, call=content.call, result=content.result),
        DialectReading(SpanRole.TOOL, call=call, result=answer),
    )
    filled = present.filled(recorded)
    return msgspec.structs.replace(content, call=filled.call, result=filled.result)


def _filled(content: SpanContent, name: str, present: tuple[Message, ...] | None, recorded: Half) -> Half:
    """Return one half of a conversation from the span, or where it lacks that from its log records."""
    is_better = recorded.messages is not None or (present is None and recorded.content is not Content.ABSENT)
    if name in content.lacks and is_better:
        return recorded
    return Half(present, Content.CAPTURED if present is not None else content.content)


def _captured(half: Half) -> Half:
    """Return the half, without messages where all lack content, as where capture is off."""
    messages = half.messages or ()
    if not messages or any(map(_has_content, messages)):
        return half
    return Half(None, worst(*(message.content for message in messages)))


def _has_content(message: Message) -> bool:
    return message.content is Content.CAPTURED or bool(message.calls or message.results)
