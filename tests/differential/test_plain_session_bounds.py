"""Sessions at the bounds of what the short pass may take: it does what the ordinary way does."""

from __future__ import annotations

from collections import Counter

import pytest
from tracline.schemas.candidate import CallHistory, Candidate, Claim
from tracline.schemas.event import Kind
from tracline.schemas.span_content import SpanRole

from .test_plain_sessions import Pair

IDLE = 100


def message(kind: Kind, time: int, place: int, text: str) -> Claim:
    """Return the claim of a message."""
    return Claim(kind, time, text, place=place, key=f"{place} {text}")


HISTORY = CallHistory((Claim(Kind.USER, 0, "a", place=0, key="0 a", past=True),), 1)


def test_an_agent_beside_the_call_that_claims_its_messages_is_no_plain_span() -> None:
    """The agent's span makes no event of its own, whichever of both comes first."""
    claims = message(Kind.USER, 1, 0, "a"), message(Kind.ASSISTANT, 9, 1, "b")
    agent = Candidate("s", SpanRole.AGENT, 1, 9, claims, "t", "1")
    call = Candidate(
        "s", SpanRole.CHAT, 2, 8, (message(Kind.USER, 2, 0, "a"),), "t", "2", within=(agent.key,)
    )
    pair = Pair(IDLE, Counter())
    pair.step([call, agent], 9, is_stored=False)
    assert pair.counts["events"] == 1


def test_a_history_at_the_time_of_a_waiting_claim_waits_with_it() -> None:
    """A call without a claim of its own has one then, which decides with the others of that time."""
    waiting = Candidate("s", SpanRole.CHAT, 10, 30, (message(Kind.USER, 10, 2, "c"),), "t", "4")
    for start in (9, 10, 11):
        pair = begun()
        bare = Candidate("s", SpanRole.CHAT, start, 12, (), "t", "3", history=HISTORY)
        pair.step([answer(5), bare, waiting], 20, is_stored=False)
        assert len(pair.plain.held.candidates) == (1 if start < 10 else 2)
        pair.step([], 40, is_stored=False)


def test_what_waits_from_the_time_of_the_last_event_on_holds_later_claims() -> None:
    """A span that ends later has a claim, or only a history, at that time."""
    for time in (1, 2, 3):
        for claims, history in (((message(Kind.USER, time, 2, "c"),), None), ((), HISTORY)):
            pair = begun()
            waiting = Candidate("s", SpanRole.CHAT, time, 30, claims, "t", "3", history=history)
            pair.step([answer(5), waiting], 20, is_stored=False)
            assert pair.counts["events"] == (2 if time < 2 else 1)
            pair.step([], 40, is_stored=False)


def test_a_history_at_the_time_of_the_first_claim_may_begin_the_session() -> None:
    """It does where its first message precedes the claim in the conversation."""
    for start in (4, 5, 6):
        pair = Pair(IDLE, Counter())
        bare = Candidate("s", SpanRole.CHAT, start, 7, (), "t", "3", history=HISTORY)
        pair.step([answer(5), bare], 7, is_stored=False)
        assert pair.counts["events"] == (1 if start == 6 else 2)


def begun() -> Pair:
    """Return a session with an event at 2."""
    pair = Pair(IDLE, Counter())
    pair.step(
        [Candidate("s", SpanRole.CHAT, 2, 2, (message(Kind.USER, 2, 0, "a"),), "t", "1")], 2, is_stored=False
    )
    return pair


def answer(time: int) -> Candidate:
    """Return the call of a model that answers at a time."""
    return Candidate("s", SpanRole.CHAT, 4, time, (message(Kind.ASSISTANT, time, 1, "b"),), "t", "2")


@pytest.mark.parametrize("ids", [("fc_1", "c1"), ("c1", "fc_1")])
def test_a_result_with_the_id_of_a_call_may_be_of_its_item(ids: tuple[str, str]) -> None:
    """A later use of equal arguments has it, not the one with the id: one of both ids is of an item."""
    pair = Pair(IDLE, Counter())
    for number, call_id in enumerate(ids):
        start = 1 + 3 * number
        claim = Claim(Kind.TOOL_CALL, start + 1, None, "f", call_id, "{}", place=1 + number)
        called = Candidate("s", SpanRole.CHAT, start, start + 1, (claim,), "t", f"{number}")
        pair.step([called], called.end, is_stored=False)
    claim = Claim(Kind.TOOL_RESULT, 7, None, "f", ids[0], "{}", "x", place=3, answered=True)
    pair.step([Candidate("s", SpanRole.CHAT, 7, 8, (claim,), "t", "3")], 8, is_stored=False)
    assert pair.counts["events"] == 3


def test_a_call_beside_a_result_with_a_place_is_half_a_run() -> None:
    """The result is of a conversation: its span has not run the tool to the end."""
    pair = Pair(IDLE, Counter())
    call = Claim(Kind.TOOL_CALL, 2, None, "f", "c1", "{}", place=1)
    pair.step([Candidate("s", SpanRole.CHAT, 1, 2, (call,), "t", "1")], 2, is_stored=False)
    half = Claim(Kind.TOOL_CALL, 3, None, "f", "c1", "{}")
    result = Claim(Kind.TOOL_RESULT, 4, None, "f", "c1", "{}", "x", place=2, answered=True)
    pair.step([Candidate("s", SpanRole.TOOL, 3, 4, (half, result), "t", "2")], 4, is_stored=False)
    assert pair.counts["events"] == 2
