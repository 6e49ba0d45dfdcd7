"""Why a rule is unjudged: what was not captured, by which instrumentation, and what to set."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.batch.audit.unjudged import OTHER_REASONS, REASONS_MAX, Unjudged, reasons_by_rule
from tracline.cli import tracline
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.frames.events import event_frame
from tracline.schemas.instrumentations.advice import advice_for
from tracline.schemas.instrumentations.missing import Missing
from tracline.schemas.span import Span
from tracline.stream.ingest.request import Encoding

from ...support.dialect_spans import chat
from ...support.evidence.bundle_lines import bundle_lines
from ...support.otlp_spans import START
from ...support.processes.live import wire

PACK = """
pack: desk
version: 1
propositions:
  angry: kind == "user" and text contains "!"
  large: kind == "tool_call" and args.amount > 100
  failed: kind == "tool_result" and result contains "no"
  pays: kind == "tool_call" and tool == "pay"
rules:
  - {id: calm, title: Nobody shouts, severity: high, formula: always not angry}
  - {id: polite, severity: low, formula: always (angry -> previous angry)}
  - {id: small, severity: low, formula: always not large}
  - {id: fine, severity: low, formula: always not failed}
  - {id: free, severity: low, formula: always not pays}
"""
SCOPE = "opentelemetry.instrumentation.openai_v2"
ADVICE = {scope: advice.content for scope in (SCOPE, "openlit.x") if (advice := advice_for(scope))}
SETTING = f"set {ADVICE[SCOPE]}"
CONTENT = {
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}]',
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]',
}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c1"}


def span(number: int, attributes: dict[str, Any], scope: str = SCOPE) -> Span:
    """A span in a trace, and so a session, of its own."""
    common = {"resource": {"service.name": "desk"}, "scope": scope}
    return Span(f"{number:032x}", f"{number:016x}", None, "x", START, START + number, attributes, **common)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a pack."""
    (tmp_path / "desk.yaml").write_text(PACK)
    return tmp_path


def audit(place: Path, *spans: Span) -> Result:
    """Audit a dump of these spans."""
    (place / "dump.json").write_bytes(wire(spans, Encoding.JSON))
    return again(place, "dump.json")


def again(place: Path, source: str) -> Result:
    """Audit a source of the folder."""
    line = ["audit", str(place / source), "--rules", str(place / "desk.yaml"), "--out", str(place / "bundle")]
    found = CliRunner().invoke(tracline, line, env={"COLUMNS": "400"})
    assert found.exit_code == 0, found.output
    return found


def reasons(place: Path) -> dict[str, list[dict[str, Any]]]:
    """Why rules are unjudged, by the summary."""
    rules = json.loads((place / "bundle" / "summary.json").read_text())["rules"]
    return {key: rule["unjudged"] for key, rule in rules.items() if rule["sessions_unjudged"]}


def records(place: Path) -> list[dict[str, Any]]:
    """The lines of the bundle."""
    return bundle_lines(place / "bundle")


@pytest.mark.slow
def test_the_table_shows_what_to_set(place: Path) -> None:
    """With the number of sessions and the instrumentation; rules with one reason share a line."""
    found = audit(place, *(span(number, chat()) for number in range(1, 13)))
    assert SETTING.startswith("set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=")
    expected = f"  unjudged: 12 sessions, messages not captured ({SCOPE}: {SETTING}): calm, polite"
    assert expected in [line.rstrip() for line in found.stdout.splitlines()]


@pytest.mark.slow
def test_the_summary_shows_what_to_set(place: Path) -> None:
    """For each rule, a reason for each scope, those of the most sessions first; judged rules have none."""
    spans = [span(1, chat()), span(2, chat()), span(3, chat(), "openlit.x"), span(4, chat(), "sdk-x")]
    audit(place, *spans)
    rows = [(row["sessions"], row["scope"], row["setting"]) for row in reasons(place)["calm"]]
    assert rows == [(2, SCOPE, SETTING), (1, "openlit.x", ADVICE["openlit.x"]), (1, "sdk-x", None)]
    assert {row["reason"] for row in reasons(place)["calm"]} == {"messages not captured"}
    assert set(reasons(place)) == {"calm", "polite"}


