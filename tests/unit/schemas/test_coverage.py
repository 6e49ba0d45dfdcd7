"""Of several spans of one call one counts, and a span without content hides nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tracline.schemas.candidate import Candidate
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.late_ends import CLOCK_ERROR
from tracline.schemas.sessions.resolve import candidate_of
from tracline.schemas.sessions.span_reading import SpanReading, read_span
from tracline.schemas.sessions.trace import Trace
from tracline.schemas.span import Span
from tracline.schemas.span_content import RETOLD, Message, Role, SpanContent, SpanRole, ToolCall, ToolResult
from tracline.schemas.time import NS

from ...support.sources import PendingTraces

HI = (Message(Role.USER, "Hi"),)
HELLO = (Message(Role.ASSISTANT, "Hello"),)
ARGS = '{"id":1}'
GIVEN = ToolCall(None, "look", ARGS)
BARE = ToolCall("c1", "look", None, Content.ABSENT)
NOTHING = ToolResult(None, "look", None, content=Content.ABSENT)


def span(
    name: str, start: float, end: float, content: SpanContent, parent: str | None = "root", **more: Any
) -> SpanReading:
    """A span of one trace; times in seconds."""
    return SpanReading("t", name, parent, round(start * NS), round(end * NS), content, **more)


def chat(name: str, start: float, end: float, parent: str = "root", **more: Any) -> SpanReading:
    """A model's call, without content unless that is given."""
    return span(name, start, end, SpanContent(SpanRole.CHAT, **more), parent)


def run(name: str, call: ToolCall, result: ToolResult, parent: str = "root", **more: Any) -> SpanReading:
    """A tool's run from 3 to 4."""
    return span(name, 3, 4, SpanContent(SpanRole.TOOL, call=call, result=result, **more), parent)


ROOT = span("root", 1, 99, SpanContent(SpanRole.AGENT, session="s", agent="desk"), None)


def candidates(*spans: SpanReading) -> list[Candidate]:
    """Return the candidates of a trace with all its spans known."""
    trace = Trace()
    for span in spans:
        trace.add(span)
    inside = trace.coverage()
    found = [candidate_of(trace, span, inside) for span in spans]
    return [span for span in found if isinstance(span, Candidate)]


def events(*spans: SpanReading) -> list[Event]:
    """Return the events of the spans' only session."""
    return assembled(candidates(ROOT, *spans))


def assembled(of_session: list[Candidate]) -> list[Event]:
    """Return the events of the session after all its spans came."""
    session = SessionAssembler("s", 3600 * NS)
    for candidate in of_session:
        assert candidate.session_id == "s"
        session.add(candidate)
    return session.advance(1000 * NS)


def words(*spans: SpanReading) -> list[str]:
    """The events in short."""
    return [
        f"{event.kind} {event.text or event.result or event.args or ''}".strip() for event in events(*spans)
    ]


# Models


def test_a_span_without_content_does_not_hide_one_above_it() -> None:
    """A provider's own client has a span inside the instrumentation's, and captures nothing."""
    outer = chat("outer", 2, 4, input=HI, output=HELLO)
    assert words(outer, chat("inner", 2.5, 3.5, parent="outer")) == ["user Hi", "assistant Hello"]


def test_a_conversation_is_read_half_by_half() -> None:
    """The innermost span with a half gives it; the other half comes from an outer span."""
    outer = chat("outer", 2, 4, input=HI, output=(Message(Role.ASSISTANT, "not this"),))
    inner = chat("inner", 2.5, 3.5, parent="outer", output=HELLO)
    assert words(outer, inner) == ["user Hi", "assistant Hello"]
    assert [event.span_id for event in events(outer, inner)] == ["outer", "inner"]


