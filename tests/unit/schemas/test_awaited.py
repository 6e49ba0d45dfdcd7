"""A tool's run without content does not hide the result in a model's input, and counts without one."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tracline.schemas.candidate import Candidate
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.span_content import Message, Role, SpanContent, SpanRole, ToolCall, ToolResult
from tracline.schemas.time import NS

from ..batch.test_tool_results import DENIED, LOG_IN, REFUND, asking, candidate, found, talk

LOOK, COUNT = ToolCall("c1", "look", '{"id":1}'), ToolCall("c2", "count", "{}")
HI = (Message(Role.USER, "Hi"),)


def bare(name: str, start: int, end: int, call: ToolCall, error: str | None = None) -> Candidate:
    """Return a run with neither arguments nor result on its span."""
    bare_call = msgspec.structs.replace(call, args=None, content=Content.ABSENT)
    result = ToolResult(call.call_id, call.tool, None, content=Content.ABSENT)
    return candidate(name, start, end, SpanContent(SpanRole.TOOL, call=bare_call, result=result, error=error))


def ran(name: str, start: int, end: int, call: ToolCall, result: str) -> Candidate:
    """Return a run with content on its span."""
    return candidate(
        name,
        start,
        end,
        SpanContent(SpanRole.TOOL, call=call, result=ToolResult(call.call_id, call.tool, result)),
    )


def without_content(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Spans of tools' runs without arguments and results, the others as they are."""
    left_out = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    return [
        {
            **span,
            "attributes": [attribute for attribute in span["attributes"] if attribute["key"] not in left_out],
        }
        for span in spans
    ]


def hearing(name: str, start: int, end: int, *results: ToolResult, user: str | None = None) -> Candidate:
    """Return a model's call with results in its input, and an answer."""
    history = (
        *HI,
        Message(Role.ASSISTANT, None, (LOOK, COUNT)),
        Message(Role.USER, user, results=results),
    )
    return candidate(
        name, start, end, SpanContent(SpanRole.CHAT, input=history, output=(Message(Role.ASSISTANT, "8"),))
    )


def events(*spans: Candidate) -> list[Event]:
    """The events of these spans, the same in any order of arrival, when nothing more comes."""
    made: list[list[Event]] = []
    for order in permutations(spans):
        session = SessionAssembler("s", 3600 * NS)
        for span in order:
            session.add(span)
        made.append(session.advance(max(span.end for span in spans)) + session.finish(None))
    assert all(span == made[0] for span in made)
    assert not any(span.late for span in made[0])
    return made[0]


def results(*spans: Candidate) -> list[tuple[str | None, str | None, int]]:
    """The tool, the result and the second of each event that is one."""
    return [
        (event.tool, event.result, event.time // NS)
        for event in events(*spans)
        if event.kind is Kind.TOOL_RESULT
    ]


def test_the_models_input_has_the_runs_result() -> None:
    """The event has the run's time and span, and the content of the later claim."""
    found = events(
        asking("a", 1, 2, LOOK), bare("b", 3, 4, LOOK), hearing("c", 5, 6, ToolResult("c1", None, "x"))
    )
    assert [event.kind for event in found] == ["tool_call", "tool_result", "assistant"]
    result = found[1]
    assert (result.result, result.args, result.content) == ("x", LOOK.args, Content.CAPTURED)
    assert (result.time, result.span_id, result.seq) == (4 * NS, "b", 2)


def test_a_run_that_failed_keeps_its_error() -> None:
    """The span has the error type, the model's input the text of the error."""
    failed = bare("b", 3, 4, LOOK, error="Timeout")
    found = events(
        asking("a", 1, 2, LOOK), failed, hearing("c", 5, 6, ToolResult("c1", None, "Error: too slow"))
    )
    assert [(event.result, event.error) for event in found if event.kind is Kind.TOOL_RESULT] == [
        ("Error: too slow", "Timeout")
    ]


def test_parallel_runs_wait_for_each_other() -> None:
    """One of them has content: the results stand in the order in which the runs ended."""
    answer = ToolResult("c2", None, "3"), ToolResult("c1", None, "x")
    spans = asking("a", 1, 2, LOOK, COUNT), bare("b", 3, 5, LOOK), ran("c", 3, 6, COUNT, "3")
    assert results(*spans, hearing("d", 7, 8, *answer)) == [("look", "x", 5), ("count", "3", 6)]


def test_results_after_a_text_are_in_time() -> None:
    """Anthropic's results stand in a user's message; its text is judged after them."""
    spans = asking("a", 1, 2, LOOK), bare("b", 3, 4, LOOK)
    found = events(*spans, hearing("c", 5, 6, ToolResult("c1", None, "x"), user="and now?"))
    assert [event.text or event.result for event in found] == [None, "x", "and now?", "8"]


def test_an_event_judged_before_the_result_ends_the_waiting() -> None:
    """Nothing may stand before a result that is its consequence: the content is absent then."""
    inner = candidate("c", 5, 6, SpanContent(SpanRole.CHAT, input=HI, output=(Message(Role.ASSISTANT, "?"),)))
    spans = asking("a", 1, 2, LOOK), bare("b", 3, 4, LOOK), inner
    found = events(*spans, hearing("d", 7, 8, ToolResult("c1", None, "x")))
    assert [(event.kind, event.content) for event in found[1:3]] == [
        ("tool_result", Content.ABSENT),
        ("user", Content.CAPTURED),
    ]
    assert [event.kind for event in found].count(Kind.TOOL_RESULT) == 1


def test_a_result_in_no_models_input_is_there() -> None:
    """By the end of all that came, or when the session closes; not while a model may still get them."""
    spans = asking("a", 1, 2, LOOK), bare("b", 3, 4, LOOK)
    assert results(*spans) == [("look", None, 4)]
    session = SessionAssembler("s", 10 * NS)
    for span_or_event in spans:
        session.add(span_or_event)
    assert [span_or_event.kind for span_or_event in session.advance(5 * NS)] == ["tool_call"]
    assert session.finish(14 * NS) == []
    closed = session.advance(14 * NS + 1)
    assert [
        (span_or_event.kind, span_or_event.seq, span_or_event.time // NS) for span_or_event in closed
    ] == [("tool_result", 2, 4), ("end", 3, 14)]


def test_where_no_models_words_are_captured_nothing_waits() -> None:
    """A run is judged at once if no model's span has its call."""
    session = SessionAssembler("s", 3600 * NS)
    session.add(bare("b", 3, 4, LOOK))
    assert [event.kind for event in session.advance(4 * NS)] == ["tool_call", "tool_result"]


@pytest.mark.slow
@pytest.mark.parametrize("ids", [True, False], ids=["call_0", "no ids"])
def test_a_log_in_without_content_on_its_run_counts(ids: bool, tmp_path: Path) -> None:
    """Whole audits: the refund after a log-in breaks no rule, and the one after a denied log-in does."""
    for name, log_in, broken in (("let in", LOG_IN, []), ("denied", DENIED, ["logged-in"])):
        spans = without_content(talk([log_in, REFUND], ids, {0, 1}, 10))
        assert [rule for rule, _ in found(tmp_path / name, spans)] == broken
