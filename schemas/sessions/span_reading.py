"""One span as it is read, apart from the other spans of its trace (session assembly, stage a)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from ..candidate import role_key
from ..chat.message import string_of
from ..dialects import read_content
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.names import scopes
from ..dialects.parts.log_record import LogRecord, events_of
from ..dialects.parts.log_records import joined
from ..span import Span, Value
from ..span_content import SpanContent, SpanRole, ToolCall
from .coverage import captured_halves

CLOCK_ERROR = 1_000_000
"""Nanoseconds by which a span may seem to outlive one that waits for it."""


_SPEAKING = (SpanRole.CHAT, SpanRole.AGENT)


_NEVER = 1 << 64


_NO_CALL = ToolCall(None, None, None)


class SpanReading(msgspec.Struct, frozen=True, rename={"content": "step", "has_claims": "tells"}):
    """A span as it came, with what it says; times in nanoseconds since the epoch (0: not said).

    `scope` is what is put before its session's id. `record_time` is when it was received, 0 where nobody
    wrote that down. `tells` is whether it tells of messages, calls or results. `origin` is the record that
    it came in, by offset and SHA-256; None where there are no records. `captured` are its `halves` where the
    content itself is no longer here. `beside` is whether its instrumentation puts agents beside each other,
    also where one works for a tool of another; `apart` is whether it has one span for each run of an agent.
    `coarse` is whether its clock may be wrong by `CLOCK_ERROR`. `is_joined` is whether log records have added
    to it.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    start: int
    end: int
    content: SpanContent
    scope: str = ""
    record_time: int = 0
    has_claims: bool = True
    origin: tuple[int, bytes] | None = None
    captured: tuple[str, ...] | None = None
    beside: bool = False
    coarse: bool = False
    is_joined: bool = False
    apart: bool = False

    @property
    def is_named(self) -> bool:
        """Return whether it says session and agent."""
        return self.content.session is not None and self.content.agent is not None

    @property
    def halves(self) -> tuple[str, ...]:
        """Return the halves of what it tells whose content was captured."""
        return captured_halves(self.content) if self.captured is None else self.captured

    @property
    def age(self) -> tuple[int | str, ...]:
        """Return what sorts earlier spans first, and tells all that differ apart."""
        return _age(self)

    @property
    def began(self) -> int:
        """When it began, as far as it says that itself."""
        return self.start or self.end

    @property
    def ended(self) -> int:
        """When it ended, as far as it says that itself."""
        return self.end or self.start

    @property
    def key(self) -> str:
        """Return what `Candidate.within` calls it."""
        return role_key(self.content.role, self.trace_id, self.span_id)

    def bare(self) -> SpanReading:
        """Return what others inherit from it, without what it tells."""
        content = self.content
        said = SpanContent(
            role=content.role,
            session=content.session,
            agent=content.agent,
            model=content.model,
            service=content.service,
            nested=content.nested,
            call=content.call,
            own_conversation=content.own_conversation,
            response_id=content.response_id,
            error=content.error,
            lacks=content.lacks,
        )
        return SpanReading(
            self.trace_id,
            self.span_id,
            self.parent_id,
            self.start,
            self.end,
            said,
            record_time=self.record_time,
            has_claims=self.has_claims,
            captured=self.halves,
            beside=self.beside,
            coarse=self.coarse,
            is_joined=self.is_joined,
            apart=self.apart,
        )


def read_span(
    span: Span, scope: Sequence[str] = (), record_time: int = 0, origin: tuple[int, bytes] | None = None
) -> SpanReading:
    """Return a span with what it says; `scope` are the resource attributes that go before its session's id."""
    content = read_content(span)
    is_coarse = any(string_of(span.resource.get(name)) in otel.JAVASCRIPT for name in otel.LANGUAGES)
    return SpanReading(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        start=span.start,
        end=_whole(span, content.role) if is_coarse else span.end,
        content=content,
        scope="".join(f"{_escaped(span.resource.get(name))}/" for name in scope),
        record_time=record_time,
        has_claims=_tells(content),
        origin=origin,
        beside=span.scope in scopes.AGENTS_BESIDE,
        coarse=is_coarse,
        apart=span.scope == scopes.HAYSTACK,
    )


def join_records(reading: SpanReading, records: Iterable[LogRecord], *, is_cut: bool = False) -> SpanReading:
    """Return a span that lacks content with what its log records add to it, in whatever order they came.

    `is_cut` is whether some of them are known to be missing.
    """
    events, missing = events_of(records)
    content = joined(reading.content, events, missing + is_cut, int(is_cut))
    return msgspec.structs.replace(reading, content=content, has_claims=_tells(content), is_joined=True)


def _whole(span: Span, part: SpanRole) -> int:
    """Return the end of a model's call or a tool's run, cut to a whole millisecond where the start is one.

    JavaScript's SDK cuts starts and adds exact durations. With both cut, nothing ends after what it led to
    began: no model's call after the tool that it asked for, and no tool after the call that has its result. A
    model's call within a millisecond keeps its end: by time its output is told apart from its input.
    """
    end = span.end // CLOCK_ERROR * CLOCK_ERROR
    least = {SpanRole.CHAT: span.start + 1, SpanRole.TOOL: span.start}.get(part)
    is_cut = span.start > 0 and span.start % CLOCK_ERROR == 0
    return end if is_cut and least is not None and least <= end else span.end


def _tells(content: SpanContent) -> bool:
    has_messages = bool(content.input or content.output)
    is_told = content.role is SpanRole.CHAT and (content.input is None or content.output is None)
    return content.role is SpanRole.TOOL or is_told or (content.role in _SPEAKING and has_messages)


def _escaped(value: Value) -> str:
    """Return a resource attribute so that no value can look like two; of one that is no name its digest."""
    text = "" if value is None else str(value)
    if text and string_of(text) is None:
        return f"%x{hashlib.blake2b(text.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
    return text.replace("%", "%25").replace("/", "%2F")


def _age(reading: SpanReading) -> tuple[int | str, ...]:
    """What is earlier: by start (one without any is last), then by span id, then by what others inherit."""
    content, call = reading.content, reading.content.call or _NO_CALL
    said = (
        content.session,
        content.agent,
        content.model,
        content.service,
        call.call_id,
        call.tool,
        call.args,
    )
    said += (content.response_id, str(content.own_conversation), content.error, *reading.halves)
    return (
        *(
            reading.start or reading.end or _NEVER,
            reading.span_id,
            reading.end,
            reading.parent_id or "",
            content.role,
        ),
        *("" if one is None else f"={one}" for one in (*said, content.nested)),
    )
