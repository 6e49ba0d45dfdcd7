"""Session assembly, stage (b): from the candidates of one session to its events, in judged order.

Live and over history alike, candidates are added as they come, and `advance` returns the events that the
watermark has passed. Any order of arrival inside the bounds gives the same events and ids, also with repeats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import msgspec
import orjson

from ..candidate import Candidate, Claim
from ..event import Event, Kind, content_of, end_event, event_id
from ..time import NS_MAX, NS_MIN
from .awaited import Awaited, answers, completed_result, is_awaited
from .claim_log import ClaimLog, DropReason
from .claims import OF_TOOLS, event_of_claim
from .coverage import HiddenClaims, has_history, hidden_claims
from .seen import (
    CLOSED_MAX,
    REMEMBERED_MAX,
    SeenClaims,
    SeenMessage,
    claim_use,
    completed_by_call,
    completed_by_use,
    remember_call,
    seen_message,
)

_KINDS = {kind: place for place, kind in enumerate(Kind)}
_NO_PLACE = 1 << 32


class Close(StrEnum):
    """The reason for which an occurrence closed: the attribute `end` of its `end` row."""

    MARK = "mark"
    """A span marked the end of the session."""
    IDLE = "idle"
    """Nothing happened for longer than `idle_s`."""


@dataclass(slots=True)
class OpenOccurrence:
    """The open occurrence of a session: the time of its first event and of its last, and their number.

    `last` is the place of the judged event that sorts last. `equals` counts the events with equal content by
    its digest. `caller` is the span of the first model call; its input is the history before the occurrence.
    """

    time: int
    last_time: int
    last: tuple[int, int, int, int, str]
    seq: int = 0
    equals: dict[str, int] = field(default_factory=dict[str, int])
    caller: str | None = None


class SessionAssembler(msgspec.Struct, rename={"seen": "told"}):
    """The state of one session in assembly: plain data, so that it can be stored and continued.

    `held` are candidates by span key, up to when the watermark has passed their end and all their claims are
    taken. `taken` is, for a held candidate that it has passed, the time before which its claims are taken:
    another candidate, not yet passed, has claims from then on. `seen` has the claims of the open occurrence
    last, and before them those of closed ones that may still be repeated. `begun` is when the latest
    occurrence began. `repeats` counts repeated spans, messages, calls and results, `late` the claims that
    came after an event that sorts behind them was judged, and `stray_ends` the end marks with no open
    occurrence. `awaited` are results without content that the next model call may have: they are judged
    before any later claim.
    """

    session_id: str
    idle: int
    held: dict[str, Candidate] = msgspec.field(default_factory=dict[str, Candidate])
    open: OpenOccurrence | None = None
    seen: list[SeenClaims] = msgspec.field(default_factory=lambda: [SeenClaims()])
    begun: int | None = None
    repeats: int = 0
    late: int = 0
    stray_ends: int = 0
    taken: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    awaited: list[Awaited] = msgspec.field(default_factory=list[Awaited])

    def add(self, candidate: Candidate) -> None:
        """Hold a candidate of this session until the watermark has passed the end of its span.

        Of copies with other times or other inherited values the first by `copy_order` is held.
        """
        key = candidate.span_key
        before = self.held.get(key)
        is_repeat = before is not None or any(key in occurrence.spans for occurrence in self.seen)
        self.repeats += is_repeat
        is_first = before is not None and candidate.copy_order < before.copy_order and key not in self.taken
        if not is_repeat or is_first:
            self.held[key] = candidate

    def advance(self, watermark: int, claim_log: ClaimLog | None = None) -> list[Event]:
        """Return the events and `end` rows of the claims that the watermark has passed, in judged order.

        No span that ends at or before the watermark is expected any more. Claims still wait while a held span
        that ends after the watermark has an earlier claim. An occurrence closes when the watermark has passed
        its last event by more than `idle` and no held candidate belongs to it. The outcome of each claim is
        reported to `claim_log`.
        """
        if claim_log is not None:
            self.held = {key: candidate.joined() for key, candidate in self.held.items()}
        ready = {key: candidate for key, candidate in self.held.items() if candidate.end <= watermark}
        hidden = self._hidden()
        until = self._until(watermark, hidden)
        items = [
            item for item in _items(ready, hidden) if self.taken.get(item[1], NS_MIN) <= item[0].time < until
        ]
        histories = [
            (key, candidate)
            for key, candidate in ready.items()
            if self.taken.get(key, NS_MIN) <= candidate.start < until and has_history(candidate, hidden[key])
        ]
        events = [
            event
            for claim, key, candidate in self._in_order(items, histories)
            for event in self._take(claim, key, candidate, claim_log)
        ]
        for key, candidate in ready.items():
            if any(time >= until for time in candidate.claim_times):
                self.taken[key] = until
                continue
            del self.held[key]
            self.taken.pop(key, None)
            if claim_log is not None:
                claim_log.leave(DropReason.OTHER_SPAN, key, candidate, candidate.claims)
            if len(self.seen[-1].spans) < REMEMBERED_MAX:
                self.seen[-1].spans.add(key)
                if len(self.seen[-1].within) < REMEMBERED_MAX:
                    self.seen[-1].within.update(candidate.within)
        if self.open is not None and self._is_over(self.open.last_time + self.idle, watermark):
            events += self._close(self.open.last_time + self.idle, Close.IDLE, claim_log)
        self._forget(watermark)
        return events

    def finish(self, as_of: int | None, claim_log: ClaimLog | None = None) -> list[Event]:
        """Return the events of awaited results if the occurrence is over by `as_of` (None: all has come)."""
        is_over = self.open is not None and (as_of is None or as_of > self.open.last_time + self.idle)
        return list(self._judge_awaited({}, claim_log)) if is_over else []

    @property
    def due(self) -> int | None:
        """Return the watermark at which `advance` has work; None once the session may be forgotten."""
        times = [candidate.end for key, candidate in self.held.items() if key not in self.taken]
        if self.open is not None:
            times.append(self.open.last_time + self.idle + 1)
        times += [seen.closed + 2 * self.idle + 1 for seen in self.seen if seen.closed is not None]
        return min(times, default=None)

    def _hidden(self) -> dict[str, HiddenClaims]:
        """Return of each held candidate which of its claims other spans make."""
        covered = [occurrence.within for occurrence in self.seen if occurrence.within]
        covered.append({outer for candidate in self.held.values() for outer in candidate.within})
        return {key: hidden_claims(candidate, covered) for key, candidate in self.held.items()}

    def _in_order(self, items: list[_Item], histories: Iterable[tuple[str, Candidate]]) -> Iterator[_Item]:
        """Yield the claims in judged order, with those of the histories that may not all be dropped.

        The content of claims is compared only where all else is equal. A history is looked at when everything
        before it has been taken: its claims have one time, and of that time only claims of its kind, with a
        place in a conversation, come before its last one.
        """
        items.sort(key=_place)
        waiting = sorted(((_begin(each), key, each) for key, each in histories), reverse=True)
        at = 0
        while at < len(items) or waiting:
            place = _place(items[at]) if at < len(items) else None
            if waiting and (place is None or waiting[-1][0] <= place):
                _, key, candidate = waiting.pop()
                if not self._drops_history(key, candidate):
                    past = ((claim, key, candidate) for claim in candidate.past_claims)
                    items[at:] = sorted((*items[at:], *past), key=_place)
                continue
            begin, at = at, at + 1
            while at < len(items) and _place(items[at]) == place:
                at += 1
            tied = items[begin:at]
            yield from tied if len(tied) == 1 else sorted(tied, key=_tie)

    def _drops_history(self, key: str, candidate: Candidate) -> bool:
        """Return whether `_take` drops all claims of a history, and does nothing else at them."""
        now = self.open
        if now is None or now.caller in (None, key) or self.awaited:
            return False
        return candidate.start <= now.last_time + self.idle

    def _until(self, watermark: int, hidden: Mapping[str, HiddenClaims]) -> int:
        """Return the time of the first claim of spans after the watermark; late claims do not count."""
        waiting = {key: candidate for key, candidate in self.held.items() if candidate.end > watermark}
        since = NS_MIN if self.open is None else self.open.last_time
        times = [claim.time for claim, _, _ in _items(waiting, hidden)]
        times += [each.start for key, each in waiting.items() if has_history(each, hidden[key])]
        return min((time for time in times if time >= since), default=NS_MAX)

    def _is_over(self, until: int, watermark: int) -> bool:
        """Return whether no more claims can come for an occurrence that lasts until `until`."""
        held = any(time <= until for candidate in self.held.values() for time in candidate.claim_times)
        return watermark > until and not held

    def _take(
        self, claim: Claim, key: str, candidate: Candidate, claim_log: ClaimLog | None
    ) -> Iterator[Event]:
        """Yield the event of a claim, none where it is a repeat, and what closes before it."""
        if self.open is not None and claim.time > self.open.last_time + self.idle:
            yield from self._close(self.open.last_time + self.idle, Close.IDLE, claim_log)
        if claim.kind is Kind.END:
            yield from self._end(claim, key, candidate, claim_log)
            return
        known = [
            seen
            for seen in reversed(self.seen)
            if seen.closed is None or claim.time <= seen.closed + self.idle
        ]
        if self.awaited and claim.place is not None:
            uses = [use for seen in known for use in seen.uses]
            if found := answers(self.awaited, uses, candidate, key):
                yield from self._judge_awaited(found, claim_log)
        if claim.past and self.open is not None and self.open.caller not in (None, key):
            if claim_log is not None:
                claim_log.drop(DropReason.RETOLD_HISTORY, claim, key, candidate)
            return
        yield from self._claim(known, claim, key, candidate, claim_log)

    def _claim(
        self,
        known: Sequence[SeenClaims],
        claim: Claim,
        key: str,
        candidate: Candidate,
        claim_log: ClaimLog | None,
    ) -> Iterator[Event]:
        """Yield the event of a claim, none where one of `known` repeats it or its content is awaited."""
        original, use = claim, None
        message = seen_message(known, candidate, claim)
        before = None if message is None else message.time
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
            yield from self._judge_awaited({}, claim_log)
            event = self._judge(claim, key, candidate)
            if claim_log is not None:
                claim_log.judge(event, original, key, candidate, use)
            yield event
        else:
            self.repeats += 1
            self.late += claim.time < before
            if claim_log is not None:
                reason = DropReason.REPEAT if use is None else DropReason.PAIRED
                claim_log.drop(reason, original, key, candidate, use)
        self._note_message(claim, candidate, before)

    def _note_message(self, claim: Claim, candidate: Candidate, before: int | None) -> None:
        """Remember the last span with a message; `before` is the time of its event if that was judged."""
        messages = self.seen[-1].messages
        if claim.key and (claim.key in messages or len(messages) < REMEMBERED_MAX):
            time = claim.time if before is None else before
            messages[claim.key] = SeenMessage(candidate.start, candidate.end, candidate.failed, time)

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
            event = self._judge(completed_result(result, found), result.run, result.candidate)
            if claim_log is not None:
                uses = (use for seen in self.seen for use in seen.uses if use.run == result.run)
                claim_log.judge(event, result.claim, result.run, result.candidate, next(uses, None))
            yield event

    def _judge(self, claim: Claim, key: str, candidate: Candidate) -> Event:
        """Return the next event of the session; open an occurrence where none is open."""
        content = content_of(claim)
        digest = _digest(claim.kind, content)
        place = (*_place((claim, key, candidate)), digest)
        closed = self.seen[-2].closed if len(self.seen) > 1 else None
        late = closed is not None and claim.time <= closed
        if self.open is None:
            # The time identifies an occurrence, so a late one must not have that of an earlier one.
            time = claim.time if self.begun is None else max(claim.time, self.begun + 1)
            self.open = OpenOccurrence(time, claim.time, place)
            self.begun = time
        now = self.open
        late = late or place < now.last
        self.late += late
        now.last, now.last_time = max(now.last, place), max(now.last_time, claim.time)
        now.seq += 1
        ordinal = now.equals.get(digest, 0)
        if ordinal or len(now.equals) < REMEMBERED_MAX:
            now.equals[digest] = ordinal + 1
        if claim.place is not None and now.caller is None:
            now.caller = key
        self._note_call(claim)
        named = event_id(self.session_id, now.time, claim.kind, content, ordinal)
        return event_of_claim(claim, candidate, occurrence=now.time, seq=now.seq, late=late, event_id=named)

    def _note_call(self, claim: Claim) -> None:
        """Remember an open call with an id, or forget it at its result."""
        if claim.kind not in OF_TOOLS or claim.call_id is None:
            return
        if claim.kind is Kind.TOOL_RESULT:
            # A call is answered once; a further result with its id answers no known call.
            for seen in self.seen:
                seen.calls.pop(claim.call_id, None)
        else:
            remember_call(self.seen, claim)

    def _close(self, time: int, reason: Close, claim_log: ClaimLog | None) -> Iterator[Event]:
        """Close the open occurrence; later claims belong to the next one."""
        assert self.open is not None
        yield from self._judge_awaited({}, claim_log)
        ended = self.open
        self.open = None
        self.seen[-1].closed = time
        self.seen.append(SeenClaims())
        yield end_event(self.session_id, ended.time, time, ended.seq + 1, {"end": reason.value})

    def _forget(self, watermark: int) -> None:
        """Forget closed occurrences that no span in time can repeat any more."""
        self.seen = [
            seen for seen in self.seen if seen.closed is None or watermark <= seen.closed + 2 * self.idle
        ][-CLOSED_MAX - 1 :]
        while len(self.seen) > 1 and sum(seen.size for seen in self.seen) > REMEMBERED_MAX:
            del self.seen[0]


_Item: TypeAlias = tuple[Claim, str, Candidate]


def _items(ready: Mapping[str, Candidate], hidden: Mapping[str, HiddenClaims]) -> Iterator[_Item]:
    """Yield the claims of the candidates, without histories and without those that other spans make."""
    for key, candidate in ready.items():
        is_covered, times = hidden[key]
        for claim in candidate.claims:
            if claim.kind is Kind.END or not (is_covered or claim.time in times):
                yield claim, key, candidate


def _begin(candidate: Candidate) -> tuple[int, int, int, int]:
    """Return the sort key of the first claim of a candidate's history."""
    assert candidate.history is not None
    first = candidate.history.claims[0]
    return candidate.start, *_place((first, "", candidate))[1:]


def _place(item: _Item) -> tuple[int, int, int, int]:
    """Return the sort key of a claim: time, place in the conversation, kind, place in the message."""
    claim = item[0]
    place = _NO_PLACE if claim.place is None else claim.place
    return claim.time, place, _KINDS[claim.kind], claim.rank


def _tie(item: _Item) -> tuple[str, int, int, str]:
    claim, key, candidate = item
    return _digest(claim.kind, content_of(claim)), candidate.start, candidate.end, key


def _digest(kind: Kind, content: list[str | None]) -> str:
    """Return a digest of an event's content, by which equal events are counted."""
    return hashlib.blake2b(orjson.dumps([kind, content]), digest_size=8).hexdigest()