def test_a_half_that_no_span_has_is_unknown_once() -> None:
    """Of several spans without content one is `unknown`, and a failed call inside hides no answer."""
    assert words(chat("outer", 2, 4), chat("inner", 2.5, 3.5, parent="outer")) == ["unknown", "unknown"]
    outer = chat("outer", 2, 5, input=HI, output=HELLO)
    tries = [chat("one", 2.5, 3, parent="outer"), chat("two", 3.5, 4, parent="outer", output=HELLO)]
    assert words(outer, *tries) == ["user Hi", "unknown", "assistant Hello"]


def test_an_agents_words_do_not_stand_for_calls_of_models_inside() -> None:
    """Their messages and calls are not known by that."""
    agent = span("agent", 2, 9, SpanContent(SpanRole.AGENT, agent="desk", input=HI, output=HELLO))
    inner = chat("inner", 3, 4, parent="agent")
    assert words(agent, inner) == ["user Hi", "unknown", "unknown", "assistant Hello"]


def test_an_inner_span_that_comes_later_gives_its_half() -> None:
    """Live, the outer one may have gone on before."""
    outer = chat("outer", 2, 4, input=HI, output=(Message(Role.ASSISTANT, "not this"),))
    inner = chat("inner", 2.5, 3.5, parent="outer", output=HELLO)
    early = [item for item in candidates(ROOT, outer) if item.span_id == "outer"]
    late = [item for item in candidates(ROOT, outer, inner) if item.span_id == "inner"]
    assert [item.text for item in assembled([*early, *late])] == ["Hi", "Hello"]


def test_one_answer_on_sibling_spans_is_one_event() -> None:
    """Two instrumentations name the answer alike; each fills the gaps of the other."""
    both: dict[str, Any] = {"response_id": "r1"}
    full, bare = chat("full", 2, 4, input=HI, output=HELLO, **both), chat("bare", 2.5, 3.5, **both)
    assert words(full, bare) == words(bare, full) == ["user Hi", "assistant Hello"]
    again = replace(full, span_id="again")
    assert words(full, again) == ["user Hi", "assistant Hello"]


def test_answers_of_one_id_at_different_times_are_several() -> None:
    """Some give every answer the same id."""
    first = chat("one", 2, 3, input=HI, output=HELLO, response_id="fake")
    second = chat("other", 4, 5, input=HI, output=HELLO, response_id="fake")
    assert words(first, second) == ["user Hi", "assistant Hello"] * 2


def test_a_streamed_answer_has_a_span_of_its_own() -> None:
    """Logfire's comes when the stream is over; the same request may be sent again."""
    same: dict[str, Any] = {"response_id": RETOLD + "x", "input": HI}
    spans = [chat("1", 2, 3, **same), chat("2", 4, 4, output=HELLO, **same)]
    assert words(*spans) == ["user Hi", "assistant Hello"]
    more = [chat("3", 5, 6, **same), chat("4", 7, 7, output=HELLO, **same)]
    assert words(*spans, *more) == ["user Hi", "assistant Hello"] * 2


# Tools


@pytest.mark.parametrize("is_inside", [True, False])
def test_runs_of_one_call_complete_each_other(is_inside: bool) -> None:
    """AutoGen's own span has the id and the error, the instrumentation's what was given and returned."""
    full = run("full", GIVEN, ToolResult(None, "look", "not found"), "root" if is_inside else "bare")
    bare = run("bare", BARE, NOTHING, "full" if is_inside else "root", error="KeyError")
    call, result = events(full, bare)
    assert (call.kind, call.call_id, call.args) == (Kind.TOOL_CALL, "c1", ARGS)
    assert (result.call_id, result.result, result.error) == ("c1", "not found", "KeyError")
    assert {call.span_id, result.span_id} == {"full"}


def test_runs_of_different_calls_are_events_each() -> None:
    """Other ids, or other arguments, make another call."""
    outer = run("outer", ToolCall("c2", "look", ARGS), ToolResult("c2", "look", "x"))
    assert len(events(outer, run("inner", BARE, NOTHING, "outer"))) == 4
    different = run("outer", ToolCall(None, "look", "{}"), ToolResult(None, "look", "x"))
    assert len(events(different, run("inner", GIVEN, NOTHING, "outer"))) == 4


