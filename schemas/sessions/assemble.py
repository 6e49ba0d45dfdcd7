"""Session assembly, stage (b): from the candidates of one session to its events, in judged order.

Live and over history alike: candidates are added as they come, and `advance` gives what the time has
passed. Any order of arrival inside the bounds gives the same events and ids, repeats included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import TypeAlias

import msgspec
import orjson

from ..candidate import Candidate, Claim
from ..event import Content, Event, Kind, content_of, end_event, event_id
from .awaited import Awaited, answers, completed_result, is_awaited
from .claim_log import ClaimLog, DropReason
from .coverage import half_key
from .seen import (
    CLOSED_MAX,
    REMEMBERED_MAX,
    SeenClaims,
    SeenMessage,
    answering,
    claim_use,
    expect,
    of_its_call,
    seen_message,
)

_KINDS = {kind: place for place, kind in enumerate(Kind)}
_NO_PLACE = 1 << 32
_EVER, _NEVER = -(1 << 63), (1 << 63) - 1
_OF_TOOLS = (Kind.TOOL_CALL, Kind.TOOL_RESULT)


class Close(StrEnum):
    """Why an occurrence closed: the attribute `end` of its `end` row."""

    MARK = "mark"
    """It was told that the session is over."""
    IDLE = "idle"
    """Nothing happened for longer than `idle_s`."""


@dataclass(slots=True)
class OpenOccurrence:
    """The open occurrence of a session: the time of its first event and of its last, and their number.

    `last` is the place of the event that sorts last among those judged. `equals` counts the events that say
    the same. `caller` is the span of its first model call, which tells what had been said before.
    """

    time: int
    last_time: int
    last: tuple[int, int, int, int, str]
    seq: int = 0
    equals: dict[str, int] = field(default_factory=dict[str, int])
    caller: str | None = None


class SessionAssembler(msgspec.Struct, rename={"seen": "told"}):
    """One session being assembled; all of it is plain data, so that it can be stored and continued.

    `held` are candidates that the time has not passed, by what tells their spans apart. `taken` says of those
    held that it has passed up to when (before that) they were heard: another, not yet passed, has something
    to tell there. `told` is what was told: by the open occurrence last, by closed ones while that still
    counts as a repeat. `begun` is when the latest occurrence began. `repeats` counts spans, messages, calls
    and results that were told again, `late` what came after an event that sorts behind it was judged, and
    `stray_ends` ends of nothing. `awaited` are results without content that a model may be told next: nothing
    is judged before they are.
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
        """Hold a candidate of this session until the time has passed the end of its span.

        Of copies with other times, or that inherited other things, one is held, whichever came first.
        """
        key = candidate.span_key
        before = self.held.get(key)
        is_repeat = before is not None or any(key in told.spans for told in self.seen)
        self.repeats += is_repeat
        is_first = before is not None and candidate.copy_order < before.copy_order and key not in self.taken
        if not is_repeat or is_first:
            self.held[key] = candidate

    def advance(self, watermark: int, claim_log: ClaimLog | None = None) -> list[Event]:
        """Return the events, and `end` rows, of what the time has passed, in judged order.

        Nothing that ends up to the watermark is expected any more. What the time has passed waits all the
        same while a span that it has not passed, and that has come, tells something earlier. An occurrence
        closes when the watermark has passed its last event by more than `idle` and nothing that is held
        belongs to it. What becomes of each reading is reported to `readings`.
        """
        ready = {key: one for key, one in self.held.items() if one.end <= watermark}
        covered = {one for told in self.seen for one in told.within}
        covered.update(one for candidate in self.held.values() for one in candidate.within)
        until = self._until(watermark, covered)
        items = [
            item for item in _items(ready, covered) if self.taken.get(item[1], _EVER) <= item[0].time < until
        ]
        events = [
            event
            for claim, key, candidate in _in_order(items)
            for event in self._take(claim, key, candidate, claim_log)
        ]
        for key, candidate in ready.items():
            if any(claim.time >= until for claim in candidate.claims):
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
        """Return the results that are still awaited, where nothing more comes: all has, or by then it has closed."""
        is_over = self.open is not None and (as_of is None or as_of > self.open.last_time + self.idle)
        return list(self._judge_awaited({}, claim_log)) if is_over else []

    @property
    def due(self) -> int | None:
        """Return the watermark from which `advance` has something to do; None once the session may be forgotten."""
        times = [one.end for key, one in self.held.items() if key not in self.taken]
        if self.open is not None:
            times.append(self.open.last_time + self.idle + 1)
        times += [told.closed + 2 * self.idle + 1 for told in self.seen if told.closed is not None]
        return min(times, default=None)

    def _until(self, watermark: int, covered: set[str]) -> int:
        """Return the first thing that a span tells which the time has not passed; what is late anyway aside."""
        waiting = {key: one for key, one in self.held.items() if one.end > watermark}
        since = _EVER if self.open is None else self.open.last_time
        times = (claim.time for claim, _, _ in _items(waiting, covered) if claim.time >= since)
        return min(times, default=_NEVER)

    def _is_over(self, until: int, watermark: int) -> bool:
        """Return whether nothing can come any more for an occurrence that lasts until then."""
        held = any(claim.time <= until for one in self.held.values() for claim in one.claims)
        return watermark > until and not held

    def _take(
        self, claim: Claim, key: str, candidate: Candidate, claim_log: ClaimLog | None
    ) -> Iterator[Event]:
        """Yield the event of a telling, none where it was told before, and what closes before it."""
        if self.open is not None and claim.time > self.open.last_time + self.idle:
            yield from self._close(self.open.last_time + self.idle, Close.IDLE, claim_log)
        if claim.kind is Kind.END:
            yield from self._end(claim, key, candidate, claim_log)
            return
        known = [
            one for one in reversed(self.seen) if one.closed is None or claim.time <= one.closed + self.idle
        ]
        if self.awaited and claim.place is not None:
            uses = [use for one in known for use in one.uses]
            if found := answers(self.awaited, uses, candidate, key):
                yield from self._judge_awaited(found, claim_log)
        if claim.past and self.open is not None and self.open.caller not in (None, key):
            if claim_log is not None:
                claim_log.drop(DropReason.RETOLD_HISTORY, claim, key, candidate)
            return
        reading, use = claim, None
        teller = seen_message(known, candidate, claim)
        before = None if teller is None else teller.time
        if before is None and claim.kind in _OF_TOOLS:
            claim = answering(known, claim)
            before, use = claim_use(known, claim, candidate, key)
            claim, candidate = of_its_call(known, use, claim, candidate)
            if before is None and self.open is not None and is_awaited(claim, use, self.awaited):
                self.awaited.append(Awaited(key, claim, msgspec.structs.replace(candidate, claims=())))
                self.open.last_time = max(self.open.last_time, claim.time)
                return
        if before is None:
            yield from self._judge_awaited({}, claim_log)
            event = self._judge(claim, key, candidate)
            if claim_log is not None:
                claim_log.judge(event, reading, key, candidate, use)
            yield event
        else:
            self.repeats += 1
            self.late += claim.time < before
            if claim_log is not None:
                claim_log.drop(
                    DropReason.REPEAT if use is None else DropReason.PAIRED, reading, key, candidate, use
                )
        self._note_message(claim, candidate, before)

    def _note_message(self, claim: Claim, candidate: Candidate, before: int | None) -> None:
        """Remember who told a message last; `before` is the time of its event if that was judged before."""
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
        """Yield the events of the results that were awaited, with what was found of them."""
        awaited, self.awaited = self.awaited, []
        for one in awaited:
            event = self._judge(completed_result(one, found), one.run, one.candidate)
            if claim_log is not None:
                uses = (use for told in self.seen for use in told.uses if use.run == one.run)
                claim_log.judge(event, one.claim, one.run, one.candidate, next(uses, None))
            yield event

    def _judge(self, claim: Claim, key: str, candidate: Candidate) -> Event:
        """Return the next event of the session; it opens an occurrence where none is open."""
        content = content_of(claim)
        said = _said(claim.kind, content)
        place = (*_place((claim, key, candidate)), said)
        closed = self.seen[-2].closed if len(self.seen) > 1 else None
        late = closed is not None and claim.time <= closed
        if self.open is None:
            # An occurrence is known by its time, so a late one must not have that of an earlier one.
            time = claim.time if self.begun is None else max(claim.time, self.begun + 1)
            self.open = OpenOccurrence(time, claim.time, place)
            self.begun = time
        now = self.open
        late = late or place < now.last
        self.late += late
        now.last, now.last_time = max(now.last, place), max(now.last_time, claim.time)
        now.seq += 1
        ordinal = now.equals.get(said, 0)
        if ordinal or len(now.equals) < REMEMBERED_MAX:
            now.equals[said] = ordinal + 1
        if claim.place is not None and now.caller is None:
            now.caller = key
        self._note_call(claim)
        named = event_id(self.session_id, now.time, claim.kind, content, ordinal)
        return _event(claim, candidate, occurrence=now.time, seq=now.seq, late=late, event_id=named)

    def _note_call(self, claim: Claim) -> None:
        """Let a call with an id wait for its result, or end that."""
        if claim.kind not in _OF_TOOLS or claim.call_id is None:
            return
        if claim.kind is Kind.TOOL_RESULT:
            # A call is answered once; another result of its id answers none that is known.
            for told in self.seen:
                told.calls.pop(claim.call_id, None)
        else:
            expect(self.seen, claim)

    def _close(self, time: int, reason: Close, claim_log: ClaimLog | None) -> Iterator[Event]:
        """Close the open occurrence: what comes now belongs to the next one."""
        assert self.open is not None
        yield from self._judge_awaited({}, claim_log)
        ended = self.open
        self.open = None
        self.seen[-1].closed = time
        self.seen.append(SeenClaims())
        yield end_event(self.session_id, ended.time, time, ended.seq + 1, {"end": reason.value})

    def _forget(self, watermark: int) -> None:
        """Forget what closed occurrences told, when no span that is in time can repeat it any more."""
        self.seen = [
            one for one in self.seen if one.closed is None or watermark <= one.closed + 2 * self.idle
        ][-CLOSED_MAX - 1 :]
        while len(self.seen) > 1 and sum(one.size for one in self.seen) > REMEMBERED_MAX:
            del self.seen[0]


