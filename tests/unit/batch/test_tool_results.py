"""True results of tools are never taken for others: whole audits of dumps, and state of earlier releases."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import pack_text
from tracline.schemas.candidate import Candidate
from tracline.schemas.claims.span_claims import claims_of
from tracline.schemas.event import Kind
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.span_content import Message, Role, SpanContent, SpanRole, ToolCall, ToolResult
from tracline.schemas.time import NS
from tracline.stream.messages.session_state import decode

PACK = """
pack: desk
version: 1
propositions:
  refund: kind == "tool_call" and tool == "refund"
  authenticated: kind == "tool_result" and tool == "log_in" and result == "ok"
  twice: kind == "tool_call" and tool == "count"
rules:
  - {id: logged-in, title: Log in first, formula: refund -> once authenticated}
  - {id: counted-once, title: Count once, formula: twice -> not previous once twice}
"""
RULES = pack_text(PACK)
STORED = Path(__file__).with_name("session_state_of_0_1.txt")
"""A session's state as the release before tool uses wrote it, in base64."""
LOG_IN = ("log_in", {"user": "anna"}, "ok")
DENIED = ("log_in", {"user": "anna"}, "no")
REFUND = ("refund", {"order": 1}, "done")


def span(number: int, start: float, end: float, operation: str, **attributes: str) -> dict[str, Any]:
    """A span of the GenAI conventions; times in seconds."""
    named = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": "s", "gen_ai.agent.name": "bot"}
    all_attributes = named | {
        f"gen_ai.{name.replace('__', '.')}": value for name, value in attributes.items()
    }
    return {
        "traceId": f"{1:032x}",
        "spanId": f"{number + 1:016x}",
        "name": operation,
        "startTimeUnixNano": str(round((1_700_000_000 + start) * NS)),
        "endTimeUnixNano": str(round((1_700_000_000 + end) * NS)),
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in all_attributes.items()
        ],
    }


def talk(
    turns: list[tuple[str, dict[str, Any], str]], ids: bool, ran: set[int], pause: float
) -> list[dict[str, Any]]:
    """A turn for each tool: a model asks, it runs (with a span in the turns `ran`), the model answers."""
    spans: list[dict[str, Any]] = []
    history: list[dict[str, Any]] = []
    for turn, (tool, args, result) in enumerate(turns):
        now = turn * pause
        own_id = {"id": "call_0"} if ids else {}
        call = {"type": "tool_call", **own_id, "name": tool, "arguments": args}
        asked = {"role": "assistant", "parts": [call]}
        history.append({"role": "user", "parts": [{"type": "text", "content": f"turn {turn}"}]})
        spans.append(chat(len(spans), now, now + 1, history, asked))
        if turn in ran:
            content = {
                "tool__name": tool,
                "tool__call__arguments": json.dumps(args),
                "tool__call__result": result,
            }
            known = {"tool__call__id": "call_0"} if ids else {}
            spans.append(span(len(spans), now + 1, now + 2, "execute_tool", **content, **known))
        returned = {"type": "tool_call_response", **own_id, "response": result}
        history += [asked, {"role": "tool", "parts": [returned]}]
        answer = {"role": "assistant", "parts": [{"type": "text", "content": f"answer {turn}"}]}
        spans.append(chat(len(spans), now + 2, now + 3, history, answer))
        history.append(answer)
    return spans


def chat(number: int, start: float, end: float, history: list[Any], spoken: dict[str, Any]) -> dict[str, Any]:
    """A model's call."""
    messages = {"input__messages": json.dumps(history), "output__messages": json.dumps([spoken])}
    return span(number, start, end, "chat", **messages)