def test_another_tool_under_the_ids_of_a_span_keeps_its_call() -> None:
    """The coverage of one run does not apply to another."""
    inner = run("inner", BARE, NOTHING, "twice", error="KeyError")
    different = run("twice", ToolCall("c9", "other", "{}"), ToolResult("c9", "other", "y"))
    full = run("twice", GIVEN, ToolResult(None, "look", "x"))
    found = {(event.tool, event.call_id, event.error) for event in events(full, different, inner)}
    assert found == {("look", "c1", None), ("look", "c1", "KeyError"), ("other", "c9", None)}


def test_a_graphs_node_knows_the_call_that_its_tool_does_not() -> None:
    """If the run has arguments these stay."""
    node = span("node", 2, 5, SpanContent(SpanRole.OTHER, call=ToolCall("c1", "look", ARGS)))
    bare = run("run", ToolCall(None, "look", None, Content.ABSENT), ToolResult(None, "look", "x"), "node")
    call, result = events(node, bare)
    assert (call.call_id, call.args, call.content, result.call_id) == ("c1", ARGS, Content.CAPTURED, "c1")
    same = run("run", ToolCall(None, "look", "{}"), ToolResult(None, "look", "x"), "node")
    assert [event.args for event in events(node, same)] == ["{}", "{}"]
    different = run("run", ToolCall(None, "other", "{}"), ToolResult(None, "other", "x"), "node")
    assert [event.call_id for event in events(node, different)] == [None, None]


# Sub-agents


def test_a_conversation_of_its_own_below_a_tool_is_the_callers() -> None:
    """The framework began one for the sub-agent; an application's attribute on a span wins."""
    tool = run("tool", GIVEN, ToolResult(None, "look", "x"))
    sub = span(
        "sub",
        3.1,
        3.9,
        SpanContent(SpanRole.AGENT, session="own", agent="helper", own_conversation=True),
        "tool",
    )
    inner = chat("inner", 3.2, 3.8, parent="sub", input=HI, output=HELLO)
    asked = chat("asked", 2, 2.9, input=HI)
    given = replace(sub, content=replace(sub.content, own_conversation=False))
    for session in (None, "s"):
        caller = replace(asked, content=replace(asked.content, session=session))
        found = {candidate.span_id: candidate for candidate in candidates(ROOT, caller, tool, sub, inner)}
        assert (found["inner"].session_id, found["inner"].nested) == ("s", True)
        assert not speaks(caller, sub)
        found = {candidate.span_id: candidate for candidate in candidates(ROOT, caller, tool, given, inner)}
        assert (found["inner"].session_id, speaks(caller, given)) == ("own", True)


def speaks(*spans: SpanReading) -> bool:
    """Return whether the last of the spans waits for none above it."""
    trace = Trace()
    for span in spans:
        trace.add(span)
    return trace.is_self_described(spans[-1])


def gone_without_root(*spans: SpanReading) -> bool:
    """If true, the last of the spans goes on live once the time has passed it, before its root comes."""
    traces = PendingTraces(hold=60 * NS, keep=60 * NS)
    for span in spans:
        traces.add(span)
    return spans[-1] in [span.reading for span in traces.release(spans[-1].end, 0)]


def test_an_agents_own_spans_do_not_wait_for_its_root() -> None:
    """All earlier model calls of the trace have the same conversation: there is no caller."""
    content = SpanContent(
        SpanRole.CHAT, session="s", agent="desk", own_conversation=True, input=HI, output=HELLO
    )
    first, second = span("a", 1, 2, content, "agent"), span("b", 3, 4, content, "agent")
    assert gone_without_root(first)
    assert gone_without_root(first, second)
    different = replace(first, content=replace(content, session="other"))
    assert not gone_without_root(different, second)


