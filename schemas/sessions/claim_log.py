"""The outcome of each claim of a session's spans: the event that it is, or the reason it was dropped.

Session assembly reports to a `ClaimLog` where the caller passes one; its decisions do not depend on it.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import TypeAlias

from ..candidate import Candidate, Claim
from ..event import Event, Kind, content_of
from ..span_content import SpanRole
from .memory.tool_use import ToolUse


class DropReason(StrEnum):
    """The reason for which a claim is no event of its own."""

    COPY = "copy"
    """The same span was sent again, or an archive holds the same row twice."""
    OTHER_SPAN = "other-span"
    """Another span of the same model call, agent or run of a tool is read instead, such as one inside it."""
    RETOLD_HISTORY = "retold-history"
    """It is in the history of a later model call than the session's first."""
    REPEAT = "repeat"
    """A model call that retries another, or runs beside it, has the same message behind the same input."""
    PAIRED = "paired"
    """Another span claimed this call or result before: the model's call and the tool's run are one use."""
    STRAY_END = "stray-end"
    """It ends a session without an open occurrence."""
    CONFLICT = "conflict"
    """A row of an archive has the place of another event."""


@dataclass(frozen=True, slots=True)
class DroppedClaim:
    """A claim that is no event of its own. `of` is the id of the event with the same content, where known."""

    reason: DropReason
    claim: Claim
    candidate: Candidate
    of: str | None


_ClaimKey: TypeAlias = tuple[str, Kind, int | None, int]
"""A claim's span, kind and place: no span has two with the same."""
_FoundClaim: TypeAlias = tuple[DropReason, Claim, str, Candidate, str | None]
"""A dropped claim, with its span's key and, where it is known by then, the event."""


@dataclass(slots=True)
class ClaimLog:
    """The claims of one session: the spans of each event, and the dropped claims.

    Stage (a) reports the claims that it omits (`leave`), stage (b) those that it judges and drops. The caller
    reads `dropped` and `spans` after both.
    """

    session_id: str
    _found: list[_FoundClaim] = field(default_factory=list["_FoundClaim"])
    _known: dict[_ClaimKey, str | None] = field(default_factory=dict[_ClaimKey, "str | None"])
    _first: dict[str, str] = field(default_factory=dict[str, str])
    _messages: dict[str, str] = field(default_factory=dict[str, str])
    _uses: dict[tuple[int, Kind], tuple[ToolUse, str]] = field(
        default_factory=dict[tuple[int, Kind], tuple[ToolUse, str]]
    )
    _equals: dict[tuple[str | None, ...], list[tuple[int, str]]] = field(
        default_factory=dict[tuple["str | None", ...], list[tuple[int, str]]]
    )
    _runs: dict[tuple[str, Kind], str] = field(default_factory=dict[tuple[str, Kind], str])

    def judge(
        self, event: Event, claim: Claim, key: str, candidate: Candidate, use: ToolUse | None = None
    ) -> None:
        """Note the event that a claim of the span `key` is."""
        self._known[_claim_key(key, claim)] = event.event_id
        self._first[event.event_id] = candidate.span_id
        self._note(event.event_id, claim, use)
        insort(self._equals.setdefault(_content(claim), []), (claim.time, event.event_id))
        if event.tool != claim.tool or event.call_id != claim.call_id or event.args != claim.args:
            # Other spans may state themselves what the event took from its call.
            insort(self._equals.setdefault(_content(event), []), (claim.time, event.event_id))
        if candidate.role is SpanRole.TOOL:
            for outer in candidate.within:
                self._runs[outer, claim.kind] = event.event_id

    def drop(
        self, reason: DropReason, claim: Claim, key: str, candidate: Candidate, use: ToolUse | None = None
    ) -> None:
        """Note that a claim of the span `key` repeats an event."""
        if use is not None:
            _, of = self._uses.get((id(use), claim.kind), (use, None))
        else:
            of = self._messages.get(claim.key) if claim.key else None
        if of is not None:
            self._note(of, claim, use)
        self._known[_claim_key(key, claim)] = of
        self._found.append((reason, claim, key, candidate, of))

    def leave(self, reason: DropReason, key: str, candidate: Candidate, claims: Iterable[Claim]) -> None:
        """Note the claims of a span that session assembly omits, except those that it judged or dropped."""
        for claim in claims:
            if reason is DropReason.COPY or _claim_key(key, claim) not in self._known:
                self._found.append((reason, claim, key, candidate, None))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was reported, as for a session that was assembled before."""
        return not (self._known or self._found)

    def dropped(self) -> list[DroppedClaim]:
        """Return the dropped claims by time, span and place."""
        found = sorted(self._found, key=_order)
        return [
            DroppedClaim(reason, claim, candidate, of or self._of(claim, key, candidate))
            for reason, claim, key, candidate, of in found
        ]

    def spans(self) -> dict[str, list[str]]:
        """Return the ids of each event's spans by event id, the one with its fields first."""
        spans = {event_id: {span_id: None} for event_id, span_id in self._first.items()}
        for dropped in self.dropped():
            if dropped.of in spans:
                spans[dropped.of].setdefault(dropped.candidate.span_id)
        return {event_id: [span_id for span_id in ids if span_id] for event_id, ids in spans.items()}

    def _note(self, event_id: str, claim: Claim, use: ToolUse | None) -> None:
        if claim.key:
            self._messages[claim.key] = event_id
        if use is not None:
            # The reference to the use prevents another one with its id().
            self._uses[id(use), claim.kind] = use, event_id

    def _of(self, claim: Claim, key: str, candidate: Candidate) -> str | None:
        """Return the event of a claim that assembly compared with no event.

        That is the event of its copy, or of the run inside its own, else of the events with equal content the
        one nearest in time.
        """
        known = self._known.get(_claim_key(key, claim)) or self._runs.get((candidate.key, claim.kind))
        equals = self._equals.get(_content(claim))
        if known is not None or equals is None or claim.kind is Kind.END:
            return known
        place = bisect(equals, claim.time, key=itemgetter(0))
        near = equals[max(place - 1, 0) : place + 1]
        return min(near, key=lambda timed: abs(timed[0] - claim.time))[1]


def _order(found: _FoundClaim) -> tuple[int, str, int, Kind, int]:
    _, claim, key, _, _ = found
    return claim.time, key, claim.place or 0, claim.kind, claim.rank


def _claim_key(key: str, claim: Claim) -> _ClaimKey:
    return key, claim.kind, claim.place, claim.rank


def _content(event: Claim | Event) -> tuple[str | None, ...]:
    return event.kind, *content_of(event)
