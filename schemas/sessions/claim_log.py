"""What becomes of each reading of a session's spans: the event that it is, or why it was dropped.

A reading is one thing that one span says happened (`Claim`). Session assembly reports to `ClaimLog` where
somebody asks; it decides the same without it.
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
from .tool_use import ToolUse


class DropReason(StrEnum):
    """The reason for which a reading is no event of its own."""

    COPY = "copy"
    """The same span was sent again, or an archive holds the same row twice."""
    OTHER_SPAN = "other-span"
    """Another span of the same model call, agent or run of a tool is read instead, such as one inside it."""
    RETOLD_HISTORY = "retold-history"
    """It stands in the history of a later model call than the session's first."""
    REPEAT = "repeat"
    """A model call that retries another, or runs beside it, has the same message behind the same input."""
    PAIRED = "paired"
    """Another span claimed this call or result before: the model's call and the tool's run are one use."""
    STRAY_END = "stray-end"
    """It ends a session of which nothing is open."""
    CONFLICT = "conflict"
    """A row of an archive has the place of another event."""


@dataclass(frozen=True, slots=True)
class DroppedClaim:
    """A reading that is no event of its own. `of` is the id of the event that says the same, where known."""

    reason: DropReason
    claim: Claim
    candidate: Candidate
    of: str | None


_Reading: TypeAlias = tuple[str, Kind, int | None, int]
"""A reading's span, kind and place: no span has two with the same."""
_Found: TypeAlias = tuple[DropReason, Claim, str, Candidate, str | None]
"""A reading that was dropped, with its span's key and, where it is known by then, the event."""


@dataclass(slots=True)
class ClaimLog:
    """The readings of one session: which spans say each event, and what was dropped.

    Stage (a) reports what spans leave to others (`leave`), stage (b) what it judges and drops. `dropped` and
    `spans` are for when both are through.
    """

    session_id: str
    _found: list[_Found] = field(default_factory=list["_Found"])
    _known: dict[_Reading, str | None] = field(default_factory=dict[_Reading, "str | None"])
    _first: dict[str, str] = field(default_factory=dict[str, str])
    _messages: dict[str, str] = field(default_factory=dict[str, str])
    _uses: dict[tuple[int, Kind], tuple[ToolUse, str]] = field(
        default_factory=dict[tuple[int, Kind], tuple[ToolUse, str]]
    )
    _said: dict[tuple[str | None, ...], list[tuple[int, str]]] = field(
        default_factory=dict[tuple["str | None", ...], list[tuple[int, str]]]
    )
    _runs: dict[tuple[str, Kind], str] = field(default_factory=dict[tuple[str, Kind], str])

    def judge(
        self, event: Event, claim: Claim, key: str, candidate: Candidate, use: ToolUse | None = None
    ) -> None:
        """Note the event that a reading of the span `key` is."""
        self._known[_reading(key, claim)] = event.event_id
        self._first[event.event_id] = candidate.span_id
        self._note(event.event_id, claim, use)
        insort(self._said.setdefault(_content(claim), []), (claim.time, event.event_id))
        if event.tool != claim.tool or event.call_id != claim.call_id or event.args != claim.args:
            # What the event took of its call, others may say themselves.
            insort(self._said.setdefault(_content(event), []), (claim.time, event.event_id))
        if candidate.role is SpanRole.TOOL:
            for outer in candidate.within:
                self._runs[outer, claim.kind] = event.event_id

    def drop(
        self, reason: DropReason, claim: Claim, key: str, candidate: Candidate, use: ToolUse | None = None
    ) -> None:
        """Note that a reading of the span `key` says what an event says already."""
        if use is not None:
            _, of = self._uses.get((id(use), claim.kind), (use, None))
        else:
            of = self._messages.get(claim.key) if claim.key else None
        if of is not None:
            self._note(of, claim, use)
        self._known[_reading(key, claim)] = of
        self._found.append((reason, claim, key, candidate, of))

    def leave(self, reason: DropReason, key: str, candidate: Candidate, tellings: Iterable[Claim]) -> None:
        """Note the readings of a span that session assembly leaves to others, as far as nothing is known."""
        for claim in tellings:
            if reason is DropReason.COPY or _reading(key, claim) not in self._known:
                self._found.append((reason, claim, key, candidate, None))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was reported: the session was put together before."""
        return not (self._known or self._found)

    def dropped(self) -> list[DroppedClaim]:
        """Return what was dropped, by time, span and place."""
        found = sorted(self._found, key=_order)
        return [
            DroppedClaim(reason, claim, candidate, of or self._of(claim, key, candidate))
            for reason, claim, key, candidate, of in found
        ]

    def spans(self) -> dict[str, list[str]]:
        """Return by event id the spans that say it, the one that gave its fields first."""
        spans = {event_id: {span_id: None} for event_id, span_id in self._first.items()}
        for one in self.dropped():
            if one.of in spans:
                spans[one.of].setdefault(one.candidate.span_id)
        return {event_id: [span for span in some if span] for event_id, some in spans.items()}

    def _note(self, event_id: str, claim: Claim, use: ToolUse | None) -> None:
        if claim.key:
            self._messages[claim.key] = event_id
        if use is not None:
            # The use itself stays here, so that no other has its number.
            self._uses[id(use), claim.kind] = use, event_id

    def _of(self, claim: Claim, key: str, candidate: Candidate) -> str | None:
        """Return the event of a reading that assembly compared with none.

        That is the event of its copy, or of the run inside its own, else the one nearest in time of those
        that say the same.
        """
        known = self._known.get(_reading(key, claim)) or self._runs.get((candidate.key, claim.kind))
        said = self._said.get(_content(claim))
        if known is not None or said is None or claim.kind is Kind.END:
            return known
        place = bisect(said, claim.time, key=itemgetter(0))
        near = said[max(place - 1, 0) : place + 1]
        return min(near, key=lambda one: abs(one[0] - claim.time))[1]


def _order(found: _Found) -> tuple[int, str, int, Kind, int]:
    _, claim, key, _, _ = found
    return claim.time, key, claim.place or 0, claim.kind, claim.rank


def _reading(key: str, claim: Claim) -> _Reading:
    return key, claim.kind, claim.place, claim.rank


def _content(saying: Claim | Event) -> tuple[str | None, ...]:
    return saying.kind, *content_of(saying)