def found(folder: Path, spans: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """The violations that an audit of a dump of these spans finds, by rule and place."""
    folder.mkdir()
    dump = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (folder / "dump.json").write_text(json.dumps(dump))
    audit(folder, RULES, folder.with_suffix(".bundle"), AuditOptions())
    lines = folder.with_suffix(".bundle").joinpath("verdicts.jsonl").read_bytes().splitlines()
    records = [orjson.loads(line) for line in lines]
    return [(record["rule"], record["seq"]) for record in records if record["verdict"] == "violated"]


@pytest.mark.slow
@pytest.mark.parametrize("pause", [10, 8_000], ids=["at once", "after two idle times"])
@pytest.mark.parametrize("ids", [True, False], ids=["call_0", "no ids"])
@pytest.mark.parametrize("ran", [set[int](), {0}, {1}, {0, 1}, {1, 2}, {0, 2}], ids=repr)
def test_a_log_in_counts_whichever_runs_have_a_span(
    ran: set[int], ids: bool, pause: float, tmp_path: Path
) -> None:
    """With ids that come again or none, each log-in's result is there: the refund after it breaks no rule."""
    spans = talk([DENIED, LOG_IN, REFUND], ids, ran, pause if ran else 10)
    if pause == 10:
        assert found(tmp_path / "dump", spans) == []
        assert found(tmp_path / "backwards", spans[::-1]) == []
    wrong = talk([LOG_IN, LOG_IN, REFUND], ids, ran, 10)
    denying = talk([DENIED, DENIED, REFUND], ids, ran, 10)
    assert found(tmp_path / "twice", wrong) == []
    assert [rule for rule, _ in found(tmp_path / "denied", denying)] == ["logged-in"]


@pytest.mark.slow
@pytest.mark.parametrize("ids", [True, False], ids=["call_0", "no ids"])
def test_a_session_that_comes_back_keeps_the_result_of_its_log_in(ids: bool, tmp_path: Path) -> None:
    """After twice the idle time the history of a failed log-in comes again: the next one counts.

    The model's call after that log-in has no span, so that only its run gives the result in time.
    """
    assert found(tmp_path / "dump", come_back(ids, LOG_IN)) == []
    denied = found(tmp_path / "denied", come_back(ids, DENIED))
    assert [rule for rule, _ in denied] == ["logged-in"]


def come_back(ids: bool, again: tuple[str, dict[str, Any], str]) -> list[dict[str, Any]]:
    """A log-in that fails; more than twice the idle time later another one, and a refund."""
    spans = talk([DENIED], ids, {0}, 10)
    later = talk([DENIED, again, REFUND], ids, {0, 1, 2}, 10)[len(spans) :]
    del later[2]
    for later_span in later:
        for name in ("startTimeUnixNano", "endTimeUnixNano"):
            later_span[name] = str(int(later_span[name]) + 8_000 * NS)
    return spans + later


@pytest.mark.parametrize("ids", [True, False], ids=["call_0", "no ids"])
def test_a_result_that_only_its_run_reports_is_no_earlier_one(ids: bool, tmp_path: Path) -> None:
    """The answer of a turn without a span does not swallow the next run's result, which no model reports."""
    spans = talk([DENIED, LOG_IN, REFUND], ids, {1, 2}, 10)
    del spans[4]
    assert found(tmp_path / "dump", spans) == []


def test_integers_beyond_doubles_make_no_second_call(tmp_path: Path) -> None:
    """A call that model and run write with their keys in another order is one, whatever its integers."""
    asked, ran = {"b": 2**60 + 1, "a": 1}, {"a": 1, "b": 2**60 + 1}
    spans = talk([("count", asked, "3")], ids=False, ran={0}, pause=10)
    for attribute in spans[1]["attributes"]:
        if attribute["key"] == "gen_ai.tool.call.arguments":
            attribute["value"]["stringValue"] = json.dumps(ran)
    assert found(tmp_path / "dump", spans) == []


def candidate(name: str, start: int, end: int, step: SpanContent) -> Candidate:
    """A span of the session `s`; times in seconds."""
    claims, digest = claims_of(step, start * NS, end * NS)
    return Candidate("s", step.role, start * NS, end * NS, claims, "t", name, digest)


def assembled(session: SessionAssembler, *spans: Candidate) -> list[tuple[Kind, str | None]]:
    """The kinds and results of the events that these spans add."""
    for span_or_event in spans:
        session.add(span_or_event)
    return [
        (span_or_event.kind, span_or_event.result)
        for span_or_event in session.advance(max(span_or_event.end for span_or_event in spans))
    ]


def test_parallel_calls_that_are_alike_keep_their_own_results() -> None:
    """Of two equal calls only one has a span: the other's result, reported later, is an event of its own."""
    roll = ToolCall("call_0", "roll", "{}")
    ask = candidate(
        "a", 1, 2, SpanContent(SpanRole.CHAT, input=(), output=(Message(Role.ASSISTANT, None, (roll, roll)),))
    )
    ran = candidate(
        "b", 3, 4, SpanContent(SpanRole.TOOL, call=roll, result=ToolResult("call_0", "roll", "5"))
    )
    results = tuple(ToolResult("call_0", None, result) for result in ("3", "5"))
    history = (Message(Role.ASSISTANT, None, (roll, roll)), Message(Role.TOOL, results=results))
    reporting = candidate(
        "c", 5, 6, SpanContent(SpanRole.CHAT, input=history, output=(Message(Role.ASSISTANT, "8"),))
    )
    for order in permutations((ask, ran, reporting)):
        made = assembled(SessionAssembler("s", 3600 * NS), *order)
        assert [result for kind, result in made if kind is Kind.TOOL_RESULT] == ["5", "3"]


def test_a_run_without_an_id_is_answered_by_the_id_of_an_equal_call() -> None:
    """Of two equal calls one ran, without an id, and the model reports the result of the other: one event."""
    first, second = ToolCall("c1", "roll", "{}"), ToolCall("c2", "roll", "{}")
    ask = asking("a", 1, 2, first, second)
    failed = ToolResult(None, "roll", "no dice", error="ToolError")
    ran = candidate("b", 3, 4, SpanContent(SpanRole.TOOL, call=ToolCall(None, "roll", "{}"), result=failed))
    history = (
        Message(Role.ASSISTANT, None, (first, second)),
        Message(Role.TOOL, results=(ToolResult("c2", None, "no dice"),)),
    )
    reporting = candidate(
        "c", 5, 6, SpanContent(SpanRole.CHAT, input=history, output=(Message(Role.ASSISTANT, "sorry"),))
    )
    assert len(results(SessionAssembler("s", 3600 * NS), ask, ran, reporting)) == 1


def results(
    session: SessionAssembler, *spans: Candidate
) -> list[tuple[str | None, str | None, str | None, bool]]:
    """The id, tool, arguments and nesting of each result that these spans add, in any order of arrival."""
    found = []
    for order in permutations(spans):
        copy = deepcopy(session)
        for span in order:
            copy.add(span)
        events = copy.advance(max(span.end for span in spans))
        fields = [(span.event_id, span.call_id, span.tool, span.args, span.nested) for span in events]
        found.append([fields[n] for n, span in enumerate(events) if span.kind is Kind.TOOL_RESULT])
    assert all(span == found[0] for span in found)
    return [(call_id, tool, args, nested) for _, call_id, tool, args, nested in found[0]]


def asking(name: str, start: int, end: int, *calls: ToolCall) -> Candidate:
    """A model's call that asks for tools."""
    return candidate(
        name, start, end, SpanContent(SpanRole.CHAT, input=(), output=(Message(Role.ASSISTANT, None, calls),))
    )


@pytest.mark.parametrize("began", [1, 3], ids=["while the model spoke", "after the model"])
def test_a_result_has_the_id_and_the_nesting_of_its_call(began: int) -> None:
    """A run without an id belongs to the call that a model asked, even if it began before the request."""
    call = ToolCall("c1", "look", '{"order": 1}')
    ask = msgspec.structs.replace(asking("a", 0, 2, call), nested=began == 3)
    run = SpanContent(
        SpanRole.TOOL, call=ToolCall(None, "look", call.args), result=ToolResult(None, "look", "ok")
    )
    ran = candidate("b", began, began + 4, run)
    assert results(SessionAssembler("s", 3600 * NS), ask, ran) == [("c1", "look", call.args, began == 3)]


def test_a_result_takes_nothing_from_a_span_that_ends_later() -> None:
    """A history that names the call may come when the result was judged: its id is the same either way."""
    call = ToolCall("c1", "look", '{"order": 1}')
    run = SpanContent(
        SpanRole.TOOL, call=ToolCall(None, "look", call.args), result=ToolResult(None, "look", "ok")
    )
    ran = candidate("a", 1, 4, run)
    history = (Message(Role.USER, "Hi"), Message(Role.ASSISTANT, None, (call,)))
    late = candidate(
        "b", 3, 9, SpanContent(SpanRole.CHAT, input=history, output=(Message(Role.ASSISTANT, "?"),))
    )
    assert results(SessionAssembler("s", 3600 * NS), ran, late) == [(None, "look", call.args, False)]
    assert results(SessionAssembler("s", 3600 * NS), ran) == [(None, "look", call.args, False)]


def test_a_result_without_id_and_tool_takes_its_calls() -> None:
    """A model reports a result alone: nothing but the order shows whose it is."""
    call = ToolCall("c1", "look", '{"order":1}')
    history = (Message(Role.TOOL, results=(ToolResult(None, None, "ok"),)),)
    reporting = candidate(
        "b", 5, 6, SpanContent(SpanRole.CHAT, input=history, output=(Message(Role.ASSISTANT, "?"),))
    )
    assert results(
        SessionAssembler("s", 3600 * NS),
        asking("a", 1, 2, msgspec.structs.replace(call, call_id=None)),
        reporting,
    ) == [(None, "look", call.args, False)]


@pytest.mark.parametrize(
    ("by_tool", "by_model"),
    [
        ("x", '{"result": "x"}'),
        ('{"a": 1, "b": [2]}', '{"b":[2.0],"a":1}'),
        ("{'a': True, 'b': None}", '{"a": true, "b": null}'),
        ('{"id": 7}', '[{"type": "text", "text": "{\\"id\\": 7}"}]'),
        ("anna@example.org", "[masked]"),
        ("x" * 5_000, f'{{"output": "{"x" * 5_000}"}}'),
    ],
)
def test_another_form_of_a_result_is_no_other_result(by_tool: str, by_model: str) -> None:
    """Wrapped, formatted or rewritten on its way to the model, the result of one call is one event."""
    call = ToolCall("c1", "look", "{}")
    spoken = Message(Role.ASSISTANT, None, (call,))
    ask = candidate("a", 1, 2, SpanContent(SpanRole.CHAT, input=(), output=(spoken,)))
    ran = candidate(
        "b", 3, 4, SpanContent(SpanRole.TOOL, call=call, result=ToolResult("c1", "look", by_tool))
    )
    history = (spoken, Message(Role.TOOL, results=(ToolResult("c1", None, by_model),)))
    reporting = candidate(
        "c", 5, 6, SpanContent(SpanRole.CHAT, input=history, output=(Message(Role.ASSISTANT, "8"),))
    )
    made = assembled(SessionAssembler("s", 3600 * NS), ask, ran, reporting)
    assert [result for kind, result in made if kind is Kind.TOOL_RESULT] == [by_tool]


def test_a_result_that_python_writes_for_a_run_without_an_id_is_no_other_one() -> None:
    """Only the text shows that they are one; keys stand in the order in which the tool made them."""
    call = ToolCall("c1", "look", "{}")
    spoken = Message(Role.ASSISTANT, None, (call,))
    run = SpanContent(
        SpanRole.TOOL,
        call=ToolCall(None, "look", "{}"),
        result=ToolResult(None, "look", '{"b": 1, "a": "x"}'),
    )
    history = (spoken, Message(Role.TOOL, results=(ToolResult("c1", None, "{'b': 1, 'a': 'x'}"),)))
    reporting = candidate(
        "c", 5, 6, SpanContent(SpanRole.CHAT, input=history, output=(Message(Role.ASSISTANT, "8"),))
    )
    made = assembled(
        SessionAssembler("s", 3600 * NS), asking("a", 1, 2, call), candidate("b", 3, 4, run), reporting
    )
    assert [result for kind, result in made if kind is Kind.TOOL_RESULT] == ['{"b": 1, "a": "x"}']


@pytest.mark.parametrize("run_id", [None, "call_1", "absent"], ids=["no id", "the call's", "no run"])
def test_an_items_id_and_a_calls_are_of_one_call(run_id: str | None) -> None:
    """OpenAI's items have ids of their own: a call that is named so is its result's call, and names both."""
    call = ToolCall("fc_1", "look", '{"order":1}')
    run = SpanContent(
        SpanRole.TOOL,
        call=msgspec.structs.replace(call, call_id=run_id),
        result=ToolResult(run_id, "look", "ok"),
    )
    ran = [] if run_id == "absent" else [candidate("b", 3, 4, run)]
    history = (
        Message(Role.ASSISTANT, None, (call,)),
        Message(Role.TOOL, results=(ToolResult("call_1", None, "ok"),)),
    )
    reporting = candidate(
        "c", 5, 6, SpanContent(SpanRole.CHAT, input=history, output=(Message(Role.ASSISTANT, "8"),))
    )
    spans = (asking("a", 1, 2, call), *ran, reporting)
    assert results(SessionAssembler("s", 3600 * NS), *spans) == [("fc_1", "look", call.args, False)]
    assert [kind for kind, _ in assembled(SessionAssembler("s", 3600 * NS), *spans)].count(
        Kind.TOOL_CALL
    ) == 1


def test_state_of_an_earlier_release_goes_on() -> None:
    """Entries that waited there wait still: its run, its result and a run of the time before come once."""
    session = decode(base64.b64decode(STORED.read_text())).session
    second = ToolCall("call_2", "look_up", '{"id":2}')
    log_in = ToolCall("call_0", "log_in", '{"user":"' + "a" * 100 + '"}')
    ran = candidate(
        "d", 7, 8, SpanContent(SpanRole.TOOL, call=second, result=ToolResult("call_2", "look_up", "new"))
    )
    again = candidate(
        "e", 9, 10, SpanContent(SpanRole.TOOL, call=log_in, result=ToolResult("call_0", "log_in", "no"))
    )
    made = assembled(session, ran, again)
    assert made == [(Kind.TOOL_RESULT, "new"), (Kind.TOOL_CALL, None), (Kind.TOOL_RESULT, "no")]
