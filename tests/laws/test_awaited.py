"""Runs without content: whatever comes when, live and over history the same events are judged."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.schemas.candidate import Candidate
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.claims import claims_of
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
    heard: list[Message] = []
    clock = 0
    for turn, (runs, is_told, pause) in enumerate(turns):
        heard.append(Message(Role.USER, f"turn {turn}"))
        calls = [ToolCall(f"c{turn}.{n}" if one.has_id else None, "look", "{}") for n, one in enumerate(runs)]
        asked = Message(Role.ASSISTANT, None if runs else "done", tuple(calls))
        made.append(chat(len(made), clock, clock + 2, heard, asked))
        heard.append(asked)
        clock += 3
        for number, (run, call) in enumerate(zip(runs, calls, strict=True)):
            if run.works:
                inner = [Message(Role.USER, f"for {turn}.{number}")]
                made.append(chat(len(made), clock, clock + 1, inner, Message(Role.ASSISTANT, "inner")))
            if run.has_span:
                made.append(tool(len(made), clock, clock + 2, call, run, f"r{turn}.{number}"))
            clock += 3 + run.pause
        told = tuple(ToolResult(call.call_id, None, f"r{turn}.{number}") for number, call in enumerate(calls))
        heard.append(Message(Role.TOOL, results=told))
        if is_told:
            answer = Message(Role.ASSISTANT, f"answer {turn}")
            made.append(chat(len(made), clock, clock + 1, heard, answer))
            heard.append(answer)
        clock += pause
    return made


def chat(number: int, start: int, end: int, heard: list[Message], said: Message) -> Candidate:
    """A model's call."""
    return candidate(number, start, end, SpanContent(SpanRole.CHAT, input=tuple(heard), output=(said,)))


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
    told, digest = claims_of(content, start + 1, end + 1)
    return Candidate("s", content.role, start + 1, end + 1, told, "t", f"{number:03}", digest)


def live(sent: list[Candidate], random: Random) -> tuple[list[Event], int]:
    """The events in steps of time, the state written down after each; and the time that was reached."""
    state = SessionState(SessionAssembler("s", IDLE))
    events: list[Event] = []
    now, until = 0, max(one.end for one in sent) + random.randrange(2 * IDLE)
    waiting = sorted(sent, key=lambda one: one.end)
    while now < until:
        now = min(now + random.choice((1, 2, 5, IDLE)), until)
        come = [one for one in waiting if one.end <= now]
        waiting = [one for one in waiting if one.end > now]
        random.shuffle(come)
        for one in come:
            state.session.add(one)
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
    for one in sent:
        session.add(one)
    whole = session.advance(max(one.end for one in sent)) + session.finish(until)
    assert [one for one in judged if one.kind is not Kind.END] == [
        one for one in whole if one.kind is not Kind.END
    ]
    assert not any(one.late for one in judged)


@given(TURNS)
@settings(max_examples=200, deadline=None)
def test_no_result_is_lost_or_doubled(turns: Turns) -> None:
    """Each run with a span, and each result in a model's input, is one event."""
    session = SessionAssembler("s", 10**9)
    for one in spans(turns):
        session.add(one)
    found = [one for one in session.advance(10**9) + session.finish(None) if one.kind is Kind.TOOL_RESULT]
    known = sum(
        run.has_span or is_told or turn + 1 < len(turns)
        for turn, (runs, is_told, _) in enumerate(turns)
        for run in runs
    )
    assert len(found) == known
    told = [one.result for one in found if one.result is not None]
    assert len(told) == len(set(told))
