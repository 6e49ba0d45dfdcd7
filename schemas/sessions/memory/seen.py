"""The claims that a session has seen, by which repeated ones are recognised (session assembly, stage b)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ...candidate import Candidate, Claim
from ...event import Content, Kind
from ...span_content import SpanRole
from .claimed_text import is_whole
from .seen_page import RECENT_MAX, SeenCall, SeenEntries, SeenMessage, SeenPage, needed, paged
from .tool_use import ToolUse, claimed_use, is_item, is_qualified, join, matching_use

WAITING_MAX = 1_000
"""Tool uses of an occurrence that may still get claims, and open calls; beyond it the oldest is dropped."""

REMEMBERED_MAX = 50_000
"""Spans, messages, open calls and distinct events that are remembered of an occurrence, of each so many.

Beyond it a repeated claim counts as new; the occurrence's rules are unjudged by then
(`rules.engine.kernel.EVENTS_MAX`). Closed occurrences are forgotten beyond the same number of entries in all,
and beyond `CLOSED_MAX` occurrences.
"""
CLOSED_MAX = 1_000
CARRIED_CHARS_MAX = 30_000
"""Characters of a call's arguments that its result carries: an event then fits where its span did."""
NAME_CHARS_MAX = 1_000
"""Characters of a call's id and tool together beyond which the call is not remembered for its result."""
OF_AGENTS = f"{SpanRole.AGENT}."
"""The begin of the keys in `Candidate.within` of agents and of their halves."""
_CALL, _RESULT = Kind.TOOL_CALL, Kind.TOOL_RESULT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


class SeenCounts(msgspec.Struct, array_like=True):
    """The numbers of the entries of an occurrence that are remembered for as long as it is."""

    spans: int = 0
    within: int = 0
    messages: int = 0
    equals: int = 0

    @property
    def sum(self) -> int:
        """Return the number of all of them."""
        return self.spans + self.within + self.messages + self.equals


