"""Candidates: spans with a known session, each with its claims (session assembly, stage a).

Stage (a) makes candidates in `schemas/sessions/resolve.py`; stage (b) makes events of them in
`schemas/sessions/assemble.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .event import Content, Kind
from .span_content import INPUT, OUTPUT, SpanRole, ToolCall


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A span's statement that an event happened at `time` nanoseconds since the epoch.

    `place` is the message's index in the span's conversation (outputs follow the input), None for a tool's
    run; `rank` is the claim's index in the message. `past` is whether the message is in the input no later
    than its last assistant message, that is, precedes the call. `key` identifies the message together with
    all messages before it, so that another call with the same message is recognised; `answered` is whether an
    assistant message precedes it.
    """

    kind: Kind
    time: int
    text: str | None = None
    tool: str | None = None
    call_id: str | None = None
    args: str | None = None
    result: str | None = None
    error: str | None = None
    content: Content = Content.CAPTURED
    place: int | None = None
    rank: int = 0
    past: bool = False
    key: str = ""
    answered: bool = False


class Candidate(msgspec.Struct, frozen=True, rename={"role": "part", "claims": "tellings"}):
    """A span with its session and what it inherits; times in nanoseconds since the epoch.

    `digest` distinguishes spans sent with the same ids. `within` has the keys of the enclosing spans that
    make the same claims: a model call's wrappers, its agent. `covered` is whether stage (a) already knew an
    inner span that makes this one's claims.

    A candidate whose content nobody has read has no claims but a `request` of its span alone in protobuf.
    Then `without` are the halves of a conversation that other spans claim, `run` are a tool's call and error
    as other spans complete them, and `origin` is the record of the span, by offset and SHA-256.
    """

    session_id: str
    role: SpanRole
    start: int
    end: int
    claims: tuple[Claim, ...]
    trace_id: str = ""
    span_id: str = ""
    digest: str = ""
    failed: bool = False
    within: tuple[str, ...] = ()
    covered: bool = False
    agent: str | None = None
    model: str | None = None
    service: str | None = None
    nested: bool = False
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    request: bytes = b""
    without: tuple[str, ...] = ()
    run: tuple[ToolCall, str | None] | None = None
    origin: tuple[int, bytes] | None = None

    @property
    def chars(self) -> int:
        """Return the number of characters in the texts of its claims and in its attributes."""
        texts = sum(len(text or "") for claim in self.claims for text in _texts(claim))
        return texts + sum(len(name) + len(value) for name, value in self.attributes.items())

    @property
    def copy_order(self) -> tuple[object, ...]:
        """Return the sort key by which the first of several copies of a span wins.

        Earlier copies come first, then the order is by what they inherited.
        """
        named = ((name is None, name or "") for name in (self.agent, self.model, self.service))
        # Copies of a tool's run may have taken different call ids or arguments from other spans.
        claims = repr(self.claims) if self.role is SpanRole.TOOL else ""
        return self.start, self.end, *named, self.nested, self.covered, -len(self.claims), claims

    @property
    def halves(self) -> tuple[tuple[str, int], ...]:
        """Return the halves of a conversation, each with the time of its claims.

        Empty where both have the same time: then a claim's time does not show its half.
        """
        is_one = self.role is SpanRole.TOOL or self.start == self.end
        return () if is_one else ((INPUT, self.start), (OUTPUT, self.end))

    @property
    def span_key(self) -> str:
        """Return a key of this span, different from that of another span with the same ids."""
        return f"{self.trace_id}.{self.span_id}.{self.digest}"

    @property
    def key(self) -> str:
        """Return the key of this span in `within`."""
        return role_key(self.role, self.trace_id, self.span_id)


def _texts(claim: Claim) -> tuple[str | None, ...]:
    return (claim.text, claim.tool, claim.call_id, claim.args, claim.result, claim.error)


def role_key(role: SpanRole, trace_id: str, span_id: str) -> str:
    """Return a key of a span in its role: an agent's span and a model call's may have the same id."""
    return f"{role}.{trace_id}.{span_id}"
