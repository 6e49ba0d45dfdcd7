"""Candidates: spans with a known session, each with its claims (session assembly, stage a).

Stage (a) makes candidates in `schemas/sessions/resolve.py`; stage (b) makes events of them in
`schemas/sessions/assemble.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from .event import Content, Kind
from .span_content import INPUT, OUTPUT, SpanRole, ToolCall

_USER, _ASSISTANT = Kind.USER, Kind.ASSISTANT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


class Claim(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
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


class CallHistory(msgspec.Struct, frozen=True, gc=False):
    """The claims of the input of a model's call up to its last answer, as later calls repeat them.

    All are past. Their `time` is 0; that of the call's start is meant. `chars` is the number of characters in
    their texts.
    """

    claims: tuple[Claim, ...]
    chars: int


class Candidate(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"role": "part", "claims": "tellings"}
):
    """A span with its session and what it inherits; times in nanoseconds since the epoch.

    `digest` distinguishes spans sent with the same ids. `within` has the keys of the enclosing spans that
    make the same claims: a model call's wrappers, its agent. `covered` is whether stage (a) already knew an
    inner span that makes this one's claims.

    A candidate whose content nobody has read has no claims but a `request` of its span alone in protobuf.
    Then `without` are the halves of a conversation that other spans claim, `run` are a tool's call and error
    as other spans complete them, and `origin` is the record of the span, by offset and SHA-256.

    `history` has past claims that `claims` lacks; they come before these.
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
    attributes: Mapping[str, str] = {}
    request: bytes = b""
    without: tuple[str, ...] = ()
    run: tuple[ToolCall, str | None] | None = None
    origin: tuple[int, bytes] | None = None
    history: CallHistory | None = None

    @property
    def chars(self) -> int:
        """Return the number of characters in the texts of its claims and in its attributes."""
        chars = chars_of(self.claims)
        if self.history is not None:
            chars += self.history.chars
        return chars + _chars_of_attributes(self.attributes) if self.attributes else chars

    @property
    def has_claims(self) -> bool:
        """Return whether it has a claim."""
        return bool(self.claims) or self.history is not None

    @property
    def past_claims(self) -> list[Claim]:
        """Return the claims of its history at their time."""
        history = () if self.history is None else self.history.claims
        return [msgspec.structs.replace(claim, time=self.start) for claim in history]

    def joined(self) -> Candidate:
        """Return the candidate with its history among its claims."""
        if self.history is None:
            return self
        claims = (*self.past_claims, *self.claims)
        return msgspec.structs.replace(self, claims=claims, history=None)

    @property
    def copy_order(self) -> tuple[object, ...]:
        """Return the sort key by which the first of several copies of a span wins.

        Earlier copies come first, then the order is by what they inherited.
        """
        named = ((name is None, name or "") for name in (self.agent, self.model, self.service))
        # Copies of a tool's run may have taken different call ids or arguments from other spans.
        claims = repr(self.claims) if self.role is SpanRole.TOOL else ""
        count = len(self.claims) + (0 if self.history is None else len(self.history.claims))
        return self.start, self.end, *named, self.nested, self.covered, -count, claims

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


def chars_of(claims: Iterable[Claim]) -> int:
    """Return the number of characters in the texts of claims."""
    chars = 0
    for claim in claims:
        if (text := claim.text) is not None:
            chars += len(text)
        if (error := claim.error) is not None:
            chars += len(error)
        kind = claim.kind
        if kind is _USER or kind is _ASSISTANT:
            # A message is its text.
            continue
        if (tool := claim.tool) is not None:
            chars += len(tool)
        if (call_id := claim.call_id) is not None:
            chars += len(call_id)
        if (args := claim.args) is not None:
            chars += len(args)
        if (result := claim.result) is not None:
            chars += len(result)
    return chars


def _chars_of_attributes(attributes: Mapping[str, str]) -> int:
    """Return the number of characters in attributes; many candidates of a process share theirs."""
    known = _known_attributes.get(id(attributes))
    if known is not None and known[0] is attributes:
        return known[1]
    # Joined, they are counted at once.
    chars = len("".join(attributes)) + len("".join(attributes.values()))
    if len(_known_attributes) >= _KNOWN_MAX:
        _known_attributes.clear()
    _known_attributes[id(attributes)] = attributes, chars
    return chars


_KNOWN_MAX = 256
_known_attributes: dict[int, tuple[Mapping[str, str], int]] = {}
"""Attributes that were counted, by their identity, with their characters; they do not change."""


def role_key(role: SpanRole, trace_id: str, span_id: str) -> str:
    """Return a key of a span in its role: an agent's span and a model call's may have the same id."""
    return ".".join((role, trace_id, span_id))
