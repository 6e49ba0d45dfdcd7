"""Spans without a conversation: every command reports that they came and nothing was read from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.schemas.instrumentations.census import OTHER_SCOPES, SCOPES_MAX, SpanCensus
from tracline.schemas.span import Span
from tracline.stream.ingest.request import Encoding
from tracline.stream.process.unread import SPANS_MIN, UnreadNotice

from ...support.dialect_spans import chat
from ...support.otlp_spans import START
from ...support.processes.live import wire

PACK = """
pack: desk
version: 1
propositions: {angry: 'kind == "user" and text contains "!"'}
rules: [{id: calm, title: Nobody shouts, severity: high, formula: always not angry}]
"""
CONTENT = chat(gen_ai__input__messages='[{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}]')


def span(number: int, scope: str, **attributes: Any) -> Span:
    """A span of an instrumentation, in a trace of its own."""
    trace_id, span_id = f"{number:032x}", f"{number:016x}"
    common = {"attributes": attributes, "resource": {"service.name": "desk"}, "scope": scope}
    return Span(trace_id, span_id, None, "GET", START, START + number, **common)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a pack."""
    (tmp_path / "desk.yaml").write_text(PACK)
    return tmp_path


def run(place: Path, command: str, source: str, *more: str) -> Result:
    """Audit or import a source of the folder."""
    line = [command, str(place / source), "--out", str(place / f"{command}ed")]
    line += ["--rules", str(place / "desk.yaml")] if command == "audit" else []
    return CliRunner().invoke(tracline, [*line, *more])


def put(place: Path, *spans: Span, encoding: Encoding = Encoding.JSON) -> None:
    """A dump of these spans."""
    (place / "dump.json").write_bytes(wire(spans, encoding))


def population(place: Path) -> dict[str, Any]:
    """Return the bundle's summary of what was judged."""
    return json.loads((place / "audited" / "summary.json").read_text())["population"]


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("command", ["audit", "import"])
def test_spans_of_which_none_is_read_are_an_error(place: Path, command: str, encoding: Encoding) -> None:
    """Exit 2 (TRL605) with the number of spans, their scopes, the largest first, and what to do."""
    put(place, *(span(n, "sdk-x") for n in range(1, 37)), span(40, "http"), span(41, ""), encoding=encoding)
    found = run(place, command, "dump.json")
    assert found.exit_code == 2
    error = "TRL605 38 spans, none contains a conversation; scopes: sdk-x 36, (no name) 1, http 1"
    assert error in found.stderr
    assert f"hint: run `tracline doctor {place / 'dump.json'}`; docs/spans.md lists" in found.stderr


def test_the_bundle_counts_what_is_not_read(place: Path) -> None:
    """It is written all the same, with the spans by scope."""
    put(place, span(1, "sdk-x"), span(2, "sdk-x"), span(3, ""))
    assert run(place, "audit", "dump.json").exit_code == 2
    counts = population(place)
    assert (counts["spans"], counts["spans_read"], counts["events"]) == (3, 0, 0)
    assert counts["scopes"] == {"": {"spans": 1, "read": 0}, "sdk-x": {"spans": 2, "read": 0}}


@pytest.mark.parametrize("command", ["audit", "import"])
def test_unread_spans_may_be_allowed(place: Path, command: str) -> None:
    """With `--allow-empty` it is reported, and is no error; `--quiet` silences it then."""
    put(place, span(1, "sdk-x"))
    allowed = run(place, command, "dump.json", "--allow-empty")
    assert allowed.exit_code == 0
    assert "1 span, none contains a conversation; scopes: sdk-x 1" in allowed.stderr
    assert run(place, command, "dump.json", "--allow-empty", "--quiet").stderr == ""
    assert run(place, command, "dump.json", "--quiet").exit_code == 2


def test_unread_spans_are_reported_beside_what_is_rejected(place: Path) -> None:
    """Neither hides the other."""
    put(place, span(1, "sdk-x"))
    (place / "broken.json").write_text('{"resourceSpans": 1}')
    (place / "all").mkdir()
    for name in ("dump.json", "broken.json"):
        (place / name).rename(place / "all" / name)
    found = run(place, "audit", "all")
    assert found.exit_code == 2
    assert "TRL605" in found.stderr
    assert "TRL603" in found.stderr


def test_an_archive_reports_what_its_import_did_not_read(place: Path) -> None:
    """Importing again reports it again, without a second count, and an audit of the archive finds as many."""
    put(place, span(1, "sdk-x"), span(2, "sdk-x"))
    codes = [run(place, "import", "dump.json").exit_code for _ in range(2)]
    found = run(place, "audit", "imported")
    assert (codes, found.exit_code) == ([2, 2], 2)
    assert "TRL605 2 spans, none contains a conversation; scopes: sdk-x 2" in found.stderr
    assert len((place / "imported" / "manifest.jsonl").read_text().splitlines()) == 1


