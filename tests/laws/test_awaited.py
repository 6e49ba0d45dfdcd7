"""Runs without content: whatever comes when, live and over history the same events are judged."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.schemas.candidate import Candidate
from tracline.schemas.claims.span_claims import claims_of
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.span_content import Message, Role, SpanContent, SpanRole, ToolCall, ToolResult
from tracline.stream.messages.session_state import SessionState, decode, encode

IDLE = 1_000


@dataclass(frozen=True)
class Run:
    """A call of a tool: whether it has an id, whether its span has content, whether an agent works for it."""

    has_id: bool
    is_captured: bool
    has_span: bool
    works: bool
    pause: int


RUNS = st.builds(Run, *[st.booleans()] * 4, st.sampled_from([0, 1, 3]))
TURNS = st.lists(
    st.tuples(st.lists(RUNS, max_size=3), st.booleans(), st.sampled_from([2, 2 * IDLE])),
    min_size=1,
    max_size=4,
)
Turns: TypeAlias = list[tuple[list[Run], bool, int]]


def spans(turns: Turns) -> list[Candidate]:
    """A conversation: in each turn a model calls tools; its next call may have no span."""
    made: list[Candidate] = []
    history: list[Message] = []
    clock = 0
    for turn, (runs, is_reported, pause) in enumerate(turns):
        history.append(Message(Role.USER, f"turn {turn}"))
        calls = [
            ToolCall(f"c{turn}.{n}" if call_run.has_id else None, "look", "{}")
            for n, call_run in enumerate(runs)
        ]
        asked = Message(Role.ASSISTANT, None if runs else "done", tuple(calls))
        made.append(chat(len(made), clock, clock + 2, history, asked))
        history.append(asked)
        clock += 3
        for number, (run, call) in enumerate(zip(runs, calls, strict=True)):
            if run.works:
                inner = [Message(Role.USER, f"for {turn}.{number}")]
                made.append(chat(len(made), clock, clock + 1, inner, Message(Role.ASSISTANT, "inner")))
            if run.has_span:
                made.append(tool(len(made), clock, clock + 2, call, run, f"r{turn}.{number}"))
            clock += 3 + run.pause
        results = tuple(
            ToolResult(call.call_id, None, f"r{turn}.{number}") for number, call in enumerate(calls)
        )
        history.append(Message(Role.TOOL, results=results))
        if is_reported:
            answer = Message(Role.ASSISTANT, f"answer {turn}")
            made.append(chat(len(made), clock, clock + 1, history, answer))
            history.append(answer)
        clock += pause
    return made


def chat(number: int, start: int, end: int, history: list[Message], answer: Message) -> Candidate:
    """A model's call."""
    return candidate(number, start, end, SpanContent(SpanRole.CHAT, input=tuple(history), output=(answer,)))


def tool(number: int, start: int, end: int, call: ToolCall, run: Run, result: str) -> Candidate:
    """A tool's run."""
    if run.is_captured:
        content = SpanContent(SpanRole.TOOL, call=call, result=ToolResult(call.call_id, call.tool, result))
    else:
        nothing = ToolResult(call.call_id, call.tool, None, content=Content.ABSENT)
        content = SpanContent(
            SpanRole.TOOL, call=ToolCall(call.call_id, call.tool, None, Content.ABSENT), result=nothing
        )
    return candidate(number, start, end, content)


def candidate(number: int, start: int, end: int, content: SpanContent) -> Candidate:
    """Return the content of a span."""
    claims, digest = claims_of(content, start + 1, end + 1)
    return Candidate("s", content.role, start + 1, end + 1, claims, "t", f"{number:03}", digest)


def live(sent: list[Candidate], random: Random) -> tuple[list[Event], int]:
    """The events in steps of time, the state written down after each; and the time that was reached."""
    state = SessionState(SessionAssembler("s", IDLE))
    events: list[Event] = []
    now, until = 0, max(item.end for item in sent) + random.randrange(2 * IDLE)
    waiting = sorted(sent, key=lambda item: item.end)
    while now < until:
        now = min(now + random.choice((1, 2, 5, IDLE)), until)
        come = [item for item in waiting if item.end <= now]
        waiting = [item for item in waiting if item.end > now]
        random.shuffle(come)
        for item in come:
            state.session.add(item)
        events += state.session.advance(now)
        state = decode(encode(state))
    return events, until


@given(TURNS, st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_steps_of_time_decide_nothing(turns: Turns, random: Random) -> None:
    """As of any time an audit of all that came by then judges what was judged live, closes aside."""
    sent = spans(turns)
    judged, until = live(sent, random)
    session = SessionAssembler("s", IDLE)
    for sent_candidate in sent:
        session.add(sent_candidate)
    whole = session.advance(max(sent_candidate.end for sent_candidate in sent)) + session.finish(until)
    assert [sent_candidate for sent_candidate in judged if sent_candidate.kind is not Kind.END] == [
        sent_candidate for sent_candidate in whole if sent_candidate.kind is not Kind.END
    ]
    assert not any(sent_candidate.late for sent_candidate in judged)


@given(TURNS)
@settings(max_examples=200, deadline=None)
def test_no_result_is_lost_or_doubled(turns: Turns) -> None:
    """Each run with a span, and each result in a model's input, is one event."""
    session = SessionAssembler("s", 10**9)
    for session_candidate in spans(turns):
        session.add(session_candidate)
    found = [
        session_candidate
        for session_candidate in session.advance(10**9) + session.finish(None)
        if session_candidate.kind is Kind.TOOL_RESULT
    ]
    known = sum(
        run.has_span or is_reported or turn + 1 < len(turns)
        for turn, (runs, is_reported, _) in enumerate(turns)
        for run in runs
    )
    assert len(found) == known
    results = [
        session_candidate.result for session_candidate in found if session_candidate.result is not None
    ]
    assert len(results) == len(set(results))
