"""Session assembly gives the same events whether past claims are apart, as a history, or among the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.examples.desk.script import Script
from tracline.schemas.candidate import CallHistory, Candidate, Claim
from tracline.schemas.event import Event
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.resolve import candidate_of
from tracline.schemas.sessions.span_reading import SpanReading, read_span
from tracline.schemas.sessions.trace import Trace
from tracline.schemas.time import NS
from tracline.stream.messages.session_state import SessionState, decode, encode

from ..support.conversations.agent_spans import spans
from ..support.conversations.span_plan import Manner
from .quick_draws import quickly
from .test_arrival import SPANS
from .test_dialects import MANNERS
from .test_remembered import DESK, SESSIONS

TIMES_MAX = 30
"""The latest time of the small spans."""


@dataclass
class Assembled:
    """The events, states and due times of a session, at each step of its candidates."""

    events: list[list[Event]] = field(default_factory=list[list[Event]])
    states: list[SessionAssembler] = field(default_factory=list[SessionAssembler])
    due: list[int | None] = field(default_factory=list["int | None"])


def parted(candidate: Candidate) -> Candidate:
    """Return a candidate with its past claims apart, as the monitor reads them with a memory."""
    past = [claim for claim in candidate.claims if claim.past]
    if not past or candidate.claims[: len(past)] != tuple(past):
        return candidate
    bare = tuple(msgspec.structs.replace(claim, time=0) for claim in past)
    chars = candidate.chars - without(candidate, past).chars
    return msgspec.structs.replace(without(candidate, past), history=CallHistory(bare, chars))


def without(candidate: Candidate, past: Sequence[Claim]) -> Candidate:
    """Return a candidate without its first claims."""
    return msgspec.structs.replace(candidate, claims=candidate.claims[len(past) :])


def assembled(steps: Iterable[tuple[Sequence[Candidate], int]], idle: int) -> Assembled:
    """Return what a session makes of candidates and watermarks; its states have no history apart."""
    session, found = SessionAssembler("s", idle), Assembled()
    for candidates, watermark in steps:
        for candidate in candidates:
            session.add(candidate)
        found.events.append(session.advance(watermark))
        found.due.append(session.due)
        state = decode(encode(SessionState(session))).session
        state.held.join_histories()
        found.states.append(state)
    return found


def candidates_of(readings: Sequence[SpanReading]) -> list[Candidate]:
    """Return the candidates of one trace, all of one session."""
    trace = Trace()
    for reading in readings:
        trace.add(reading)
    coverage = trace.coverage()
    made = [candidate_of(trace, reading, coverage) for reading in readings]
    return [
        msgspec.structs.replace(candidate, session_id="s", digest=f"{candidate.digest}{number}")
        for number, candidate in enumerate(made)
        if isinstance(candidate, Candidate)
    ]


def check(steps: Sequence[tuple[Sequence[Candidate], int]], idle: int) -> None:
    """Assert that both forms give the same."""
    apart = [([parted(candidate) for candidate in added], watermark) for added, watermark in steps]
    assert assembled(apart, idle) == assembled(steps, idle)


@given(
    st.lists(quickly(SPANS), min_size=2, max_size=6, unique_by=lambda span: span.span_id),
    st.lists(st.integers(1, TIMES_MAX), min_size=6, max_size=6),
    st.lists(st.integers(1, 12), min_size=6, max_size=6),
    st.lists(st.integers(0, TIMES_MAX + 9), min_size=1, max_size=4),
    st.sampled_from([0, 1, 4, 10**6]),
)
@settings(max_examples=200, deadline=None)
def test_any_spans_become_the_same_events(
    readings: list[SpanReading], starts: list[int], lengths: list[int], watermarks: list[int], idle: int
) -> None:
    """Odd spans at any times, in any steps, with gaps that close the occurrence."""
    timed = [
        msgspec.structs.replace(reading, start=start, end=start + length)
        for reading, start, length in zip(readings, starts, lengths, strict=False)
    ]
    candidates = candidates_of(timed)
    times = [*sorted(watermarks), 2 * TIMES_MAX]
    check([(candidates[place :: len(times)], watermark) for place, watermark in enumerate(times)], idle)


@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
def test_conversations_become_the_same_events(manner: Manner) -> None:
    """Conversations in any manner of instrumentation, in random steps and orders."""
    for seed, script in enumerate(SESSIONS):
        candidates = sent(script, manner)
        random = Random(seed)
        for idle in (3600 * NS, 3 * NS):
            check(stepped(candidates, random), idle)


def sent(script: Script, manner: Manner) -> list[Candidate]:
    """Return the candidates of a conversation, by the end of their spans."""
    traces: dict[str, list[SpanReading]] = {}
    for span in spans(script, manner):
        traces.setdefault(span.trace_id, []).append(read_span(span))
    found = [candidate for readings in traces.values() for candidate in candidates_of(readings)]
    return sorted(found, key=lambda candidate: candidate.end)


def stepped(candidates: Sequence[Candidate], random: Random) -> list[tuple[list[Candidate], int]]:
    """Return candidates in steps of random sizes, some of them late, each with a watermark."""
    steps: list[tuple[list[Candidate], int]] = []
    left = [*candidates]
    while left:
        size = random.randrange(1, 6)
        added, left = left[:size], left[size:]
        steps.append((random.sample(added, len(added)), added[-1].end - random.choice([0, NS, 5 * NS])))
    return [*steps, ([], candidates[-1].end + 1)]


def test_the_history_of_later_calls_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call's history is read in a plain conversation; that of a call that comes first is."""
    candidates = [parted(candidate) for candidate in sent(DESK[0], MANNERS["plain"])]
    looked: list[str] = []
    past_claims = Candidate.past_claims.fget
    assert past_claims is not None

    def noted(candidate: Candidate) -> list[Claim]:
        looked.append(candidate.span_id)
        return past_claims(candidate)

    monkeypatch.setattr(Candidate, "past_claims", property(noted))
    session = SessionAssembler("s", 3600 * NS)
    for candidate in candidates:
        session.add(candidate)
        session.advance(candidate.end)
    assert sum(candidate.history is not None for candidate in candidates) > 3
    assert looked == []
    last = next(candidate for candidate in reversed(candidates) if candidate.history is not None)
    late = SessionAssembler("s", 3600 * NS)
    late.add(last)
    assert late.advance(last.end)
    assert looked == [last.span_id]
