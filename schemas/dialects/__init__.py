"""Dialects: from a span as it was sent to what it says of a session, in words that no dialect owns.

Each module reads one convention. A span may speak several at once; what the first leaves out the others fill.
"""

from __future__ import annotations

from dataclasses import replace

from ..event import Content
from ..span import Span
from ..span_content import SpanContent, SpanRole, ToolResult
from . import genai, mastra, openinference, openllmetry, vercel
from . import langfuse as observations
from .names import scopes
from .parts.answer_ids import response_of
from .parts.message_parts import marked_if_cut
from .parts.reading import ABSENT, DialectReading, Half, own_output, worst
from .parts.tool_runs import marked_if_failed, marked_in
from .session_key import session_of
from .span_facts import END, NESTED, agent_of, attributes_of, error_of, service_of, truth_of

_READERS = (vercel.read, openinference.read, openllmetry.read, observations.read, mastra.read, genai.read)
"""Who is asked first: GenAI's names also stand on the spans of the others."""
_EMPTY = Half(())
"""What a model said that failed before it said anything."""


def read_content(span: Span) -> SpanContent:
    """Return what a span says of a session, itself; what it inherits from others is not here.

    Never raises for what a span may hold: what cannot be read is told as content that is not there.
    """
    said, error = _said(span), error_of(span)
    is_whole = not (span.dropped_attributes or span.dropped_events)
    session, own_conversation = session_of(span.attributes)
    output = _EMPTY if error is not None and said.output is ABSENT and is_whole else said.output
    return SpanContent(
        role=said.role,
        session=session,
        agent=said.agent or agent_of(span.attributes),
        model=said.model,
        service=service_of(span.resource),
        nested=truth_of(span.attributes.get(NESTED)),
        input=said.input.messages,
        output=output.messages,
        content=worst(said.input.content, output.content),
        call=None if said.call is None else marked_if_cut(said.call),
        result=_result(said, error) if is_whole else said.result,
        error=error,
        ends=truth_of(span.attributes.get(END)) is True,
        own_conversation=own_conversation,
        response_id=response_of(span) if said.role is SpanRole.CHAT else None,
        attributes=attributes_of(span),
        lacks=said.lacks,
    )


def _said(span: Span) -> DialectReading:
    said: DialectReading | None = None
    for read in _READERS:
        found = read(span)
        if found is not None:
            said = found if said is None else said.filled(found)
            if not said.has_gaps:
                break
    if said is None:
        return DialectReading(SpanRole.OTHER)
    said = replace(said, output=own_output(said.role, said.output))
    if span.scope in scopes.ADK:
        result = None if said.result is None else marked_if_failed(said.result)
        said = replace(said, input=marked_in(said.input), result=result)
    return said


def _result(said: DialectReading, error: str | None) -> ToolResult | None:
    """Return what a tool returned: one that failed where content is captured returned nothing."""
    call, result = said.call, said.result
    failed = error is not None and call is not None and call.content is Content.CAPTURED
    if failed and result is not None and result.content is Content.ABSENT:
        return replace(result, content=Content.CAPTURED)
    return result
