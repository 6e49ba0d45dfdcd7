"""One span as it is read, apart from the other spans of its trace (session assembly, stage a)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from ..candidate import role_key
from ..chat.message import string_of
from ..claims.span_claims import ClaimMemory
from ..dialects import read_claimed_content, read_content
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.names import scopes
from ..dialects.names import vercel_ai_6 as ai
from ..dialects.parts.log_record import LogRecord, events_of
from ..dialects.parts.log_records import joined
from ..dialects.parts.remembered import InputMemory, RememberedText
from ..dialects.span_facts import service_of
from ..event import Content
from ..otlp.single import decode_single
from ..plain.content import chat_content, input_text, tool_content
from ..plain.span import PlainSpan
from ..span import Span, Value
from ..span_content import SpanContent, SpanRole, ToolCall
from ..time import NS_MAX
from .coverage import captured_halves
from .late_ends import whole_end

CONVERSATIONS_MAX = 4
"""Conversations of a session that are remembered."""
_INPUTS = (otel.INPUT_MESSAGES, ai.PROMPT_MESSAGES)
"""Attributes with a model's input as a list of messages in JSON."""
_NO_CALL = ToolCall(None, None, None)


class SpanReading(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    rename={"content": "step", "has_claims": "tells"},
):
    """A received span with its content; times in nanoseconds since the epoch (0: the span has none).

    `scope` precedes the session's id. `record_time` is when the span was received, 0 where it is not known.
    `has_claims` is whether the span has messages, calls or results. `origin` is the record that held it, by
    offset and SHA-256; None where there are no records. `captured` has the `halves` where the content
    itself has been dropped. `beside` is whether the instrumentation makes agents siblings, also where one
    works for a tool of another; `apart` is whether it makes one span for each run of an agent. `coarse` is
    whether the span's clock may be wrong (`late_ends`). `is_joined` is whether log records were joined.
    `request` is a request of the span alone in protobuf where its content has not been read.
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
    request: bytes = b""

    @property
    def is_named(self) -> bool:
        """Return whether the span itself names its session and agent."""
        return self.content.session is not None and self.content.agent is not None

    @property
    def halves(self) -> tuple[str, ...]:
        """Return the halves with captured content."""
        return captured_halves(self.content) if self.captured is None else self.captured

    @property
    def age(self) -> tuple[int | str, ...]:
        """Return a sort key: the start (spans without one are last), the id, then all that others inherit.

        Spans that differ in any of it have different keys.
        """
        content, call = self.content, self.content.call or _NO_CALL
        named = (content.session, content.agent, content.model, content.service)
        texts = (*named, call.call_id, call.tool, call.args, content.response_id)
        texts += (str(content.own_conversation), content.error, *self.halves)
        return (
            *(self.start or self.end or NS_MAX, self.span_id, self.end, self.parent_id or "", content.role),
            *("" if value is None else f"={value}" for value in (*texts, content.nested)),
        )

    @property
    def began(self) -> int:
        """Return the span's start, or its end where it has none."""
        return self.start or self.end

    @property
    def ended(self) -> int:
        """Return the span's end, or its start where it has none."""
        return self.end or self.start

    @property
    def key(self) -> str:
        """Return the key of the span in `Candidate.within`."""
        return role_key(self.content.role, self.trace_id, self.span_id)

    def bare(self) -> SpanReading:
        """Return the reading with only what other spans inherit from it."""
        if self.request and not self.content.ends:
            # Its content has not been read.
            return msgspec.structs.replace(self, scope="", origin=None, request=b"")
        content = msgspec.structs.replace(
            self.content,
            input=None,
            output=None,
            content=Content.ABSENT,
            result=None,
            ends=False,
            attributes={},
        )
        return msgspec.structs.replace(
            self, content=content, scope="", origin=None, captured=self.halves, request=b""
        )

    def whole(self) -> SpanReading:
        """Return the reading with the content of its span."""
        if not self.request:
            return self
        content = read_content(decode_single(self.request))
        return msgspec.structs.replace(self, content=content, captured=None, request=b"")


@dataclass(frozen=True, slots=True)
class Sender:
    """The facts that a resource's spans share: service, prefix of session ids, precision of the clock."""

    service: str | None
    prefix: str
    is_coarse: bool


class ConversationMemory(msgspec.Struct):
    """The last call of a conversation with a model, remembered: the text of its input, and its claims."""

    inputs: InputMemory = msgspec.field(default_factory=InputMemory)
    claims: ClaimMemory = msgspec.field(default_factory=ClaimMemory)