@dataclass(slots=True, eq=False)
class SeenClaims:
    """The claims that an occurrence of a session has seen; `closed` is when it closed, None while open.

    `recent` has the entries since the session's last page, and `older` those in its pages, the newest first.
    `calls` are the open calls by id, and `uses` the tool uses that may still get claims, by number, each in
    the order in which they came.
    """

    number: int = 0
    closed: int | None = None
    counts: SeenCounts = field(default_factory=SeenCounts)
    recent: SeenEntries = field(default_factory=SeenEntries)
    older: Sequence[SeenEntries] = ()
    calls: dict[str, SeenCall] = field(default_factory=dict[str, SeenCall])
    uses: dict[int, ToolUse] = field(default_factory=dict[int, ToolUse])
    covers_calls: bool = field(default=False, init=False)
    """True where one of its spans covers others than agents."""

    def __post_init__(self) -> None:
        """Take over the calls and the uses of the entries."""
        self.covers_calls = not all(
            key.startswith(OF_AGENTS) for names in self.covered_names for key in names
        )
        calls: dict[str, SeenCall | None] = {}
        uses: dict[int, ToolUse | None] = {}
        for entries in (*reversed(self.older), self.recent):
            calls |= entries.calls
            uses |= entries.uses
        known = [(call_id, call) for call_id, call in calls.items() if call is not None]
        self.calls = dict(sorted(known, key=lambda pair: pair[1].number))
        self.uses = {number: use for number, use in sorted(uses.items()) if use is not None}

    def __eq__(self, other: object) -> bool:
        """Return whether another one has the same entries; which of them are in pages does not matter."""
        if not isinstance(other, SeenClaims):
            return False
        both = [(each.number, each.closed, each.counts, each.entries()) for each in (self, other)]
        return both[0] == both[1]

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def entries(self) -> SeenEntries:
        """Return all entries."""
        found = SeenEntries()
        for entries in (*reversed(self.older), self.recent):
            found.update(entries)
        equals = {} if self.closed is not None else found.equals
        return SeenEntries(
            found.spans, found.within, found.messages, equals, dict(self.calls), dict(self.uses)
        )

    @property
    def size(self) -> int:
        """Return the number of remembered entries by which a limit counts."""
        return self.counts.sum - self.counts.equals + len(self.uses)

    @property
    def live(self) -> int:
        """Return the number of all entries that are needed."""
        return self.counts.sum + len(self.uses) + len(self.calls)

    def has_span(self, key: str) -> bool:
        """Return whether it has claims of that span."""
        if key in self.recent.spans:
            return True
        return bool(self.older) and any(key in entries.spans for entries in self.older)

    def covers(self, key: str) -> bool:
        """Return whether its spans cover the span or the half with that key."""
        if key in self.recent.within:
            return True
        return bool(self.older) and any(key in entries.within for entries in self.older)

    @property
    def covered_names(self) -> list[dict[str, None]]:
        """Return the keys of the spans and of the halves that its spans cover, in parts."""
        if not self.counts.within:
            return []
        return [each.within for each in (self.recent, *self.older) if each.within]

    def add_span(self, key: str, within: Iterable[str]) -> None:
        """Remember a span, and the keys of the spans that it covers."""
        if self.counts.spans >= REMEMBERED_MAX:
            return
        self.counts.spans += not self.has_span(key)
        self.recent.spans[key] = None
        if self.counts.within >= REMEMBERED_MAX:
            return
        for outer in within:
            if not self.covers(outer):
                self.counts.within += 1
                self.recent.within[outer] = None
                self.covers_calls = self.covers_calls or not outer.startswith(OF_AGENTS)

    def add_spans(self, spans: Mapping[str, Sequence[str]]) -> None:
        """Remember spans, each with the keys of those that it covers."""
        recent, counts = self.recent, self.counts
        most = max(counts.spans + len(spans), counts.within + sum(map(len, spans.values())))
        if self.older or most > REMEMBERED_MAX:
            for key, within in spans.items():
                self.add_span(key, within)
            return
        before = len(recent.spans), len(recent.within)
        for key, within in spans.items():
            recent.spans[key] = None
            for outer in within:
                if outer not in recent.within:
                    recent.within[outer] = None
                    self.covers_calls = self.covers_calls or not outer.startswith(OF_AGENTS)
        counts.spans += len(recent.spans) - before[0]
        counts.within += len(recent.within) - before[1]

    def message(self, key: str) -> SeenMessage | None:
        """Return the last span with a message."""
        found = self.recent.messages.get(key)
        for entries in self.older if found is None else ():
            if (found := entries.messages.get(key)) is not None:
                break
        return found

    def add_message(self, key: str, message: SeenMessage, *, is_new: bool) -> None:
        """Remember the last span with a message; if it `is_new`, no occurrence has this message."""
        if is_new or self.message(key) is None:
            if self.counts.messages >= REMEMBERED_MAX:
                return
            self.counts.messages += 1
        self.recent.messages[key] = message

    def equals(self, digest: str) -> int:
        """Return the number of events with that digest of their content."""
        found = self.recent.equals.get(digest, 0)
        for entries in () if found else self.older:
            if found := entries.equals.get(digest, 0):
                break
        return found

    def add_equal(self, digest: str) -> int:
        """Count an event with that digest of its content, and return the number of those before it."""
        equals = self.recent.equals
        before = equals.get(digest, 0) or (self.equals(digest) if self.older else 0)
        if before:
            equals[digest] = before + 1
        elif self.counts.equals < REMEMBERED_MAX:
            self.counts.equals += 1
            equals[digest] = 1
        return before

    def add_call(self, call_id: str, tool: str | None, args: str | None) -> None:
        """Remember an open call, in the place of one with its id."""
        known = self.calls.get(call_id) or next(reversed(self.calls.values()), None)
        number = 0 if known is None else known.number + (call_id not in self.calls)
        self.calls[call_id] = self.recent.calls[call_id] = SeenCall(number, tool, args)

    def drop_call(self, call_id: str) -> None:
        """Forget a call, if it is open."""
        if self.calls.pop(call_id, None) is None:
            return
        if self.older and any(call_id in entries.calls for entries in self.older):
            self.recent.calls[call_id] = None
        else:
            del self.recent.calls[call_id]

    def add_use(self, use: ToolUse) -> None:
        """Remember a new use."""
        use.number = next(reversed(self.uses), -1) + 1
        self.uses[use.number] = self.recent.uses[use.number] = use

    def change_use(self, use: ToolUse) -> None:
        """Note that a use changes."""
        self.recent.uses[use.number] = use

    def drop_use(self, use: ToolUse) -> None:
        """Forget a use."""
        del self.uses[use.number]
        if self.older and any(use.number in entries.uses for entries in self.older):
            self.recent.uses[use.number] = None
        else:
            del self.recent.uses[use.number]

    def close(self, time: int) -> None:
        """Note when the occurrence closed: it has no further events, but spans may repeat those it has."""
        self.closed, self.counts.equals = time, 0
        self.recent.equals.clear()

    def page(self, older: Sequence[SeenEntries]) -> None:
        """Continue after a page has the recent entries; `older` are all pages' entries of this occurrence."""
        self.recent, self.older = SeenEntries(), older


def paged_claims(seen: Sequence[SeenClaims], pages: Sequence[SeenPage]) -> tuple[SeenPage, ...]:
    """Return the pages of a session, with a new one of the recent entries where these are many."""
    numbered = {occurrence.number: occurrence for occurrence in seen}
    if sum(occurrence.recent.count for occurrence in seen) <= RECENT_MAX:
        return needed(pages, numbered)
    recent = {number: each.recent for number, each in numbered.items() if each.recent.count}
    after = paged(pages, recent, numbered, sum(each.live for each in seen))
    for number, each in numbered.items():
        each.page([page.content[number] for page in reversed(after) if number in page.content])
    return after


