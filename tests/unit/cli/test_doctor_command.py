"""`tracline doctor` on files: its table, its errors, and names that are not what they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.schemas.event import Content, Kind
from tracline.schemas.instrumentations.census import SCOPE_CHARS_MAX
from tracline.schemas.instrumentations.lacks import OTHERS, SCOPES_MAX, Instrumentations, Lack
from tracline.schemas.span import Span
from tracline.schemas.span_content import SpanContent, SpanRole

SPANS_MD = Path(__file__).parents[3] / "docs" / "spans.md"


def run(source: Path, *more: str) -> Result:
    """Run `tracline doctor` on a source."""
    return CliRunner().invoke(tracline, ["doctor", str(source), *more])


def span(number: int, scope: dict[str, str], **attributes: str) -> dict[str, Any]:
    """A span as SDKs dump it, in a trace of its own."""
    return {
        "context": {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"},
        "name": "a span",
        "start_time": 1_771_368_896_000_000_000 + number,
        "end_time": 1_771_368_896_000_000_001 + number,
        "attributes": attributes,
        "instrumentation_scope": scope,
    }


def dump(path: Path, *spans: dict[str, Any]) -> Path:
    """Write spans to a dump."""
    path.write_text(json.dumps({"spans": spans}))
    return path


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c1", "gen_ai.provider.name": "openai"}
CONTENT = {
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}]',
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Good day"}]}]',
}


def test_the_table_names_what_mends_each_lack(tmp_path: Path) -> None:
    """There is a row for each instrumentation and version, and a line for each lack below the table."""
    source = dump(
        tmp_path / "spans.json",
        span(0, {"name": "pydantic-ai", "version": "2.0"}, **CHAT | CONTENT),
        span(1, {"name": "pydantic-ai", "version": "2.1"}, **CHAT),
        span(2, {"name": "opentelemetry.instrumentation.flask", "version": "0.5"}, **{"http.method": "GET"}),
    )
    result = run(source)
    assert result.exit_code == 1
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[:4] == [
        ["instrumentation", "version", "spans", "events", "lacks"],
        ["opentelemetry.instrumentation.flask", "0.5", "1", "0", "nothing"],
        ["pydantic-ai", "2.0", "1", "2", "nothing"],
        ["pydantic-ai", "2.1", "1", "2", "content"],
    ]
    assert result.stdout.splitlines()[4:] == [
        "",
        "pydantic-ai 2.1",
        "  content (2 of 2 events): do not set `include_content` to False",
    ]


def test_names_from_telemetry_are_cleaned_in_the_table(tmp_path: Path) -> None:
    """Scopes and versions cannot move the cursor, turn the line or fill the screen; JSON has them escaped."""
    scope = {"name": "evil\x1b[2J\u202e[red]" + "x" * 5_000, "version": "1\n2\t\x07" + "9" * 5_000}
    source = dump(tmp_path / "spans.json", span(0, scope, **CHAT))
    table = run(source).stdout
    assert not set("\x1b\u202e\x07\t") & set(table)
    assert "[red]" in table
    assert all(len(line) < 130 for line in table.splitlines())
    (scope_row,) = json.loads(run(source, "--format", "json").stdout)
    assert scope_row["scope"] == scope["name"][:SCOPE_CHARS_MAX]
    assert scope_row["version"] == scope["version"][:SCOPE_CHARS_MAX]


@pytest.mark.slow
def test_scopes_beyond_the_limit_are_counted_together(tmp_path: Path) -> None:
    """However many names come, there is a bounded number of rows, and no span is left out."""
    names = [{"name": f"scope-{number:04d}"} for number in range(SCOPES_MAX + 50)]
    source = dump(tmp_path / "spans.json", *(span(n, name, **CHAT) for n, name in enumerate(names)))
    found = json.loads(run(source, "--format", "json").stdout)
    assert len(found) == SCOPES_MAX + 1
    assert {row["scope"]: row["spans"] for row in found}[OTHERS[0]] == 50
    assert sum(row["spans"] for row in found) == SCOPES_MAX + 50


def test_spans_without_a_scope_and_names_that_are_no_text(tmp_path: Path) -> None:
    """They are counted under no name, with the generic setting."""
    source = dump(tmp_path / "spans.json", span(0, {}, **CHAT), span(1, {"name": "a\ud800"}, **CHAT))
    result = run(source, "--format", "json", "--allow-rejected", "9")
    (row,) = json.loads(result.stdout)
    assert (row["scope"], row["spans"], row["lacks"]) == ("", 2, ["content"])
    assert "not known for this scope" in row["setting"]
    assert "(no name)" in run(source, "--allow-rejected", "9").stdout


def test_a_scope_that_looks_like_an_agents_but_is_not_read(tmp_path: Path) -> None:
    """Attributes of models that follow no conventions are unread; a session key is no such attribute."""
    source = dump(
        tmp_path / "spans.json",
        span(0, {"name": "my.agents"}, **{"llm.thing": "x"}),
        span(1, {"name": "my.turns"}, **{"gen_ai.conversation.id": "c1"}),
    )
    found = json.loads(run(source, "--format", "json").stdout)
    assert {row["scope"]: row["lacks"] for row in found} == {"my.agents": ["unread"], "my.turns": []}


def test_a_session_behind_resource_attributes_may_still_be_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `scope` set, a prefix of the trace id does not hide that no session was given."""
    monkeypatch.setenv("TRACLINE_SESSIONS_SCOPE", "tenant.id")
    content = {name: value for name, value in (CHAT | CONTENT).items() if name != "gen_ai.conversation.id"}
    source = dump(tmp_path / "spans.json", span(0, {"name": "pydantic-ai"}, **content))
    (row,) = json.loads(run(source, "--format", "json").stdout)
    assert row["lacks"] == ["session"]


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        (
            "chat.json",
            '[{"role": "user", "content": "Hello"}]',
            "TRL411 contains no spans",
        ),
        ("spans.json", '{"resourceSpans": []}', "TRL411 contains requests without any span"),
        ("spans.json", '{"spans": [{"traceId": "xyz", "spanId": "00"}]}', "TRL603"),
        ("notes.txt", "nothing", "TRL411 contains no spans"),
        ("empty", None, "TRL401"),
    ],
)
def test_sources_without_spans_are_errors(tmp_path: Path, name: str, text: str | None, error: str) -> None:
    """Chat logs, dumps of nothing, unreadable and missing files exit 2 with an error."""
    source = tmp_path / name
    if text is not None:
        source.write_text(text)
    result = run(source, "--format", "json")
    assert result.exit_code == 2
    assert error in result.stderr


