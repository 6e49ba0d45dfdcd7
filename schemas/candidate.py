"""Candidates: spans whose session is known, as the things that they say happened (session assembly, stage a).

Stage (a) makes them, in `schemas/sessions/resolve.py`; stage (b) makes events of them, in
`schemas/sessions/assemble.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .event import Content, Kind
from .span_content import INPUT, OUTPUT, SpanRole


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One thing that a span says happened, at `time` nanoseconds since the epoch.

    `place` is the message's index in the conversation that the span tells (outputs behind the input), None
    for a tool's run; `rank` the place in the message. `past` is whether it stands in the input up to its
    last assistant message, that is, has happened before. `key` names the message with all that stands
    before it, so that a call which tells it again can be known; `answered` is whether there is an assistant
    message before it.
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

    `digest` tells a span from another that was sent under its ids. `within` are the keys of the spans around
    this one that would tell what it tells: a model call's wrappers, its agent. `covered` is whether such a
    span inside this one was known already.
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

    @property
    def chars(self) -> int:
        """Return how many characters the texts have that it tells."""
        told = sum(len(text or "") for one in self.claims for text in _texts(one))
        return told + sum(len(name) + len(value) for name, value in self.attributes.items())

    @property
    def copy_order(self) -> tuple[object, ...]:
        """Which of several copies of a span goes first: the earlier, then by what they inherited."""
        named = ((one is None, one or "") for one in (self.agent, self.model, self.service))
        return self.start, self.end, *named, self.nested, self.covered, -len(self.claims), self._said

    @property
    def _said(self) -> str:
        """Return what copies of a span, which say the same, were told by others of its trace."""
        return "" if self.role is not SpanRole.TOOL else repr(self.claims)

    @property
    def halves(self) -> tuple[tuple[str, int], ...]:
        """Return the halves of a conversation with the times at which they are told.

        None where these are one time: nothing says which half a telling is of.
        """
        is_one = self.role is SpanRole.TOOL or self.start == self.end
        return () if is_one else ((INPUT, self.start), (OUTPUT, self.end))

    @property
    def span_key(self) -> str:
        """Return what tells this span from others, also from those that were sent under its ids."""
        return f"{self.trace_id}.{self.span_id}.{self.digest}"

    @property
    def key(self) -> str:
        """Return what `within` calls this span."""
        return role_key(self.role, self.trace_id, self.span_id)


def _texts(claim: Claim) -> tuple[str | None, ...]:
    return (claim.text, claim.tool, claim.call_id, claim.args, claim.result, claim.error)


def role_key(part: SpanRole, trace_id: str, span_id: str) -> str:
    """Return a span that plays this part: an agent's span and a model call's may have been sent under one id."""
    return f"{part}.{trace_id}.{span_id}"