_Item: TypeAlias = tuple[Claim, str, Candidate]


def _items(ready: dict[str, Candidate], covered: set[str]) -> Iterator[_Item]:
    """Yield what the candidates tell; nothing of what others tell for them."""
    for key, candidate in ready.items():
        is_covered = candidate.covered or candidate.key in covered
        halves = {time for half, time in candidate.halves if half_key(candidate.key, half) in covered}
        for claim in candidate.claims:
            if claim.kind is Kind.END or not (is_covered or claim.time in halves):
                yield claim, key, candidate


def _in_order(items: list[_Item]) -> Iterator[_Item]:
    """Yield the tellings as they sort; what they say is looked at only where nothing else tells two apart."""
    items.sort(key=_place)
    for _, same in groupby(items, key=_place):
        tied = list(same)
        yield from tied if len(tied) == 1 else sorted(tied, key=_tie)


def _place(item: _Item) -> tuple[int, int, int, int]:
    """Return where a telling sorts: by time, place in the conversation, kind, place in the message."""
    claim = item[0]
    place = _NO_PLACE if claim.place is None else claim.place
    return claim.time, place, _KINDS[claim.kind], claim.rank


def _tie(item: _Item) -> tuple[str, int, int, str]:
    claim, key, candidate = item
    return _said(claim.kind, content_of(claim)), candidate.start, candidate.end, key


def _said(kind: Kind, content: list[str | None]) -> str:
    """Return a digest of what an event says, for telling equals apart from others."""
    return hashlib.blake2b(orjson.dumps([kind, content]), digest_size=8).hexdigest()


def _event(
    claim: Claim, candidate: Candidate, *, occurrence: int, seq: int, late: bool, event_id: str
) -> Event:
    """Return the event of a telling, at its place in its session."""
    content = claim.content
    if content is Content.CAPTURED and claim.tool is None and claim.kind in _OF_TOOLS:
        # Every call is of some tool: where nobody told which, that was not captured.
        content = Content.ABSENT
    return Event(
        session_id=candidate.session_id,
        occurrence=occurrence,
        time=claim.time,
        seq=seq,
        kind=claim.kind,
        late=late,
        history=claim.past,
        agent=candidate.agent,
        model=candidate.model,
        service=candidate.service,
        nested=candidate.nested,
        text=claim.text,
        tool=claim.tool,
        call_id=claim.call_id,
        args=claim.args,
        result=claim.result,
        error=claim.error,
        content=content,
        trace_id=candidate.trace_id or None,
        span_id=candidate.span_id or None,
        event_id=event_id,
        attributes=candidate.attributes,
    )
