"""Session assembly, sentence by sentence of what is promised: from spans' steps to a session's events."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from tracline.schemas.candidate import Candidate
from tracline.schemas.chat.find import InputFlaw
from tracline.schemas.event import Content, Event
from tracline.schemas.frames.candidates import candidate_frame, candidates_of
from tracline.schemas.frames.events import event_frame
from tracline.schemas.sessions import trace as traces_module
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.coverage import Coverage
from tracline.schemas.sessions.order import session_order
from tracline.schemas.sessions.pending import Released
from tracline.schemas.sessions.resolve import candidate_of
from tracline.schemas.sessions.span_reading import SpanReading, read_span
from tracline.schemas.sessions.trace import ANCESTORS_MAX, Trace, orphans
from tracline.schemas.span import Span, Value
from tracline.schemas.span_content import Message, Role, SpanContent, SpanRole, ToolCall, ToolResult
from tracline.schemas.time import NS

from ...support.sources import PendingTraces

IDLE_S = 3600
LOOK_UP = ToolCall("c1", "look_up", '{"id": 1}')
FOUND = ToolResult("c1", "look_up", "found")


def user(text: str) -> Message:
    """Return a customer's message."""
    return Message(Role.USER, text)


def agent(text: str | None = None, *calls: ToolCall) -> Message:
    """Return an agent's message with its calls."""
    return Message(Role.ASSISTANT, text, calls=calls)


def answer(*results: ToolResult) -> Message:
    """Return what tools return."""
    return Message(Role.TOOL, results=results)


def reading(
    span: str, start: float, end: float, content: SpanContent, parent: str | None = "root", **more: Any
) -> SpanReading:
    """A span of the trace `t`; times in seconds."""
    trace = more.pop("trace", "t")
    return SpanReading(trace, span, parent, round(start * NS), round(end * NS), content, **more)


def root(end: float = 100, **more: Any) -> SpanReading:
    """Return the agent's span around all others, which alone names the session."""
    return reading(
        "root", 0.5, end, SpanContent(SpanRole.AGENT, session="s", agent="bot"), parent=None, **more
    )


def chat(
    span: str, start: float, end: float, history: Iterable[Message] | None, *spoken: Message, **more: Any
) -> SpanReading:
    """Return a model's call; without `said` its messages were not captured."""
    fields = {key: more.pop(key) for key in ("parent", "trace", "scope", "record_time") if key in more}
    content = SpanContent(
        SpanRole.CHAT,
        input=None if history is None else tuple(history),
        output=None if history is None else spoken,
        **more,
    )
    return reading(span, start, end, content, **fields)


def run(span: str, start: float, end: float, call: ToolCall, result: ToolResult, **more: Any) -> SpanReading:
    """A tool's run."""
    return reading(span, start, end, SpanContent(SpanRole.TOOL, call=call, result=result), **more)


def resolved(spans: Iterable[SpanReading]) -> list[Candidate]:
    """The candidates of the spans' traces, all of them known."""
    traces: dict[str, Trace] = {}
    for span_reading in spans:
        traces.setdefault(span_reading.trace_id, Trace()).add(span_reading)
    found: list[Candidate] = []
    for trace in traces.values():
        inside = trace.coverage()
        for span_reading in trace.all():
            candidate = candidate_of(trace, span_reading, inside)
            assert isinstance(candidate, Candidate)
            found += [candidate] if candidate.claims else []
    return found


def assembled(
    candidates: Iterable[Candidate], idle_s: float = IDLE_S
) -> tuple[list[Event], SessionAssembler]:
    """Return the events of one session after all its spans came, and its state then."""
    session = SessionAssembler("s", round(idle_s * NS))
    last = 0
    for candidate in candidates:
        assert candidate.session_id == "s"
        session.add(candidate)
        last = max(last, candidate.end)
    return session.advance(last), session


def events(*spans: SpanReading, idle_s: float = IDLE_S) -> list[Event]:
    """The events of these spans."""
    return assembled(resolved(spans), idle_s)[0]