def seen_message(seen: Iterable[SeenClaims], key: str) -> SeenMessage | None:
    """Return the last span with this message and equal ones before it, of the first occurrence with it."""
    for occurrence in seen:
        if (last := occurrence.message(key)) is not None:
            return last
    return None


def is_repeated(last: SeenMessage, candidate: Candidate, claim: Claim) -> bool:
    """Return whether a call retries the last one with its message, runs beside it, or has it as history.

    Where no answer is among the messages before, a customer may have written the same text twice: then only a
    call that overlaps the earlier one, or follows its failure, repeats it.
    """
    overlaps = candidate.start < last.end and last.start < candidate.end
    return claim.past or claim.answered or overlaps or last.failed


def claim_use(
    seen: Sequence[SeenClaims], claim: Claim, candidate: Candidate, key: str
) -> tuple[int | None, ToolUse]:
    """Join a call or a result to its tool use; `seen` has the open occurrence first.

    Return the time of the event that already states it, None where there is none, and the use.
    """
    claimed = claimed_use(claim, candidate, key)
    is_only = len(seen) == 1
    known = [*seen[0].uses.values()] if is_only else [use for each in seen for use in each.uses.values()]
    use = matching_use(known, claimed, claim.kind) if known else None
    if use is None:
        use, owner = claimed, seen[0]
        owner.add_use(use)
        if len(owner.uses) > WAITING_MAX:
            owner.drop_use(next(iter(owner.uses.values())))
    else:
        owner = seen[0] if is_only else next(each for each in seen if each.uses.get(use.number) is use)
        owner.change_use(use)
        join(use, claimed)
    if claim.kind is _CALL:
        before = use.called
        if before is None:
            use.called, use.nested, use.known = claim.time, candidate.nested, max(use.known, candidate.end)
    else:
        before = use.returned
        use.returned = claim.time if before is None else before
    if use.is_complete:
        owner.drop_use(use)
    return before, use


def remember_call(seen: Sequence[SeenClaims], claim: Claim) -> None:
    """Remember an open call with an id for its result; beyond `WAITING_MAX` drop the oldest."""
    call_id, tool, args = claim.call_id or "", claim.tool or "", claim.args
    if len(call_id) + len(tool) > NAME_CHARS_MAX:
        return
    # One character more shows that the arguments are longer.
    seen[-1].add_call(call_id, claim.tool, None if args is None else args[: CARRIED_CHARS_MAX + 1])
    if sum([len(occurrence.calls) for occurrence in seen]) > WAITING_MAX:
        oldest = next(occurrence for occurrence in seen if occurrence.calls)
        oldest.drop_call(next(iter(oldest.calls)))


def completed_by_call(seen: Iterable[SeenClaims], claim: Claim) -> Claim:
    """Return a result with the tool and the arguments of its call, where it lacks them and the call is known.

    Arguments beyond `CARRIED_CHARS_MAX` are left out, and the content is then absent.
    """
    if claim.kind is not _RESULT or (claim.tool is not None and claim.args is not None):
        return claim
    for occurrence in seen:
        if claim.call_id not in occurrence.calls:
            continue
        _, tool, args = occurrence.calls[claim.call_id]
        if claim.tool is not None and claim.tool != tool:
            continue
        if claim.args is None and args is not None and len(args) > CARRIED_CHARS_MAX:
            content = Content.ABSENT if claim.content is Content.CAPTURED else claim.content
            return msgspec.structs.replace(claim, tool=tool, content=content)
        args = claim.args if claim.args is not None else args
        return msgspec.structs.replace(claim, tool=tool, args=args)
    return claim


def completed_by_use(
    seen: Sequence[SeenClaims], use: ToolUse, claim: Claim, candidate: Candidate
) -> tuple[Claim, Candidate]:
    """Return a result with the id, tool and arguments of its call where it lacks them, and its `nested`.

    The call's name replaces a name with the tool's plugin before it. Nothing is taken from a span that ends
    after the result's, since it may not have come yet.
    """
    if claim.kind is not _RESULT or use.known > candidate.end:
        return claim, candidate
    if use.called is not None and use.nested != candidate.nested:
        candidate = msgspec.structs.replace(candidate, nested=use.nested)
    if claim.call_id is None or (is_item(use.call_id) and not is_item(claim.call_id)):
        # Only the id of an item was known when the call was judged.
        call_id = _whole(use.call_id)
        claim = completed_by_call(seen, msgspec.structs.replace(claim, call_id=call_id))
    if claim.tool is not None and use.tool is not None and is_qualified(claim.tool, use.tool):
        claim = msgspec.structs.replace(claim, tool=use.tool)
    if claim.tool is None or claim.args is None:
        tool = _whole(use.tool) if claim.tool is None else claim.tool
        args = _whole(use.args) if claim.args is None else claim.args
        claim = msgspec.structs.replace(claim, tool=tool, args=args)
    return claim, candidate


def _whole(text: str | None) -> str | None:
    """Return a text that is remembered whole, None for a shortened one."""
    return text if text is not None and is_whole(text) else None