def test_a_conversation_without_a_caller_is_its_own() -> None:
    """No span above the tool names a session."""
    tool = run("tool", GIVEN, ToolResult(None, "look", "x"))
    sub = span("sub", 3.1, 3.9, SpanContent(SpanRole.AGENT, session="own", own_conversation=True), "tool")
    assert {candidate.session_id for candidate in candidates(tool, sub)} == {"own"}


def test_agents_beside_each_other_may_work_for_a_tool() -> None:
    """One that ran while a tool of another did is its sub-agent; one that came after it is not."""
    desk = span("desk", 2, 5, SpanContent(SpanRole.AGENT, agent="desk"), "flow", beside=True)
    tool = replace(run("tool", GIVEN, ToolResult(None, "look", "x"), "desk"), beside=True)
    helper = span("helper", 3.1, 3.9, SpanContent(SpanRole.AGENT, agent="helper"), "flow", beside=True)
    later = span("later", 4.1, 6, SpanContent(SpanRole.AGENT, agent="refunds"), "flow", beside=True)
    spans = [
        *(desk, tool, helper, later),
        chat("inner", 3.2, 3.8, parent="helper", input=HI),
        chat("after", 4.2, 5, parent="later", input=HI),
    ]
    nested = {sub_span.span_id: sub_span.nested for sub_span in candidates(ROOT, *spans)}
    assert (nested["inner"], nested["after"], nested["tool"]) == (True, False, False)
    nested = {
        sub_span.span_id: sub_span.nested
        for sub_span in candidates(ROOT, *(replace(sub_span, beside=False) for sub_span in spans))
    }
    assert nested["inner"] is False


def test_a_sub_agent_does_not_outlive_its_tool_by_the_clocks_error() -> None:
    """Its answer stands before what the tool returns; one that does end later stays later."""
    tool = run("tool", GIVEN, ToolResult(None, "look", "x"))
    inner = replace(chat("inner", 3.1, 4, parent="tool", input=HI, output=HELLO), coarse=True)
    skewed = replace(inner, end=tool.end + CLOCK_ERROR)
    assert words(tool, skewed)[-2:] == ["assistant Hello", "tool_result x"]
    late = replace(inner, end=tool.end + CLOCK_ERROR + 1)
    assert words(tool, late)[-2:] == ["tool_result x", "assistant Hello"]
    exact = replace(skewed, coarse=False)
    assert words(tool, exact)[-2:] == ["tool_result x", "assistant Hello"]


def test_a_language_that_is_no_text_is_none() -> None:
    """Spans are read with any attribute of the SDK on their resource."""
    for language, is_coarse in (([], False), (["nodejs"], False), ("nodejs", True)):
        span_of_language = Span(
            "1" * 32, "1" * 16, None, "x", 1, 2, resource={"telemetry.sdk.language": language}
        )
        assert read_span(span_of_language).coarse is is_coarse


def test_a_run_inside_another_of_agents_without_names_is_a_sub_agents() -> None:
    """If each run has one span it hides none above it; else another run is not recognised."""
    outer = span("outer", 1, 9, SpanContent(SpanRole.AGENT, input=HI, output=HELLO), apart=True)
    asked = (Message(Role.USER, "Ask"),)
    inner = span("inner", 3, 5, SpanContent(SpanRole.AGENT, input=asked, output=HELLO), "outer", apart=True)
    model = chat("model", 4, 5, parent="inner", input=asked, output=(Message(Role.ASSISTANT, "Yes"),))
    found = [(item.text, item.nested) for item in events(outer, inner, model)]
    assert found == [("Hi", False), ("Ask", True), ("Yes", True), ("Hello", False)]
    together = [replace(item, apart=False) for item in (outer, inner, model)]
    assert [item.text for item in events(*together)] == ["Ask", "Yes"]
