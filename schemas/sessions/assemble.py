"""Session assembly, stage (b): from the candidates of one session to its events, in judged order.

Live and over history alike, candidates are added as they come, and `advance` returns the events that the
watermark has passed. Any order of arrival inside the bounds gives the same events and ids, also with repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

import msgspec

from ..candidate import Candidate, Claim
from ..event import Event, Kind, end_event, event_id_of
from ..time import NS_MAX, NS_MIN
from .awaited import Awaited, answers, completed_result, is_awaited
from .claim_events import OF_TOOLS, event_of
from .claim_log import ClaimLog, DropReason
from .claim_order import (
    ClaimPlace,
    PlacedClaim,
    body_digest,
    claim_body,
    claim_items,
    claim_times,
    has_history,
    in_order,
    place_of,
)
from .coverage import half_key, is_of
from .memory.held import HeldCandidates
from .memory.seen import (
    CLOSED_MAX,
    REMEMBERED_MAX,
    SeenClaims,
    claim_use,
    completed_by_call,
    completed_by_use,
    is_repeated,
    paged_claims,
    remember_call,
    seen_message,
)
from .memory.seen_page import SeenMessage, SeenPage

APART_NS = 1 << 20
"""Nanoseconds among which the occurrences that late spans begin at one time are spread: a millisecond."""
_CALL, _RESULT, _END = Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.END
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


class Close(StrEnum):
    """The reason for which an occurrence closed: the attribute `end` of its `end` row."""

    MARK = "mark"
    """A span marked the end of the session."""
    IDLE = "idle"
    """Nothing happened for longer than `idle_s`."""


class OpenOccurrence(msgspec.Struct):
    """The open occurrence of a session: the time of its first event and of its last, and their number.

    `last` is the place of the judged event that sorts last. `caller` is the span of the first model call; its
    input is the history before the occurrence.
    """

    time: int
    last_time: int
    last: tuple[int, int, int, int, str]
    seq: int = 0
    caller: str | None = None


@dataclass(slots=True)
class SessionAssembler:
    """The state of one session in assembly: plain data, so that it can be stored and continued.

    `held` are candidates by span key, up to when the watermark has passed their end and all their claims are
    taken. `taken` is, for a held candidate that it has passed, the time before which its claims are taken:
    another candidate, not yet passed, has claims from then on. `seen` has the claims of the open occurrence
    last, and before them those of closed ones that may still be repeated; `pages` have a part of them.
    `begun` is when the latest occurrence began. `repeats` counts repeated spans, messages, calls and results,
    `late` the claims that came after an event that sorts behind them was judged, and `stray_ends` the end
    marks with no open occurrence. `awaited` are results without content that the next model call may have:
    they are judged before any later claim.
    """

    session_id: str
    idle: int
    held: HeldCandidates = field(default_factory=HeldCandidates)
    open: OpenOccurrence | None = None
    seen: list[SeenClaims] = field(default_factory=lambda: [SeenClaims()])
    pages: tuple[SeenPage, ...] = field(default=(), compare=False)
    begun: int | None = None
    repeats: int = 0
    late: int = 0
    stray_ends: int = 0
    taken: dict[str, int] = field(default_factory=dict[str, int])
    awaited: list[Awaited] = field(default_factory=list[Awaited])
    before: int = field(default=NS_MIN, init=False, compare=False, repr=False)

    def add(self, candidate: Candidate, chars: int | None = None) -> None:
        """Hold a candidate of this session until the watermark has passed the end of its span.

        Of copies with other times or other inherited values the first by `copy_order` is held. `chars` are
        the candidate's characters if they are known.
        """
        key = candidate.span_key
        before = self.held.candidates.get(key)
        if before is None:
            for occurrence in self.seen:
                if occurrence.has_span(key):
                    self.repeats += 1
                    return
            self.held.put(key, candidate, chars)
            return
        self.repeats += 1
        if candidate.copy_order < before.copy_order and key not in self.taken:
            self.held.put(key, candidate, chars)

    def advance(self, watermark: int, claim_log: ClaimLog | None = None, before: int = NS_MIN) -> list[Event]:
        """Return the events and `end` rows of the claims that the watermark has passed, in judged order.

        No span that ends at or before the watermark is expected any more. Claims still wait while a held span
        that ends after the watermark has an earlier claim. An occurrence closes when the watermark has passed
        its last event by more than `idle` and no held candidate belongs to it. The outcome of each claim is
        reported to `claim_log`. `before` is the watermark before the last candidates came.
        """
        self.before = before
        if claim_log is not None:
            self.held.join_histories()
        held = self.held.candidates
        ready = {key: candidate for key, candidate in held.items() if candidate.end <= watermark}
        covered = self._covered()
        until = NS_MAX if len(ready) == len(held) else self._until(watermark, covered)
        items = claim_items(ready, covered)
        if self.taken or until < NS_MAX:
            items = [item for item in items if self.taken.get(item[1], NS_MIN) <= item[0].time < until]
        histories = [
            (key, candidate)
            for key, candidate in ready.items()
            if candidate.history is not None
            and self.taken.get(key, NS_MIN) <= candidate.start < until
            and has_history(candidate, covered)
        ]
        events: list[Event] = []
        for placed in in_order(items, histories, self._drops_history):
            self._take(events, placed, claim_log)
        self._drop_taken(ready, until, claim_log)
        if self.open is not None and self._is_over(self.open.last_time + self.idle, watermark):
            events += self._close(self.open.last_time + self.idle, Close.IDLE, claim_log)
        self._forget(watermark)
        return events

    def _drop_taken(self, ready: Mapping[str, Candidate], until: int, claim_log: ClaimLog | None) -> None:
        """Hold no more the candidates of which all claims are before `until`, and are thus taken."""
        for key, candidate in ready.items():
            if until < NS_MAX and any(time >= until for time in claim_times(candidate)):
                self.taken[key] = until
                continue
            self.held.remove(key)
            self.taken.pop(key, None)
            if claim_log is not None:
                claim_log.leave(DropReason.OTHER_SPAN, key, candidate, candidate.claims)
            self.seen[-1].add_span(key, candidate.within)

    def leave(self, spans: Mapping[str, Candidate]) -> None:
        """Hold no more the candidates of these spans, by their keys: all their claims are taken."""
        self.held.remove_all(spans)
        self.seen[-1].add_spans({key: candidate.within for key, candidate in spans.items()})

    def finish(self, as_of: int | None, claim_log: ClaimLog | None = None) -> list[Event]:
        """Return the events of awaited results if the occurrence is over by `as_of` (None: all has come)."""
        is_over = self.open is not None and (as_of is None or as_of > self.open.last_time + self.idle)
        return list(self._judge_awaited({}, claim_log)) if is_over else []

    @property
    def due(self) -> int | None:
        """Return the watermark at which `advance` has work; None once the session may be forgotten."""
        held = self.held.candidates
        times = [candidate.end for key, candidate in held.items() if key not in self.taken]
        if self.open is not None:
            times.append(self.open.last_time + self.idle + 1)
        times += [seen.closed + 2 * self.idle + 1 for seen in self.seen if seen.closed is not None]
        return min(times, default=None)

    def make_pages(self) -> None:
        """Put what was held or seen since the last pages into pages, where it is much."""
        self.held.page()
        self.pages = paged_claims(self.seen, self.pages)

    def _covered(self) -> set[str]:
        """Return those of the held candidates and of their halves that other spans make the claims of."""
        held = self.held.values()
        within = [names for occurrence in self.seen for names in occurrence.covered_names]
        outer = {outer for candidate in held if candidate.within for outer in candidate.within}
        if not (outer or within):
            return outer
        keys = [candidate.key for candidate in held]
        # Most are of agents without claims, which are not held.
        known = frozenset(keys)
        covered = {key for key in outer if is_of(key, known)}
        if not within:
            return covered
        for whole, candidate in zip(keys, held, strict=True):
            named = [whole, *(half_key(whole, half) for half, _ in candidate.halves)]
            covered.update([key for key in named for names in within if key in names])
        return covered

    def _drops_history(self, key: str, candidate: Candidate) -> bool:
        """Return whether `_take` drops all claims of a history, and does nothing else at them.

        It drops them where the occurrence goes on at their time, and another call was its first.
        """
        now = self.open
        if now is None or now.caller in (None, key) or self.awaited:
            return False
        return candidate.start <= now.last_time + self.idle

    def _until(self, watermark: int, covered: set[str]) -> int:
        """Return the time of the first claim of spans after the watermark; late claims do not count."""
        held = self.held.candidates
        waiting = {key: candidate for key, candidate in held.items() if candidate.end > watermark}
        since = NS_MIN if self.open is None else self.open.last_time
        times = [claim.time for claim, _, _ in claim_items(waiting, covered) if claim.time >= since]
        times += [
            candidate.start
            for candidate in waiting.values()
            if candidate.start >= since and has_history(candidate, covered)
        ]
        return min(times, default=NS_MAX)

    def _is_over(self, until: int, watermark: int) -> bool:
        """Return whether no more claims can come for an occurrence that lasts until `until`."""
        held = any(time <= until for candidate in self.held.values() for time in claim_times(candidate))
        return watermark > until and not held

    def _take(self, events: list[Event], placed: PlacedClaim, claim_log: ClaimLog | None) -> None:
        """Add the event of a claim, none where it is a repeat, and what closes before it."""
        _, (claim, key, candidate) = placed
        now = self.open
        if now is not None and claim.time > now.last_time + self.idle:
            events += self._close(now.last_time + self.idle, Close.IDLE, claim_log)
        if claim.kind is _END:
            events += self._end(claim, key, candidate, claim_log)
            return
        known: Sequence[SeenClaims] = self.seen
        if len(known) > 1:
            known = [
                seen
                for seen in reversed(known)
                if seen.closed is None or claim.time <= seen.closed + self.idle
            ]
        if self.awaited and claim.place is not None:
            uses = [use for seen in known for use in seen.uses.values()]
            if found := answers(self.awaited, uses, candidate, key):
                events += self._judge_awaited(found, claim_log)
        if claim.past and self.open is not None and self.open.caller not in (None, key):
            if claim_log is not None:
                claim_log.drop(DropReason.RETOLD_HISTORY, claim, key, candidate)
            return
        self._claim(events, known, placed, claim_log)

    def _claim(
        self,
        events: list[Event],
        known: Sequence[SeenClaims],
        placed: PlacedClaim,
        claim_log: ClaimLog | None,
    ) -> None:
        """Add the event of a claim, none where one of `known` repeats it or its content is awaited."""
        place, (claim, key, candidate) = placed
        original, use = claim, None
        last = seen_message(known, claim.key) if claim.key else None
        before = None if last is None or not is_repeated(last, candidate, claim) else last.time
        if before is None and claim.kind in OF_TOOLS:
            claim = completed_by_call(known, claim)
            before, use = claim_use(known, claim, candidate, key)
            claim, candidate = completed_by_use(known, use, claim, candidate)
            if before is None and self.open is not None and is_awaited(claim, use, self.awaited):
                bare = msgspec.structs.replace(candidate, claims=(), history=None)
                self.awaited.append(Awaited(key, claim, bare))
                self.open.last_time = max(self.open.last_time, claim.time)
                return
        if before is None:
            if self.awaited:
                events += self._judge_awaited({}, claim_log)
            event = self.judge(claim, key, candidate, place)
            if claim_log is not None:
                claim_log.judge(event, original, key, candidate, use)
            events.append(event)
        else:
            self.repeats += 1
            self.late += claim.time < before
            if claim_log is not None:
                reason = DropReason.REPEAT if use is None else DropReason.PAIRED
                claim_log.drop(reason, original, key, candidate, use)
        if claim.key:
            time = claim.time if before is None else before
            message = SeenMessage(candidate.start, candidate.end, candidate.failed, time)
            self.seen[-1].add_message(claim.key, message, is_new=last is None)

    def _end(
        self, claim: Claim, key: str, candidate: Candidate, claim_log: ClaimLog | None
    ) -> Iterator[Event]:
        """Close the open occurrence at the end mark of a span, if there is one."""
        if self.open is not None:
            for event in self._close(claim.time, Close.MARK, claim_log):
                if claim_log is not None and event.kind is Kind.END:
                    claim_log.judge(event, claim, key, candidate)
                yield event
            return
        self.stray_ends += 1
        if claim_log is not None:
            claim_log.drop(DropReason.STRAY_END, claim, key, candidate)

    def _judge_awaited(self, found: Mapping[str, Claim], claim_log: ClaimLog | None) -> Iterator[Event]:
        """Yield the events of the awaited results, completed from the model call's results in `found`."""
        awaited, self.awaited = self.awaited, []
        for result in awaited:
            claim = completed_result(result, found)
            event = self.judge(claim, result.run, result.candidate, place_of(claim))
            if claim_log is not None:
                uses = (use for seen in self.seen for use in seen.uses.values() if use.run == result.run)
                claim_log.judge(event, result.claim, result.run, result.candidate, next(uses, None))
            yield event

    def judge(self, claim: Claim, key: str, candidate: Candidate, place: ClaimPlace) -> Event:
        """Return the next event of the session, of the span `key`; open an occurrence where none is open."""
        kind, time = claim.kind, claim.time
        body = claim_body(claim)
        digest = body_digest(body)
        last = (*place, digest)
        seen, now, late = self.seen, self.open, False
        if len(seen) > 1:
            closed = seen[-2].closed
            late = closed is not None and time <= closed
        if now is None:
            begun = self._beginning(time, key, candidate)
            now = self.open = OpenOccurrence(begun, time, last)
            self.begun = begun
        if last < now.last:
            late = True
        else:
            now.last = last
        if late:
            self.late += 1
        if time > now.last_time:
            now.last_time = time
        now.seq += 1
        ordinal = seen[-1].add_equal(digest)
        if now.caller is None and claim.place is not None:
            now.caller = key
        if claim.call_id is not None and (kind is _CALL or kind is _RESULT):
            self._note_call(claim, claim.call_id)
        named = event_id_of(self.session_id, now.time, body, ordinal)
        return event_of(claim, candidate, (now.time, now.seq), named, late=late)

    def _beginning(self, time: int, key: str, candidate: Candidate) -> int:
        """Return the time that identifies an occurrence, which a claim of that time begins."""
        if self.begun is not None:
            # A late one must not have that of an earlier one.
            return max(time, self.begun + 1)
        if self.before <= max(candidate.end, time + 2 * self.idle):
            return time
        # The state of an earlier occurrence, which began at the same time, may be forgotten.
        return time + 1 + crc32(key.encode()) % APART_NS

    def _note_call(self, claim: Claim, call_id: str) -> None:
        """Remember an open call with that id, or forget it at its result."""
        if claim.kind is _RESULT:
            # A call is answered once; a further result with its id answers no known call.
            for seen in self.seen:
                seen.drop_call(call_id)
        else:
            remember_call(self.seen, claim)

    def _close(self, time: int, reason: Close, claim_log: ClaimLog | None) -> Iterator[Event]:
        """Close the open occurrence; later claims belong to the next one."""
        assert self.open is not None
        yield from self._judge_awaited({}, claim_log)
        ended = self.open
        self.open = None
        self.seen[-1].close(time)
        self.seen.append(SeenClaims(self.seen[-1].number + 1))
        yield end_event(self.session_id, ended.time, time, ended.seq + 1, {"end": reason.value})

    def _forget(self, watermark: int) -> None:
        """Forget closed occurrences that no span in time can repeat any more."""
        self.seen = [
            seen for seen in self.seen if seen.closed is None or watermark <= seen.closed + 2 * self.idle
        ][-CLOSED_MAX - 1 :]
        while len(self.seen) > 1 and sum(seen.size for seen in self.seen) > REMEMBERED_MAX:
            del self.seen[0]