@pytest.mark.slow
def test_a_record_shows_what_is_missing(place: Path) -> None:
    """The line and the row of Parquet; `reason` and the id are what they were."""
    audit(place, span(1, chat()), span(2, chat(**{k.replace(".", "__"): v for k, v in CONTENT.items()})))
    lines = records(place)
    assert [(record["rule"], record["missing"]) for record in lines] == [
        (rule, {"content": "absent", "field": "messages", "scope": SCOPE}) for rule in ("calm", "polite")
    ]
    assert {record["reason"] for record in lines} == {"something that the rule asks about was not captured"}
    typed = pl.read_parquet(place / "bundle" / "verdicts.parquet")
    assert typed["missing"].to_list() == [record["missing"] for record in lines]


@pytest.mark.slow
def test_an_imported_archive_gives_the_same(place: Path) -> None:
    """Its rows hold the scope."""
    audit(place, span(1, chat()), span(2, TOOL))
    verdicts, why = records(place), reasons(place)
    line = ["import", str(place / "dump.json"), "--out", str(place / "archive")]
    assert CliRunner().invoke(tracline, line).exit_code == 0
    again(place, "archive")
    assert (records(place), reasons(place)) == (verdicts, why)


NAMELESS = {**TOOL, "gen_ai.tool.name": ""}
FIELDS = {
    "a call without arguments": (TOOL, "small", "arguments not captured"),
    "a result without content": (TOOL, "fine", "result not captured"),
    "a call of no known tool": (
        {**TOOL, "gen_ai.tool.name": ""},
        "free",
        "tool name and arguments not captured",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("attributes", "rule", "reason"), FIELDS.values(), ids=FIELDS)
def test_what_is_missing_has_a_name(place: Path, attributes: dict[str, Any], rule: str, reason: str) -> None:
    """A message, a call or a result, or the name of the tool."""
    audit(place, span(1, attributes))
    assert [(row["sessions"], row["reason"], row["scope"]) for row in reasons(place)[rule]] == [
        (1, reason, SCOPE)
    ]


ROWS = {
    "absent": ({"kind": Kind.USER}, "message text not captured"),
    "truncated": ({"kind": Kind.TOOL_CALL, "tool": "look", "args": '{"am'}, "arguments cut off"),
    "redacted": ({"kind": Kind.TOOL_RESULT, "tool": "look"}, "result redacted"),
}


def test_rows_by_hand_show_what_they_lack(place: Path) -> None:
    """Event Parquet of any origin: without a scope there is no setting, but for what limits cut off."""
    rows = [
        Event(name, START, START, 1, content=Content(name), event_id=name, **fields)
        for name, (fields, _) in ROWS.items()
    ]
    (place / "rows").mkdir()
    event_frame(rows).write_parquet(place / "rows" / "events.parquet")
    again(place, "rows")
    found = {(record["session_id"], Missing(**record["missing"]).reason) for record in records(place)}
    assert found == {(name, reason) for name, (_, reason) in ROWS.items()}
    assert reasons(place)["calm"][0]["setting"] is None
    assert "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT" in reasons(place)["small"][0]["setting"]


def test_reasons_are_limited() -> None:
    """A summary names so many of each rule, those of the most sessions; the others are counted together."""
    why = {
        Unjudged(1, "x", Missing(Content.ABSENT, "messages", f"scope-{number}")): number
        for number in range(1, REASONS_MAX + 4)
    }
    rows = reasons_by_rule(Counter(why))[1]
    assert len(rows) == REASONS_MAX + 1
    assert rows[0]["scope"] == f"scope-{REASONS_MAX + 3}"
    assert (rows[-1]["reason"], rows[-1]["sessions"]) == (OTHER_REASONS, 1 + 2 + 3)