class SessionMemory(msgspec.Struct):
    """The last calls of a session's conversations, the latest first; a session may have several agents."""

    conversations: list[ConversationMemory] = []

    @property
    def chars(self) -> int:
        """Return the characters of the remembered inputs."""
        return sum([len(conversation.inputs.text) for conversation in self.conversations])

    def of(self, texts: Sequence[str]) -> ConversationMemory:
        """Return the memory of the call that a span's inputs repeat, else of the oldest one, or a new one."""
        found = None
        for conversation in self.conversations:
            begin = conversation.inputs.text
            for text in texts if begin else ():
                if text.startswith(begin):
                    found = conversation
                    break
            if found is not None:
                break
        if found is not None and texts and found is self.conversations[0]:
            return found
        if found is None and len(self.conversations) == CONVERSATIONS_MAX:
            found = self.conversations[-1]
        if found is None:
            found = ConversationMemory()
        elif texts:
            self.conversations = [each for each in self.conversations if each is not found]
        if texts:
            self.conversations.insert(0, found)
        return found


def read_span(
    span: Span,
    scope: Sequence[str] = (),
    record_time: int = 0,
    origin: tuple[int, bytes] | None = None,
) -> SpanReading:
    """Return a span with its content; the resource attributes named by `scope` precede the session's id."""
    content = read_content(span)
    sender = sender_of(span.resource, scope)
    return SpanReading(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        start=span.start,
        end=whole_end(span.start, span.end, content.role) if sender.is_coarse else span.end,
        content=content,
        scope=sender.prefix,
        record_time=record_time,
        has_claims=_has_claims(content),
        origin=origin,
        beside=span.scope in scopes.AGENTS_BESIDE,
        coarse=sender.is_coarse,
        apart=span.scope == scopes.HAYSTACK,
    )


def claimed_content(
    request: bytes, plain: PlainSpan | None, memory: SessionMemory | None = None
) -> tuple[SpanContent, ClaimMemory | None]:
    """Return what claims are made of in the only span of a request, and the memory for these claims.

    `plain` is the span where it is plain; without it the result is the same.
    """
    if plain is not None and (asked := input_text(plain)) is not None:
        of_call = ConversationMemory() if memory is None else memory.of([asked])
        content = chat_content(plain, asked, of_call.inputs)
        return content, None if memory is None else of_call.claims
    if plain is not None and (run := tool_content(plain)) is not None:
        return run, None
    span = decode_single(request)
    if memory is None:
        return read_claimed_content(span), None
    attributes = cast("dict[str, Value]", span.attributes)
    texts = {name: text for name in _INPUTS if isinstance(text := attributes.get(name), str)}
    remembered = memory.of([*texts.values()])
    for name, text in texts.items():
        attributes[name] = RememberedText(text, remembered.inputs)
    return read_claimed_content(span), remembered.claims


def join_records(reading: SpanReading, records: Iterable[LogRecord], *, is_cut: bool = False) -> SpanReading:
    """Return a span with the content that it lacks filled from its log records, which may come in any order.

    `is_cut` is whether some records are known to be missing.
    """
    events, missing = events_of(records)
    content = joined(reading.content, events, missing + is_cut, int(is_cut))
    return msgspec.structs.replace(reading, content=content, has_claims=_has_claims(content), is_joined=True)


def sender_of(resource: Mapping[str, Value], scope: Sequence[str]) -> Sender:
    """Return the sender of a resource's spans; the attributes named by `scope` are its prefix."""
    return Sender(
        service_of(resource),
        "".join(f"{_escaped(resource.get(name))}/" for name in scope),
        any(string_of(resource.get(name)) in otel.JAVASCRIPT for name in otel.LANGUAGES),
    )


def _has_claims(content: SpanContent) -> bool:
    """Return whether claims follow from the content; a model's half that was not captured is one."""
    if content.role is SpanRole.CHAT and (content.input is None or content.output is None):
        return True
    has_messages = bool(content.input or content.output)
    is_model_or_agent = content.role in (SpanRole.CHAT, SpanRole.AGENT)
    return content.role is SpanRole.TOOL or (is_model_or_agent and has_messages)


def _escaped(value: Value) -> str:
    """Return a resource attribute with `%` and `/` escaped, or its digest where it is no name."""
    text = "" if value is None else str(value)
    if text and string_of(text) is None:
        return f"%x{hashlib.blake2b(text.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
    return text.replace("%", "%25").replace("/", "%2F")
