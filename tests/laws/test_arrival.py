"""The spans of a trace give the same events in any order of arrival, however odd the trace is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.schemas.candidate import Candidate
from tracline.schemas.event import Event
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.resolve import candidate_of
from tracline.schemas.sessions.span_reading import SpanReading
from tracline.schemas.sessions.trace import Trace
from tracline.schemas.span_content import RETOLD, Message, Role, SpanContent, SpanRole, ToolCall, ToolResult

IDLE = 10**6
NAMES = st.sampled_from([None, "a", "b"])
CALL_IDS = st.sampled_from([None, "c1", "c2"])
CALLS = st.builds(ToolCall, CALL_IDS, NAMES, st.sampled_from([None, "{}", '{"a":1}']))
RESULTS = st.builds(ToolResult, CALL_IDS, NAMES, st.sampled_from([None, "x", "y"]), NAMES)
MESSAGES = st.one_of(
    st.builds(Message, st.just(Role.USER), st.sampled_from(["hi", "yes"])),
    st.builds(
        Message, st.just(Role.ASSISTANT), st.sampled_from([None, "ok"]), st.tuples(CALLS) | st.just(())
    ),
    st.builds(Message, st.just(Role.TOOL), results=st.tuples(RESULTS)),
)
CONVERSATIONS = st.none() | st.lists(MESSAGES, max_size=3).map(tuple)
SHARED = {
    "session": st.sampled_from([None, None, "s"]),
    "agent": NAMES,
    "model": NAMES,
    "nested": st.sampled_from([None, None, True]),
    "error": st.sampled_from([None, None, "timeout"]),
    "own_conversation": st.booleans(),
    "response_id": st.sampled_from([None, None, "r", RETOLD + "r"]),
    "ends": st.sampled_from([False] * 9 + [True]),
}
STEPS = st.one_of(
    st.builds(
        SpanContent,
        st.sampled_from([SpanRole.CHAT, SpanRole.AGENT]),
        input=CONVERSATIONS,
        output=CONVERSATIONS,
        **SHARED,
    ),
    st.builds(SpanContent, st.just(SpanRole.TOOL), call=CALLS, result=RESULTS, **SHARED),
    st.builds(SpanContent, st.just(SpanRole.OTHER), **SHARED),
)
IDS = st.sampled_from(["1", "2", "3", "4"])
TIMES = st.integers(1, 4)
SPANS = st.builds(
    SpanReading,
    st.just("t"),
    IDS,
    st.none() | IDS,
    start=TIMES,
    end=TIMES,
    content=STEPS,
    record_time=st.just(9),
    beside=st.booleans(),
)


def events_of(spans: Sequence[SpanReading]) -> dict[str, list[Event]]:
    """Return the events of each session after the spans came in that order."""
    trace = Trace()
    for reading in spans:
        trace.add(reading)
    inside = trace.coverage()
    sessions: dict[str, SessionAssembler] = defaultdict(lambda: SessionAssembler("", IDLE))
    for reading in spans:
        candidate = candidate_of(trace, reading, inside)
        assert isinstance(candidate, Candidate)
        session = sessions[candidate.session_id]
        session.session_id = candidate.session_id
        session.add(candidate)
    return {name: session.advance(9) for name, session in sessions.items()}


@given(st.lists(SPANS, min_size=2, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_the_order_of_arrival_decides_nothing(spans: list[SpanReading], random: object) -> None:
    """Spans of one id, copies that differ, circles, clocks that go back: any order gives the same events."""
    shuffled = list(spans)
    random.shuffle(shuffled)  # pyright: ignore[reportAttributeAccessIssue]
    assert events_of(shuffled) == events_of(spans)
