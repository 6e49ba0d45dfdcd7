"""Dialects: from spans in any convention to their content, in one form.

Each module reads one convention. A span may follow several at once; later ones fill the gaps of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ..event import Content
from ..span import Span
from ..span_content import SpanContent, SpanRole, ToolResult
from . import genai, mastra, openinference, openllmetry, vercel
from . import langfuse as observations
from .names import scopes
from .parts.answer_ids import response_of
from .parts.message_parts import marked_if_cut
from .parts.reading import ABSENT, EMPTY, DialectReading, own_output, worst
from .parts.tool_runs import marked_if_failed, marked_in
from .session_key import session_of
from .span_facts import END, NESTED, agent_of, attributes_of, error_of, service_of, truth_of

_ALL = (vercel.read, openinference.read, openllmetry.read, observations.read, mastra.read, genai.read)
"""In order of preference: spans of the other conventions also have GenAI's attributes."""
_GENAI = (genai.read,)
MARKS = frozenset({*openllmetry.MARKS, *observations.MARKS, vercel.MARK, openinference.MARK, mastra.MARK})
"""Attributes of which a span of another convention has at least one, or else `openinference.MESSAGES`."""


def read_content(span: Span) -> SpanContent:
    """Return the content of a span, without anything inherited from other spans.

    Never raises for any span: what cannot be read is content that is absent or truncated.
    """
    found = _read(span)
    session, own_conversation = session_of(span.attributes)
    return replace(
        _claimed(span, found),
        session=session,
        agent=found.agent or agent_of(span.attributes),
        model=found.model,
        service=service_of(span.resource),
        nested=truth_of(span.attributes.get(NESTED)),
        own_conversation=own_conversation,
        response_id=response_of(span) if found.role is SpanRole.CHAT else None,
        lacks=found.lacks,
    )


def read_claimed_content(span: Span) -> SpanContent:
    """Return the content of a span as far as claims are made of it: without names, ids and `lacks`."""
    return _claimed(span, _read(span))


def _claimed(span: Span, found: DialectReading) -> SpanContent:
    error = error_of(span)
    is_whole = not (span.dropped_attributes or span.dropped_events)
    output = EMPTY if error is not None and found.output is ABSENT and is_whole else found.output
    return SpanContent(
        role=found.role,
        input=found.input.messages,
        output=output.messages,
        content=worst(found.input.content, output.content),
        call=None if found.call is None else marked_if_cut(found.call),
        result=_result(found, error) if is_whole else found.result,
        error=error,
        ends=truth_of(span.attributes.get(END)) is True,
        attributes=attributes_of(span),
    )


def _readers_of(span: Span) -> Sequence[Callable[[Span], DialectReading | None]]:
    """Return the readers of the conventions that a span may follow."""
    for name in span.attributes:
        if name in MARKS or name.startswith(openinference.MESSAGES):
            return _ALL
    return _GENAI


def _read(span: Span) -> DialectReading:
    reading: DialectReading | None = None
    for read in _readers_of(span):
        found = read(span)
        if found is not None:
            reading = found if reading is None else reading.filled(found)
            if not reading.has_gaps:
                break
    if reading is None:
        return DialectReading(SpanRole.OTHER)
    reading = replace(reading, output=own_output(reading.role, reading.output))
    if span.scope in scopes.ADK:
        result = None if reading.result is None else marked_if_failed(reading.result)
        reading = replace(reading, input=marked_in(reading.input), result=result)
    return reading


def _result(found: DialectReading, error: str | None) -> ToolResult | None:
    """Return a tool's result; a failed run has a captured, empty one where content is captured."""
    call, result = found.call, found.result
    failed = error is not None and call is not None and call.content is Content.CAPTURED
    if failed and result is not None and result.content is Content.ABSENT:
        return replace(result, content=Content.CAPTURED)
    return result