def texts(found: Iterable[Event]) -> list[str]:
    """Events in short: who, and what."""
    return [f"{event.kind}: {event.text or event.result or event.args or ''}" for event in found]


TURN = [
    chat("a", 1, 2, [user("hi")], agent(None, LOOK_UP)),
    run("b", 3, 4, LOOK_UP, FOUND),
    chat("c", 5, 6, [user("hi"), agent(None, LOOK_UP), answer(FOUND)], agent("done")),
]
TEXTS = ["user: hi", 'tool_call: {"id": 1}', "tool_result: found", "assistant: done"]


def test_each_event_of_a_turn_comes_once() -> None:
    """A repeated history, a call and a result on two spans: each is one event."""
    found = events(root(), *TURN)
    assert texts(found) == TEXTS
    assert [event.time // NS for event in found] == [1, 2, 4, 6]
    assert [event.seq for event in found] == [1, 2, 3, 4]
    assert not any(event.history or event.late or event.nested for event in found)
    assert {(event.agent, event.occurrence, event.session_id) for event in found} == {("bot", NS, "s")}


def test_any_order_of_arrival_gives_the_same_events() -> None:
    """All orders of the spans, each span once or twice."""
    spans = [root(), *TURN]
    expected = events(*spans)
    for order in permutations(spans):
        assert events(*order, *order[:2]) == expected


def test_live_gives_the_events_of_history_whatever_the_time_stands_at() -> None:
    """Advancing after every span, in the order of their ends, nothing is late."""
    expected = events(root(), *TURN)
    session, found = SessionAssembler("s", IDLE_S * NS), list[Event]()
    for candidate in sorted(resolved([root(), *TURN]), key=lambda candidate: candidate.end):
        session.add(candidate)
        found += session.advance(candidate.end)
    assert found == expected
    assert session.late == 0


def test_rows_of_candidates_give_the_same_events() -> None:
    """Candidates written as rows, shuffled and doubled, give what the candidates give."""
    candidates = resolved([root(), *TURN])
    rows = candidate_frame(candidates)
    assert list(candidates_of(rows)) == candidates
    shuffled = pl.concat([rows.sample(fraction=1, shuffle=True, seed=1), rows])
    judged = session_order(shuffled, IDLE_S)
    assert judged.events.equals(event_frame(assembled(candidates)[0]))
    assert judged.repeats >= 3


def test_an_events_id_does_not_depend_on_its_span() -> None:
    """From the model's spans, the tool's as well, or spans with other ids: the event ids are the same."""
    both = events(root(), *TURN)
    model_alone = events(root(), TURN[0], TURN[2])
    renamed = events(
        reading(
            "r2", 0.5, 100, SpanContent(SpanRole.AGENT, session="s", agent="bot"), parent=None, trace="u"
        ),
        *(replace(event, trace_id="u", parent_id="r2", span_id=f"x{event.span_id}") for event in TURN),
    )
    assert [event.event_id for event in model_alone] == [event.event_id for event in both]
    assert [event.event_id for event in renamed] == [event.event_id for event in both]


def test_the_first_call_of_an_occurrence_has_the_history() -> None:
    """It is marked as history up to its last assistant message; later calls add what is new."""
    before = [user("hi"), agent("hello"), user("help")]
    found = events(
        root(), chat("a", 1, 2, before, agent("how?")), chat("b", 3, 4, [*before, agent("how?"), user("so")])
    )
    assert texts(found) == ["user: hi", "assistant: hello", "user: help", "assistant: how?", "user: so"]
    assert [event.history for event in found] == [True, True, False, False, False]
    assert [event.time // NS for event in found] == [1, 1, 1, 2, 3]


def test_a_call_and_its_run_pair_in_time_order_by_arguments_without_ids() -> None:
    """Two equal calls without ids and their two runs are two calls, with ids on either side."""
    call = ToolCall(None, "look_up", '{"id":1}')
    first = chat("a", 1, 2, [user("hi")], agent(None, call, call))
    runs = [
        run("b", 3, 4, LOOK_UP, FOUND),
        run(
            "d", 3.5, 5, ToolCall("c2", "look_up", '{ "id" : 1 }'), ToolResult("c2", "look_up", "found again")
        ),
    ]
    found = events(root(), first, *runs)
    assert [event.kind for event in found] == ["user", "tool_call", "tool_call", "tool_result", "tool_result"]
    assert [event.call_id for event in found] == [None, None, None, "c1", "c2"]


def test_calls_that_differ_do_not_pair() -> None:
    """Another id, another tool, other arguments: then the run is a call of its own."""
    first = chat("a", 1, 2, [user("hi")], agent(None, LOOK_UP))
    for different in (
        ToolCall("c9", "look_up", '{"id": 1}'),
        ToolCall("c1", "refund", '{"id": 1}'),
        ToolCall(None, "look_up", "{}"),
    ):
        found = events(root(), first, run("b", 3, 4, different, ToolResult(None, different.tool, "x")))
        assert [event.kind for event in found] == ["user", "tool_call", "tool_call", "tool_result"]


def test_a_result_carries_the_arguments_of_its_call() -> None:
    """Also where the call that answers it stands in another span's output."""
    found = events(
        root(),
        chat("a", 1, 2, [user("hi")], agent(None, LOOK_UP)),
        chat("b", 3, 4, [answer(ToolResult("c1", None, "found"))], agent("done")),
    )
    assert (found[2].tool, found[2].args) == ("look_up", '{"id": 1}')


def test_of_wrapped_model_calls_the_innermost_counts() -> None:
    """Two instrumentations, or an outer call around its steps: the messages come from the inner spans."""
    outer = chat("o", 0.9, 6.1, [user("hi, wrapped")], agent("done, wrapped"))
    inner = [replace(span, parent_id="o") for span in TURN]
    assert texts(events(root(), outer, *inner)) == TEXTS
    between = reading("m", 0.95, 6.05, SpanContent(SpanRole.OTHER), parent="o")
    assert texts(events(root(), outer, between, *(replace(span, parent_id="m") for span in TURN))) == TEXTS


def test_an_agents_messages_count_where_no_model_call_has_them() -> None:
    """An agent span with messages stands for the calls below it, if there are any."""
    content = SpanContent(
        SpanRole.AGENT, session="s", agent="bot", input=(user("hi"),), output=(agent("done"),)
    )
    alone = reading("root", 1, 9, content, parent=None)
    assert texts(events(alone)) == ["user: hi", "assistant: done"]
    assert texts(events(alone, *TURN)) == TEXTS


def test_a_tool_that_hands_over_to_an_agent_hides_nothing_of_its_caller() -> None:
    """The caller's messages are events beside those of the sub-agent, which are nested."""
    content = SpanContent(
        SpanRole.AGENT, session="s", agent="bot", input=(user("hi"),), output=(agent("done"),)
    )
    found = events(
        reading("root", 1, 9, content, parent=None),
        run("b", 3, 6, LOOK_UP, FOUND),
        chat("n", 4, 5, [user("look it up")], agent("found")),
        chat("n2", 4, 5, [user("look it up well")], agent("found"), parent="b"),
    )
    nested = {event.text for event in found if event.nested}
    assert nested == {"look it up well", "found"}


def test_a_sub_agent_is_below_another_agent_or_a_tool() -> None:
    """A span's explicit attribute for nesting wins."""
    inner = reading("i", 2, 8, SpanContent(SpanRole.AGENT, agent="helper"))
    found = events(root(), inner, chat("a", 3, 4, [user("x")], agent("y"), parent="i"))
    assert [event.nested for event in found] == [True, True]
    assert {event.agent for event in found} == {"helper"}
    same = reading("i", 2, 8, SpanContent(SpanRole.AGENT, agent="bot"))
    found = events(root(), same, chat("a", 3, 4, [user("x")], agent("y"), parent="i"))
    assert [event.nested for event in found] == [False, False]
    found = events(root(), inner, chat("a", 3, 4, [user("x")], agent("y"), parent="i", nested=False))
    assert [event.nested for event in found] == [False, False]


def test_a_retried_call_repeats_its_messages() -> None:
    """After a failure, or beside a call that runs: the customer's message is one event."""
    failed = chat("a", 1, 2, [user("hi")], error="timeout")
    again = chat("b", 3, 4, [user("hi")], agent("hello"))
    assert texts(events(root(), failed, again)) == ["user: hi", "assistant: hello"]
    beside = chat("b", 1.5, 4, [user("hi")], agent("hello"))
    assert texts(events(root(), chat("a", 1, 2, [user("hi")], agent("hello")), beside)) == [
        "user: hi",
        "assistant: hello",
    ]


def test_a_customer_may_write_the_same_twice() -> None:
    """Without an answer before it, one call after another that went well: two events."""
    first, second = (chat(s, t, t + 1, [user("hi")], agent("hello")) for s, t in (("a", 1), ("b", 3)))
    assert texts(events(root(), first, second)) == ["user: hi", "assistant: hello"] * 2
    ids = [event.event_id for event in events(root(), first, second)]
    assert len(set(ids)) == 4


def test_what_was_answered_before_repeats_whenever_it_comes() -> None:
    """With an answer in what stands before, equal histories are one; system messages do not count."""
    before = [user("hi"), agent("hello"), user("help")]
    rules = Message(Role.INSTRUCTION, "be kind")
    found = events(
        root(),
        chat("a", 1, 2, before, agent("ok")),
        chat("b", 30, 31, [rules, *before], agent("ok")),
        chat("c", 40, 41, before, agent("sure")),
    )
    assert texts(found) == ["user: hi", "assistant: hello", "user: help", "assistant: ok", "assistant: sure"]


def test_a_session_closes_at_its_end_mark() -> None:
    """Later spans begin a new occurrence, with its own ids; an exporter's retry opens nothing."""
    mark = reading("e", 6.5, 7, SpanContent(SpanRole.OTHER, ends=True))
    later = chat("z", 9, 10, [user("hi")], agent("again"))
    candidates = resolved([root(), *TURN, mark, later])
    found, session = assembled([*candidates, *resolved([root(), *TURN])])
    assert texts(found) == [*TEXTS, "end: ", "user: hi", "assistant: again"]
    assert [event.occurrence // NS for event in found] == [1] * 5 + [9] * 2
    assert [event.seq for event in found] == [1, 2, 3, 4, 5, 1, 2]
    assert found[4].attributes == {"end": "mark"}
    assert session.stray_ends == 0


def test_a_session_closes_when_it_is_idle() -> None:
    """By its next event, or by the watermark; its end is `idle_s` after its last event."""
    found = events(root(), *TURN, chat("z", 20, 21, [user("hi")], agent("again")), idle_s=10)
    assert texts(found) == [*TEXTS, "end: ", "user: hi", "assistant: again"]
    assert (found[4].time, found[4].attributes) == (16 * NS, {"end": "idle"})
    session = assembled(resolved([root(), *TURN]), idle_s=10)[1]
    assert texts(session.advance(16 * NS)) == []
    assert texts(session.advance(16 * NS + 1)) == ["end: "]
    assert session.due is not None


def test_what_comes_too_late_is_judged_where_it_comes() -> None:
    """It is marked as late, and its place in the order of events is the next one."""
    session = SessionAssembler("s", IDLE_S * NS)
    first, late = resolved(
        [
            chat("b", 5, 6, [user("two")], agent("2"), session="s"),
            chat("a", 1, 2, [user("one")], agent("1"), session="s"),
        ]
    )
    session.add(first)
    assert texts(session.advance(6 * NS)) == ["user: two", "assistant: 2"]
    session.add(late)
    found = session.advance(6 * NS)
    assert [(event.text, event.late, event.seq) for event in found] == [("one", True, 3), ("1", True, 4)]
    assert session.late == 2


def test_a_late_claim_of_a_judged_event_is_dropped_and_counted() -> None:
    """The earliest claim gives every field, unless it comes after the event was judged."""
    call, tool = resolved(
        [
            chat("a", 1, 2, [user("hi")], agent(None, LOOK_UP), session="s"),
            run("b", 1.5, 4, LOOK_UP, FOUND, parent="a"),
        ]
    )
    session = SessionAssembler("s", IDLE_S * NS)
    session.add(call)
    assert session.advance(2 * NS)[1].time == 2 * NS
    session.add(tool)
    assert texts(session.advance(4 * NS)) == ["tool_result: found"]
    assert (session.late, session.repeats) == (1, 1)
    assert [event.time / NS for event in assembled([call, tool])[0]] == [1, 1.5, 4]


def test_messages_that_were_not_captured_are_unknown_events() -> None:
    """Input and output each; a call that failed had no output; tools' runs are known all the same."""
    found = events(
        root(), chat("a", 1, 2, None), run("b", 3, 4, ToolCall("c", "f", None, Content.ABSENT), FOUND)
    )
    assert [(event.kind, event.content) for event in found] == [
        ("unknown", "absent"),
        ("unknown", "absent"),
        ("tool_call", "absent"),
        ("tool_result", "captured"),
    ]
    failed = reading("a", 1, 2, SpanContent(SpanRole.CHAT, output=(), error="timeout"))
    assert [event.kind for event in events(root(), failed)] == ["unknown"]


def test_the_session_is_the_nearest_key() -> None:
    """Its own key, its nearest ancestor's, the trace's earliest span's, else the trace id."""
    keyed = chat("a", 1, 2, [user("x")], session="own", parent="m")
    middle = reading("m", 1, 3, SpanContent(SpanRole.OTHER, session="middle"))
    below = chat("b", 1, 2, [user("x")], parent="m")
    beside = chat("c", 1, 2, [user("x")], parent="gone")
    found = {
        candidate.span_id: candidate.session_id
        for candidate in resolved([root(), middle, keyed, below, beside])
    }
    assert found == {"a": "own", "b": "middle", "c": "s"}
    assert resolved([chat("a", 1, 2, [user("x")])])[0].session_id == "t"
    assert resolved([replace(keyed, scope="acme/")])[0].session_id == "acme/own"


def test_a_tool_without_a_name_was_not_captured() -> None:
    """A run without a name, a result of an unknown call, a second answer: their tool is unknown."""
    nameless = run("b", 1, 2, ToolCall("c", None, "{}"), ToolResult("c", None, "x"))
    assert [(event.tool, event.content) for event in events(root(), nameless)] == [(None, "absent")] * 2
    again = replace(FOUND, tool=None, result="found again")
    once = replace(FOUND, tool=None)
    found = events(root(), TURN[0], chat("c", 5, 6, [user("hi"), agent(None, LOOK_UP), answer(once, again)]))
    results = [(event.tool, event.result, event.content) for event in found if event.kind == "tool_result"]
    assert results == [("look_up", "found", "captured"), (None, "found again", "absent")]


def test_tenants_stay_apart_whatever_they_are_called() -> None:
    """A name that is empty, holds what stands between names, or is too long for one makes no two into one."""

    def scope(*values: Value) -> str:
        resource = dict(zip("ab", values, strict=True))
        return read_span(Span("t" * 32, "s" * 16, None, "", 1, 2, resource=resource), ("a", "b")).scope

    assert scope("acme", "eu") == "acme/eu/"
    names = ["", "a/", "/a", "a%2F", "x" * 9_999, "x" * 9_998, "\udc00", 7, None]
    scopes = {scope(left, right) for left in names for right in names}
    assert len(scopes) == (len(names) - 1) ** 2
    assert max(map(len, scopes)) < 100


def test_parents_that_go_in_circles_are_cut() -> None:
    """A span that calls itself its parent, and two that call each other: all keep the trace's session."""
    circular = chat("a", 1, 2, [user("x")], parent="a")
    pair = [chat("b", 1, 2, [user("y")], parent="c"), chat("c", 1, 2, [user("z")], parent="b")]
    trace = Trace()
    for span in (root(), circular, *pair, chat("d", 1, 2, [user("w")], parent="gone")):
        trace.add(span)
    assert orphans(trace) == 1
    assert {span.session_id for span in resolved(trace.all())} == {"s"}


def test_a_circle_of_model_calls_is_read() -> None:
    """Cut above its earliest span, so that one of them is the innermost, in any order of arrival."""
    circle = [
        chat("b", 1, 6, [user("x")], parent="d", session="s"),
        chat("c", 2, 5, [user("y")], parent="b"),
        chat("d", 3, 4, [user("z")], parent="c"),
    ]
    for order in permutations(circle):
        assert texts(events(*order)) == ["user: z"]
    traces = PendingTraces(hold=0, keep=60 * NS)
    for span in circle:
        traces.add(span)
    released = made(traces.release(9 * NS, 9 * NS))
    assert texts(assembled(released)[0]) == ["user: z"]


@pytest.mark.parametrize("field", ["session", "agent", "model", "service", "nested"])
def test_spans_of_one_id_and_time_are_distinguished_by_content(field: str) -> None:
    """Whichever comes first, what is below inherits from the same one."""
    values = (True, False) if field == "nested" else ("p", "q")
    above = [
        reading("m", 1, 9, SpanContent(SpanRole.OTHER, **{field: value}), parent=None) for value in values
    ]
    below = chat("a", 2, 3, [user("x")], parent="m")
    found = {
        tuple(
            (candidate.session_id, candidate.agent, candidate.model, candidate.service, candidate.nested)
            for candidate in resolved(order)
        )
        for order in permutations([*above, below])
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    "changes", [{"start": 2 * NS}, {"end": 7 * NS}, {"agent": "bot"}, {"nested": True}, {"covered": True}]
)
def test_copies_of_a_span_that_differ_are_one_in_any_order(changes: dict[str, Any]) -> None:
    """Sent twice with other times, or resolved at two times: the same one wins in any order."""
    (single,) = resolved([replace(TURN[0], parent_id=None, content=replace(TURN[0].content, session="s"))])
    copies = [single, replace(single, **changes)]
    live = [assembled(order) for order in permutations(copies)]
    assert live[0][0] == live[1][0]
    assert [session.repeats for _, session in live] == [1, 1]
    for order in permutations(copies):
        judged = session_order(candidate_frame(order), IDLE_S)
        assert judged.repeats == 1
        assert judged.events.equals(event_frame(live[0][0]))


def test_a_trace_that_never_ends_is_remembered_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans beyond the limit become events, by their content and the known ancestors."""
    monkeypatch.setattr(traces_module, "TRACE_SPANS_MAX", 3)
    traces = PendingTraces(hold=60 * NS, keep=3600 * NS)
    for n in range(10):
        traces.add(chat(f"c{n}", 1 + n / 10, 2 + n / 10, [user(str(n))]))
    assert list(traces.release(20 * NS, 0)) == []
    for _ in range(10):
        traces.add(root(end=9))
    found = [candidate for candidate in made(traces.release(20 * NS, 0)) if candidate.claims]
    assert texts(assembled(found)[0]) == [f"user: {n}" for n in range(10)]
    assert len(list(traces.traces["t"].trace.all())) == 6


def test_a_span_knows_so_many_above_it() -> None:
    """A chain of any length costs each of its spans the same."""
    links = [
        reading(f"{n:05}", 1 + n, 9_999 - n, SpanContent(SpanRole.OTHER), parent=f"{n - 1:05}" if n else None)
        for n in range(ANCESTORS_MAX + 2)
    ]
    trace = Trace()
    for link in links:
        trace.add(link)
    assert [link.span_id for link in trace.above(links[-1])] == [link.span_id for link in links[-2:0:-1]]
    assert trace.root(links[-1]) is None
    assert trace.root(links[-2]) is links[0]


@pytest.mark.parametrize(
    ("start", "end", "times"),
    [(1, 2, (1, 2)), (3, 2, (2, 2)), (0, 2, (2, 2)), (1, 0, (1, 1)), (0, 0, (0.5, 100))],
)
def test_clock_faults_fall_back(start: float, end: float, times: tuple[float, float]) -> None:
    """An end before the start, a zero: the end, the start, the parent, else when it was received."""
    found = next(
        candidate
        for candidate in resolved([root(), chat("a", start, end, [user("x")])])
        if candidate.span_id == "a"
    )
    assert (found.start / NS, found.end / NS) == times


def test_a_span_without_any_time_is_a_flaw() -> None:
    """Without a parent the record's time serves; without that the span has no time."""
    lone = chat("a", 0, 0, [user("x")], parent=None)
    trace = Trace()
    trace.add(lone)
    flaw = candidate_of(trace, lone, Coverage())
    assert isinstance(flaw, InputFlaw)
    assert flaw.code == "span-time"
    received = candidate_of(trace, replace(lone, record_time=7), Coverage())
    assert isinstance(received, Candidate)
    assert (received.start, received.end) == (7, 7)


def test_a_span_waits_for_its_root() -> None:
    """Until the watermark has passed the root's end, or for `hold`; shorter if the span names both."""
    traces = PendingTraces(hold=60 * NS, keep=3600 * NS)
    traces.add(replace(TURN[0], record_time=10 * NS))
    assert list(traces.release(50 * NS, 20 * NS)) == []
    traces.add(replace(root(end=40), record_time=20 * NS))
    assert list(traces.release(39 * NS, 20 * NS)) == []
    assert {candidate.session_id for candidate in made(traces.release(40 * NS, 21 * NS))} == {"s"}
    held = replace(TURN[0], trace_id="v", record_time=30 * NS)
    speaks = chat("k", 1, 45, [user("x")], trace="w", session="s", agent=None)
    speaks = replace(speaks, content=replace(speaks.content, agent="bot"), record_time=30 * NS)
    traces.add(held)
    traces.add(speaks)
    assert list(traces.release(44 * NS, 31 * NS)) == []
    (released,) = traces.release(45 * NS, 31 * NS)
    assert isinstance(released.made, Candidate)
    assert (released.made.session_id, released.is_early) == ("s", False)
    (overdue,) = traces.release(45 * NS, 90 * NS)
    assert isinstance(overdue.made, Candidate)
    assert (overdue.made.session_id, overdue.is_early) == ("v", True)


def test_a_span_that_breaks_stops_no_other() -> None:
    """It is a flaw with the name of the error, never its text; what waits beside it goes on."""
    broken = chat("b", 1, 2, [], session="s")
    broken = replace(broken, content=replace(broken.content, session=["what a customer wrote"]))  # type: ignore
    traces = PendingTraces(hold=60 * NS, keep=3600 * NS)
    for span in (broken, chat("c", 3, 4, [user("x")], session="s"), root(end=5)):
        traces.add(span)
    released = list(traces.release(5 * NS, 0))
    assert spans_of(released) == ["c", "root"]
    (flaw,) = [span.made for span in released if isinstance(span.made, InputFlaw)]
    assert (flaw.place, flaw.code, flaw.text) == ("trace t, span b", "internal", "TypeError")
    assert list(traces.release(9 * NS, 0)) == []


def test_a_span_waits_for_all_above_it() -> None:
    """Also for one that outlives the root; as long as one has not come, for `hold`. The root waits, too."""
    traces = PendingTraces(hold=60 * NS, keep=3600 * NS)
    within = reading("within", 1, 50, SpanContent(SpanRole.AGENT, agent="bot"))
    traces.add(replace(chat("a", 2, 30, [user("x")], parent="within"), record_time=30 * NS))
    traces.add(replace(root(end=40), record_time=40 * NS))
    assert spans_of(traces.release(60 * NS, 41 * NS)) == []
    traces.add(replace(within, record_time=42 * NS))
    assert spans_of(traces.release(49 * NS, 42 * NS)) == []
    assert spans_of(traces.release(50 * NS, 43 * NS)) == ["a", "root", "within"]


def spans_of(released: Iterable[Released]) -> list[str | None]:
    """The spans of what went on."""
    return [candidate.span_id for candidate in made(released)]


def made(released: Iterable[Released]) -> list[Candidate]:
    """The candidates that went on."""
    return [item.made for item in released if isinstance(item.made, Candidate)]
