"""Audits of sessions in which nobody names a tool: a call is then of some tool, not of another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.engine.records import REASONS
from tracline.rules.labels.labeler import Labeler
from tracline.rules.packs.load import pack_text

from ...support.event_rows import call, session, user, write

RULES = pack_text("""
pack: desk
version: 1
propositions:
  found: kind == "tool_result" and tool == "find_user" and error is null
  refund: kind == "tool_call" and tool == "refund"
  pays: kind == "tool_call" and tool matches /^pay/
  message: kind in ["user", "assistant"]
rules:
  - {id: authenticate-first, severity: critical, formula: always (refund -> once found)}
  - {id: no-payments, formula: always not pays}
  - {id: once-each, for_each: tool, formula: 'always (refund -> at_most[1] refund)'}
  - {id: talks, formula: eventually message}
""")
ASKS = {"authenticate-first", "no-payments", "once-each"}


def judged(tmp_path: Path) -> dict[str, list[tuple[str, int, str | None]]]:
    """Verdict, place and reason of each record of the folder's audit, by rule."""
    audit(tmp_path / "archive", RULES, tmp_path / "bundle", AuditOptions())
    found: dict[str, list[tuple[str, int, str | None]]] = {}
    for line in (tmp_path / "bundle" / "verdicts.jsonl").read_text().splitlines():
        record = json.loads(line)
        found.setdefault(record["rule"], []).append((record["verdict"], record["seq"], record["reason"]))
    return found


def unjudged(seq: int) -> list[tuple[str, int, str | None]]:
    """The records of a rule that could not judge from that event on."""
    return [("unjudged", seq, next(iter(REASONS.values())))]


def span(number: int, **values: str) -> dict[str, Any]:
    """A span of OTLP JSON, ten seconds after the one before."""
    start = 1_771_329_600_000_000_000 + number * 10_000_000_000
    pairs = {"gen_ai.conversation.id": "s", **{key.replace("__", "."): text for key, text in values.items()}}
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": "chat",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 1_000_000_000),
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in pairs.items()],
    }


def dump(tmp_path: Path, *spans: dict[str, Any]) -> None:
    """A dump of spans in one file of an archive's folder."""
    (tmp_path / "archive").mkdir()
    request = {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}
    (tmp_path / "archive" / "spans.jsonl").write_text(json.dumps(request) + "\n")


def test_a_result_whose_ids_fit_no_call_could_be_any_tools(tmp_path: Path) -> None:
    """In a dump of spans the log-in's result cannot be paired: the refund after it may be a violation."""
    asked = [{"role": "user", "parts": [{"type": "text", "content": "refund me"}]}]
    look = {"type": "tool_call", "id": "call_1", "name": "find_user", "arguments": {}}
    also = {"type": "tool_call", "id": "call_2", "name": "get_time", "arguments": {}}
    answer = {"type": "tool_call_response", "id": "toolu_x", "response": "u17"}
    refund = {"type": "tool_call", "id": "call_3", "name": "refund", "arguments": {"amount": 5}}
    answering = {"role": "assistant", "parts": [look, also]}
    dump(
        tmp_path,
        span(1, gen_ai__operation__name="chat", gen_ai__input__messages=json.dumps(asked),
             gen_ai__output__messages=json.dumps([answering])),
        span(2, gen_ai__operation__name="chat",
             gen_ai__input__messages=json.dumps([*asked, answering, {"role": "tool", "parts": [answer]}]),
             gen_ai__output__messages=json.dumps([{"role": "assistant", "parts": [refund]}])),
    )  # fmt: skip
    found = judged(tmp_path)
    assert found["authenticate-first"] == unjudged(5)
    assert "no-payments" not in found, "a result is no call, whatever its tool"


def test_a_run_without_a_name_is_not_clean(tmp_path: Path) -> None:
    """In a dump of spans a run that does not name its tool may be the one that is forbidden."""
    dump(tmp_path, span(1, gen_ai__operation__name="execute_tool", gen_ai__tool__call__arguments="{}"))
    found = judged(tmp_path)
    assert {rule for rule, records in found.items() if records[0] == unjudged(1)[0]} == ASKS


def test_a_result_of_a_chat_log_that_fits_no_call_could_be_any_tools(tmp_path: Path) -> None:
    """A chat log is judged as the spans of the same session are."""
    function = {"name": "refund", "arguments": "{}"}
    messages = [
        {"role": "user", "content": "refund me"},
        {"role": "tool", "tool_call_id": "toolu_x", "content": "u17"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
    ]
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "chat.json").write_text(json.dumps(messages))
    found = judged(tmp_path)
    assert found["authenticate-first"] == unjudged(3)


@pytest.mark.parametrize("content", ["absent", "truncated", "redacted"])
def test_rows_whose_tool_was_not_captured_make_rules_unjudged(tmp_path: Path, content: str) -> None:
    """In event Parquet too; a call of a known tool is judged, whatever became of its arguments."""
    nameless = call() | {"tool": None, "content": content}
    rows = session("s", user("hi"), call("look", content=content), nameless)
    write(tmp_path / "archive" / "events.parquet", rows)
    found = judged(tmp_path)
    assert {rule: found[rule] for rule in ASKS} == dict.fromkeys(ASKS, unjudged(3))


def test_a_tool_with_the_name_none_is_none(tmp_path: Path) -> None:
    """A row that claims to be captured whole is believed: nothing about it is unknown."""
    write(tmp_path / "archive" / "events.parquet", session("s", user("hi"), call() | {"tool": None}))
    assert judged(tmp_path) == {}


def test_a_tools_questions_read_the_mark_of_its_capture() -> None:
    """The columns that decide it are read, where nothing else asks for them."""
    rules = pack_text('pack: p\npropositions: {a: tool == "x"}\nrules: [{id: r, formula: always a}]\n')
    assert Labeler(rules).fields == ("kind", "tool", "content")