def test_what_cannot_be_read_may_be_allowed(tmp_path: Path) -> None:
    """The spans that can be read are diagnosed; too much else exits 2 behind the result."""
    source = dump(
        tmp_path / "spans.json", span(0, {"name": "pydantic-ai"}, **CHAT | CONTENT), {"traceId": "x"}
    )
    refused, allowed = run(source), run(source, "--allow-rejected", "2")
    assert "pydantic-ai" in refused.stdout
    assert (refused.exit_code, allowed.exit_code) == (2, 0)


def test_a_dump_beside_chat_logs_is_diagnosed_alone(tmp_path: Path) -> None:
    """Events of chat logs are of no instrumentation."""
    (tmp_path / "chat.json").write_text('[{"role": "user", "content": "Hello"}]')
    dump(tmp_path / "spans.json", span(0, {"name": "pydantic-ai"}, **CHAT | CONTENT))
    (row,) = json.loads(run(tmp_path, "--format", "json").stdout)
    assert (row["spans"], row["events"]) == (1, 2)


def test_spans_that_were_sent_twice_count_their_events_once(tmp_path: Path) -> None:
    """Both copies are spans that came; the events are counted once, for the first scope."""
    first = span(0, {"name": "pydantic-ai"}, **CHAT | CONTENT)
    source = dump(tmp_path / "spans.json", first, first)
    (row,) = json.loads(run(source, "--format", "json").stdout)
    assert (row["spans"], row["events"]) == (2, 2)


def test_log_records_that_came_are_not_missing() -> None:
    """Content that is missing all the same was not switched on; other instrumentations do not log it."""
    for log_records, scope, lacks in (
        (False, "opentelemetry.instrumentation.openai_v2", [Lack.CONTENT, Lack.LOG_RECORDS]),
        (True, "opentelemetry.instrumentation.openai_v2", [Lack.CONTENT]),
        (False, "openinference.instrumentation.openai", [Lack.CONTENT]),
    ):
        found = Instrumentations(log_records=log_records)
        sent = Span("1" * 32, "2" * 16, None, "chat", 1, 2, scope=scope)
        number = found.add(sent, SpanContent(SpanRole.CHAT))
        found.add_event(number, Kind.UNKNOWN, Content.ABSENT, "c1", sent.trace_id, None)
        assert [list(row.lacks) for row in found.diagnosed()] == [lacks]


def test_every_code_is_documented() -> None:
    """docs/spans.md has a row for each thing that may lack."""
    text = SPANS_MD.read_text()
    for lack in Lack:
        assert f"| `{lack}` |" in text


def test_several_dumps_are_one_source(tmp_path: Path) -> None:
    """The spans of all of them count; an address beside a file is an error of usage."""
    scope = {"name": "pydantic-ai", "version": "2.0"}
    first = dump(tmp_path / "a.json", span(0, scope, **CHAT | CONTENT))
    second = dump(tmp_path / "b.json", span(1, scope, **CHAT | CONTENT))
    (found,) = json.loads(run(first, str(second), "--format", "json").stdout)
    assert found["spans"] == 2
    refused = run(first, "http://127.0.0.1:4318")
    assert refused.exit_code == 2
    assert "asked alone" in refused.stderr