@pytest.mark.slow
def test_an_archive_of_read_spans_counts_them(place: Path) -> None:
    """The counts are those of an audit of the dump."""
    put(place, span(1, "sdk-x", **CONTENT), span(2, "http"))
    run(place, "audit", "dump.json")
    counts = population(place)
    assert run(place, "import", "dump.json").exit_code == 0
    assert run(place, "audit", "imported").exit_code == 0
    assert population(place)["scopes"] == counts["scopes"]
    assert counts["scopes"] == {"http": {"spans": 1, "read": 0}, "sdk-x": {"spans": 1, "read": 1}}


def test_ordinary_spans_beside_agents_are_no_news(place: Path) -> None:
    """HTTP and database spans carry no conversation, as they should."""
    put(place, span(1, "sdk-x", **CONTENT), span(2, "http"), span(3, "opentelemetry.instrumentation.redis"))
    found = run(place, "audit", "dump.json")
    assert (found.exit_code, found.stderr) == (0, "")


def test_an_agent_frameworks_scope_that_is_not_read_is_reported(place: Path) -> None:
    """Beside spans that are read it is a note, and no error."""
    put(place, span(1, "sdk-x", **CONTENT), span(2, "langfuse-sdk"), span(3, "langfuse-sdk"), span(4, "http"))
    found = run(place, "audit", "dump.json")
    assert found.exit_code == 0
    assert "2 spans, none contains a conversation; scopes: langfuse-sdk 2\n" in found.stderr


def test_events_of_other_parts_of_a_framework_are_enough(place: Path) -> None:
    """Nor is anything amiss where a framework's spans never hold messages."""
    read, silent = "semantic_kernel.functions.kernel_function", "semantic_kernel.connectors.ai.base"
    put(place, span(1, read, **CONTENT), span(2, silent), span(3, "autogen-core"))
    assert run(place, "audit", "dump.json").stderr == ""


def test_a_hostile_scope_stays_in_its_line(place: Path) -> None:
    """Names are cut, and cleaned where they are shown."""
    put(place, span(1, "evil\x1b[31m\n" + "x" * 10_000))
    error = run(place, "audit", "dump.json").stderr
    assert "\x1b" not in error
    assert [len(line) < 500 for line in error.splitlines()] == [True, True]


QUIET = {
    "a request without spans": ("night.json", '{"resourceSpans": []}'),
    "a file that nothing was written to": ("night.jsonl", ""),
    "a log without conversations": ("night.json", "[]"),
    "an archive without files": ("manifest.jsonl", ""),
}


@pytest.mark.parametrize(("name", "text"), QUIET.values(), ids=QUIET)
def test_a_quiet_night_is_reported_as_clean(place: Path, name: str, text: str) -> None:
    """No rows at all are no error: nothing happened."""
    (place / "night").mkdir()
    (place / "night" / name).write_text(text)
    found = run(place, "audit", "night")
    assert found.exit_code == 0
    assert "night: no rows: nothing to judge" in found.stderr
    assert (population(place)["rows"], population(place)["spans"]) == (0, 0)
    assert run(place, "import", "night").exit_code == 0


def test_scopes_are_limited() -> None:
    """The counts beyond the limit are added up, and nothing is lost."""
    census = SpanCensus()
    for number in range(SCOPES_MAX + 5):
        census.count(f"scope-{number}", 2, 1)
    assert len(census.spans) == SCOPES_MAX + 1
    assert (census.spans[OTHER_SCOPES], census.read[OTHER_SCOPES]) == (10, 5)
    assert census.spans.total() == 2 * (SCOPES_MAX + 5)


def test_a_live_process_reports_it_once() -> None:
    """When nothing is on its way, or so many came: once of all, then once of a framework's scope."""
    notices: list[str] = []
    notice = UnreadNotice(notices.append)
    came = SpanCensus()
    came.count("sdk-x", SPANS_MIN - 1, 0)
    notice.add(came)
    assert notices == []
    notice.add(came)
    notice.idle()
    assert [line.partition(" spans, none contains a conversation; scopes: ")[2] for line in notices] == [
        f"sdk-x {2 * SPANS_MIN - 2:,}; run `tracline doctor`, or see docs/spans.md"
    ]
    more = SpanCensus()
    more.count("langfuse-sdk", 3, 0)
    more.count("sdk-y", 3, 3)
    notice.add(more)
    notice.idle()
    notice.idle()
    assert [line.partition(";")[0] for line in notices[1:]] == ["3 spans, none contains a conversation"]


def test_a_live_process_whose_spans_are_read_reports_nothing() -> None:
    """Not at the first ordinary spans either, as long as more may come."""
    notices: list[str] = []
    notice = UnreadNotice(notices.append)
    came = SpanCensus()
    came.count("http", 5, 0)
    notice.add(came)
    came.count("langfuse-sdk", 5, 5)
    notice.add(came)
    notice.idle()
    assert notices == []
