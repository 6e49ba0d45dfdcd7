"""Conversations as spans: nothing lost, nothing random, and the truth made from the conversations."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from tracline.examples.desk.bot import Break, Desk, conversations
from tracline.examples.desk.formats import events
from tracline.examples.desk.script import Script, ScriptLine, support_session
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.otlp.decode import decode_json, decode_protobuf
from tracline.schemas.span import Span
from tracline.schemas.span_content import Role

from ...support.conversations.agent_spans import expected, spans
from ...support.conversations.scripts import later, random_session, tidy
from ...support.conversations.span_plan import ClockFault, Dialect, Keys, Manner, ModelCall, plan
from ...support.otlp_requests import requests, to_otlp, to_otlp_json

pytestmark = pytest.mark.slow

DESK = Desk(sessions=30, seed=3, rates=dict.fromkeys(Break, 0.04), spike=None)
CONVERSATIONS = list(conversations(DESK))
SESSIONS = [*map(support_session, CONVERSATIONS), *map(random_session, range(25))]
EVERYTHING = Manner(wrapped=0.4, retried=0.4, doubled=0.4, clock_faults=0.4, agent_messages=True)
DIALECTS = list(Dialect)


def content_of(event: Event) -> tuple[object, ...]:
    """Return an event's content, without its source and time."""
    words = (event.kind, event.text, event.tool, event.call_id, event.args, event.result, event.error)
    return (*words, event.nested)


def test_a_manner_and_a_session_give_the_same_spans() -> None:
    """Spans and truth depend on nothing but session and manner; the seed changes times and ids."""
    session = SESSIONS[5]
    assert spans(session, EVERYTHING) == spans(session, EVERYTHING)
    assert expected(session, EVERYTHING) == expected(session, EVERYTHING)
    reseeded = {span.span_id for span in spans(session, replace(EVERYTHING, seed=1))}
    assert reseeded.isdisjoint(span.span_id for span in spans(session, EVERYTHING))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_events_are_those_of_the_conversation(dialect: Dialect) -> None:
    """Without trouble, a conversation's spans must become the events of the desk itself."""
    for talk in CONVERSATIONS:
        found = expected(support_session(talk), Manner(dialect=dialect))
        truth = [content_of(event) for event in events(talk) if event.kind != Kind.END]
        if dialect is Dialect.OPENLLMETRY:
            # Its tools' spans have no call ids.
            truth = [(*row[:3], None, *row[4:]) if row[0] == Kind.TOOL_RESULT else row for row in truth]
            results = Kind.TOOL_RESULT
            found = [msgspec.structs.replace(e, call_id=None) if e.kind == results else e for e in found]
        assert [content_of(event) for event in found] == truth
        assert [event.seq for event in found] == list(range(1, len(found) + 1))
        assert not any(event.history for event in found)


@pytest.mark.parametrize("trouble", ["wrapped", "retried", "doubled", "clock_faults"])
def test_trouble_changes_the_spans_and_not_what_happened(trouble: str) -> None:
    """Second instrumentations, retries, doubled calls and wrong clocks carry the same conversation."""
    for session in SESSIONS:
        plain, troubled = Manner(), Manner(**{trouble: 1.0})
        assert spans(session, plain) != spans(session, troubled)
        truth, found = (list(map(content_of, expected(session, manner))) for manner in (plain, troubled))
        # Tools that run side by side may seem to end in another order where their clocks are wrong.
        assert sorted(truth, key=repr) == sorted(found, key=repr)
        assert truth == found or trouble == "clock_faults"


def test_event_ids_distinguish_equal_events() -> None:
    """Ids belong to events, not to spans: unique in a session, equal in all dialects with call ids."""
    for session in SESSIONS:
        ids = [event.event_id for event in expected(session)]
        assert len(set(ids)) == len(ids)
        assert ids == [event.event_id for event in expected(session, Manner(dialect=Dialect.VERCEL))]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("one_trace", [False, True])
def test_spans_form_whole_trees(dialect: Dialect, one_trace: bool) -> None:
    """Ids are unique, every parent is there and lasts as long as its children, and roots name the session."""
    for session in SESSIONS:
        tree = spans(session, replace(EVERYTHING, dialect=dialect, one_trace=one_trace, clock_faults=0))
        by_id = {(span.trace_id, span.span_id): span for span in tree}
        assert len(by_id) == len(tree)
        for span in tree:
            if span.parent_id is None:
                assert session.session_id in span.attributes.values()
            else:
                parent = by_id[span.trace_id, span.parent_id]
                assert parent.start < span.start < span.end < parent.end
                assert session.session_id not in span.attributes.values()
        roots = sum(span.parent_id is None for span in tree)
        assert (
            roots
            == len({span.trace_id for span in tree})
            == (1 if one_trace else len(plan(session, Manner())))
        )


def test_no_two_moments_of_a_session_are_one() -> None:
    """Starts and ends are distinct nanoseconds, and spans come in the order in which they ended."""
    for session in SESSIONS:
        sent = spans(session, replace(EVERYTHING, clock_faults=0))
        moments = [moment for span in sent for moment in (span.start, span.end)]
        assert len(set(moments)) == len(moments)
        assert all(a.end < b.end for a, b in pairwise(sent))


def test_every_span_names_session_and_agent_where_asked() -> None:
    """With keys everywhere each span has them, and a named session key stands in for the dialect's."""
    manner = Manner(keys=Keys.EVERYWHERE, session_key="langfuse.session.id")
    for span in spans(SESSIONS[1], manner):
        assert span.attributes["langfuse.session.id"] == SESSIONS[1].session_id
        assert "gen_ai.agent.name" in span.attributes
        assert "gen_ai.conversation.id" not in span.attributes


@pytest.mark.parametrize("dialect", DIALECTS)
def test_inputs_alone_can_be_left_out(dialect: Dialect) -> None:
    """If models' inputs are not captured, customers are unknown; answers, calls and results are there."""
    for session in SESSIONS:
        whole, part = (
            expected(session, Manner(dialect=dialect, inputs_captured=is_captured))
            for is_captured in (True, False)
        )
        kinds = Counter(event.kind for event in part)
        assert Kind.USER not in kinds
        assert kinds[Kind.UNKNOWN] == sum("chat" in s.name for s in spans(session))
        for kind in (Kind.ASSISTANT, Kind.TOOL_CALL):
            assert [content_of(e) for e in part if e.kind == kind] == [
                content_of(e) for e in whole if e.kind == kind
            ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_message_is_there_where_capture_is_off(dialect: Dialect) -> None:
    """Without capture no text, argument or result is in the spans; tools, errors and times are."""
    for session in SESSIONS:
        manner = Manner(dialect=dialect, captured=False, agent_messages=True, wrapped=0.5)
        sent = json.dumps([dict(span.attributes) for span in spans(session, manner)])
        for line in session.lines:
            assert line.text is None or len(line.text) < 8 or json.dumps(line.text)[1:-1] not in sent
            assert not any(call.args in sent for call in line.calls if call.args != "{}")
        truth = expected(session, manner)
        assert {event.content for event in truth} == {Content.ABSENT}
        assert {event.kind for event in truth} <= {Kind.UNKNOWN, Kind.TOOL_CALL, Kind.TOOL_RESULT}
        errors = [line.error for line in session.lines if line.error]
        assert [event.error for event in truth if event.error] == errors


def test_the_first_calls_alone_may_name_the_session() -> None:
    """Then no root has it, and one span of each trace that calls a model does."""
    for session in SESSIONS:
        sent = spans(session, Manner(keys=Keys.FIRST_CALLS))
        keyed = [span for span in sent if "gen_ai.conversation.id" in span.attributes]
        assert all(span.name.startswith("chat") for span in keyed)
        assert len(keyed) == len({span.trace_id for span in sent})


def test_a_window_hides_the_past_and_nothing_new() -> None:
    """A model with a short history gets all that is new and no result without its call."""
    for session in SESSIONS:
        for turn in plan(session, Manner(window=2)):
            for act in turn.acts:
                if isinstance(act, ModelCall):
                    assert not act.inputs or act.inputs[0].role is not Role.TOOL
                    assert act.inputs == session.lines[: len(act.inputs)] or len(act.inputs) >= 2
        assert list(map(content_of, expected(session, Manner(window=2)))) == list(
            map(content_of, expected(session))
        )


def test_a_session_that_begins_in_the_middle_has_a_history() -> None:
    """Skipped turns come with the first model call alone: all up to its last answer as history."""
    for session in SESSIONS:
        turns = plan(session, Manner())
        if len(turns) < 3:
            continue
        truth = expected(session, Manner(skip_turns=2))
        past = [event for event in truth if event.history]
        first = turns[2].acts[0]
        assert isinstance(first, ModelCall)
        assert {event.time for event in past} == {truth[0].time}
        customer = [event for event in truth if event.time == truth[0].time and event.kind == Kind.USER]
        assert [e.text for e in customer] == [line.text for line in first.inputs if line.role is Role.USER]
        whole = [
            event
            for event in expected(session, Manner())
            if not event.nested or event.time >= first.attempts[0].start
        ]
        # A second result stands behind the tools' own where they have spans, in its place in a history.
        assert Counter((e.kind, e.text, e.tool) for e in truth) == Counter(
            (e.kind, e.text, e.tool) for e in whole
        )


def test_a_session_is_not_skipped_whole() -> None:
    """Asking to skip every turn is refused."""
    with pytest.raises(ValueError, match="cannot be skipped"):
        spans(SESSIONS[0], Manner(skip_turns=99))


def test_calls_without_ids_and_tools_without_spans() -> None:
    """Ids are left out where asked; without tools' spans results come with the next model call, if any."""
    for session in SESSIONS:
        bare = Manner(call_ids=False, tool_spans=False)
        sent = spans(session, bare)
        assert not any("execute_tool" in span.name for span in sent)
        assert "call_" not in json.dumps([dict(span.attributes) for span in sent]).replace("tool_call", "")
        truth = expected(session, bare)
        assert not any(event.call_id for event in truth)
        kinds = sorted((e.kind, e.tool or "", e.result or "") for e in truth)
        others = sorted((e.kind, e.tool or "", e.result or "") for e in expected(session))
        assert all(kind in others for kind in kinds)


def test_a_tidy_session_answers_every_call_once() -> None:
    """The rest of a session has one result for each call, and every message."""
    for session in SESSIONS:
        truth = expected(tidy(session))
        calls = [event.call_id for event in truth if event.kind == Kind.TOOL_CALL]
        results = [event.call_id for event in truth if event.kind == Kind.TOOL_RESULT]
        assert sorted(map(str, calls)) == sorted(map(str, results))
        texts = [event.text for event in truth if event.text]
        assert texts == [event.text for event in expected(session) if event.text]


def test_a_later_session_is_another_occurrence() -> None:
    """The same conversation a day later has the same id and events, at other times."""
    day = 86_400 * 10**9
    again = later(SESSIONS[3], day)
    ids = {span.span_id for span in spans(SESSIONS[3])}
    assert ids.isdisjoint(span.span_id for span in spans(again))
    first, second = expected(SESSIONS[3]), expected(again)
    assert list(map(content_of, first)) == list(map(content_of, second))
    assert all(b.time - a.time == day for a, b in zip(first, second, strict=True))
    assert {e.event_id for e in first}.isdisjoint(e.event_id for e in second)


def test_the_last_root_marks_the_end_where_asked() -> None:
    """The end mark stands on the last turn's span and is the last row of the truth, at that span's end."""
    for one_trace in (False, True):
        manner = Manner(end_mark=True, one_trace=one_trace)
        marked = [s for s in spans(SESSIONS[2], manner) if s.attributes.get("tracline.session.end") is True]
        last = expected(SESSIONS[2], manner)[-1]
        assert len(marked) == 1
        assert (last.kind, last.time, dict(last.attributes)) == (Kind.END, marked[0].end, {"end": "mark"})


def test_clock_faults_of_every_kind_are_shown() -> None:
    """Some spans lack a start, some an end, some end before they start; roots keep time."""
    sent = [span for session in SESSIONS for span in spans(session, Manner(clock_faults=0.5))]
    wrong = {ClockFault.NO_START: 0, ClockFault.NO_END: 0, ClockFault.BACKWARDS: 0}
    for span in sent:
        wrong[ClockFault.NO_START] += span.start == 0
        wrong[ClockFault.NO_END] += span.end == 0
        wrong[ClockFault.BACKWARDS] += 0 < span.end < span.start
        assert span.parent_id is not None or 0 < span.start < span.end
    assert min(wrong.values()) > 10


def wire_form(sent: list[Span]) -> list[Span]:
    """The spans as any decoder gives them."""
    return [
        msgspec.structs.replace(span, attributes=dict(span.attributes), resource=dict(span.resource))
        for span in sent
    ]


@pytest.mark.parametrize("structured", [False, True])
def test_spans_travel_as_otlp_without_loss(structured: bool) -> None:
    """Protobuf and JSON requests decode to the spans that went in, whatever the size of a batch."""
    for session in SESSIONS[::7]:
        sent = spans(session, replace(EVERYTHING, structured=structured))
        for request in (to_otlp(sent), *requests(sent, 3)):
            assert decode_protobuf(request.SerializeToString()).flaws == ()
        batches = [decode_protobuf(r.SerializeToString()).spans for r in requests(sent, 3)]
        assert wire_form([span for batch in batches for span in batch]) == wire_form(sent)
        value = json.loads(json.dumps(to_otlp_json(to_otlp(sent))))
        assert wire_form(list(decode_json(value).spans)) == wire_form(sent)


def test_a_wordless_session_has_no_turns() -> None:
    """A conversation of one unanswered word comes with a failed call; its truth is that word."""
    session = Script("s", "a", "m", "shop", (ScriptLine(Role.USER, "hello"),))
    sent = spans(session)
    assert [span.failed for span in sent] == [True, True]
    assert [(event.kind, event.text) for event in expected(session)] == [(Kind.USER, "hello")]
