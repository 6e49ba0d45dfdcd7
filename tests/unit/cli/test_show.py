"""`tracline show` from outside: sessions and events of dumps, chat logs and archives of both sorts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline

from ...support.event_rows import PACK, START, call, result, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

DUMP = Path(__file__).parents[2] / "frameworks" / "recordings" / "openai-openinference" / "otlp"
COLUMNS = [
    *("session_id", "occurrence", "time", "seq", "kind", "late", "history", "agent", "model", "service"),
    *("nested", "text", "tool", "call_id", "args", "result", "error", "content", "trace_id", "span_id"),
    *("event_id", "attributes", "spans"),
]
EVERY_EVENT = """
pack: every
version: 1
rules:
  - {id: event, title: Every event, severity: low, formula: always false}
"""
CHATS = [
    {"id": "one", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]},
    {"id": "two", "messages": [{"role": "user", "content": "good morning"}]},
]


def show(source: Path, *more: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(tracline, ["show", str(source), *more])


def lines(source: Path, *more: str) -> list[dict]:
    """Run the command, and read the JSON that it writes."""
    found = show(source, "--format", "json", *more)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """Two conversations in a chat log."""
    file = tmp_path / "chats.json"
    file.write_text(json.dumps(CHATS))
    return file


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """An archive of judged events: a session that shouts, came back once, and one that is open."""
    rows = session("a", user("no!", span_id="s1"), call("pay", "c1"), result("c1"))
    rows += session("a", user("again"), start=START + 7200 * 10**9)
    write(tmp_path / "archive" / "events.parquet", rows + session("b", user("x"), start=START, end=False))
    (tmp_path / "desk.yaml").write_text(PACK)
    return tmp_path / "archive"


def audited(source: Path, folder: Path) -> list[tuple]:
    """Every event that an audit judges, in its order, by a rule that every event breaks."""
    (folder / "every.yaml").write_text(EVERY_EVENT)
    words = [
        "audit",
        str(source),
        "--rules",
        str(folder / "every.yaml"),
        "--out",
        str(folder / "bundle"),
        "-q",
    ]
    assert CliRunner().invoke(tracline, words).exit_code == 0
    found = bundle_lines(folder / "bundle")
    return [tuple(event[name] for name in ("session_id", "occurrence", "seq", "event_id")) for event in found]


def shown(source: Path) -> list[tuple]:
    """Every event that is shown, session by session in the order in which they are listed."""
    sessions = dict.fromkeys(line["session_id"] for line in lines(source))
    events = [event for name in sessions for event in lines(source, "--session", name)]
    return [tuple(row[name] for name in ("session_id", "occurrence", "seq", "event_id")) for row in events]


@pytest.mark.slow
def test_the_demos_archive_is_shown_as_it_is_judged(tmp_path: Path) -> None:
    """The events, their ids and their order are those of an audit; so are closed sessions."""
    demo = ["demo", "--out", str(tmp_path / "demo"), "--sessions", "12", "--quiet"]
    assert CliRunner().invoke(tracline, demo).exit_code == 0
    archive = tmp_path / "demo" / "archive"
    assert shown(archive) == audited(archive, tmp_path)
    assert all(line["closed"] for line in lines(archive))


def test_sessions_are_listed_in_order_with_what_an_audit_finds(judged: Path) -> None:
    """A line for each occurrence, by id and time; with rules the verdicts of an audit."""
    found = lines(judged)
    assert [list(line) for line in found] == [
        ["session_id", "occurrence", "events", "agent", "tools", "closed"]
    ] * 3
    assert [(line["session_id"], line["events"], line["tools"], line["closed"]) for line in found] == [
        ("a", 3, ["look", "pay"], True),
        ("a", 1, [], True),
        ("b", 1, [], True),
    ]
    ruled = lines(judged, "--rules", str(judged.parent / "desk.yaml"))
    assert [line["verdicts"] for line in ruled[1:]] == [[], []]
    (verdict,) = ruled[0]["verdicts"]
    assert verdict == {
        "pack": "desk",
        "rule": "calm",
        "verdict": "violated",
        "seq": 1,
        "event_id": "a-1",
        "slice": None,
        "history": False,
    }


def test_an_event_has_the_columns_of_the_event_frame_and_its_spans(judged: Path) -> None:
    """Times are text in UTC with nine digits; `end` rows are no events; verdicts stand at their events."""
    found = lines(judged, "--session", "a", "--rules", str(judged.parent / "desk.yaml"))
    assert [list(event) for event in found] == [[*COLUMNS, "verdicts"]] * 4
    assert [(event["seq"], event["kind"], event["time"]) for event in found] == [
        (1, "user", "2026-02-17T12:00:00.000000000Z"),
        (2, "tool_call", "2026-02-17T12:00:01.000000000Z"),
        (3, "tool_result", "2026-02-17T12:00:02.000000000Z"),
        (1, "user", "2026-02-17T14:00:00.000000000Z"),
    ]
    assert [event["spans"] for event in found] == [["s1"], [], [], []]
    assert [[verdict["rule"] for verdict in event["verdicts"]] for event in found] == [["calm"], [], [], []]


@pytest.mark.slow
def test_chat_logs_and_what_was_imported_of_them_are_shown_alike(chats: Path, tmp_path: Path) -> None:
    """The events of a chat log, and of the archive that an import makes of it."""
    out = tmp_path / "archive"
    assert CliRunner().invoke(tracline, ["import", str(chats), "--out", str(out)]).exit_code == 0
    assert [line["session_id"] for line in lines(chats)] == ["one", "two"]
    assert lines(out) == lines(chats)
    assert lines(out, "--session", "one") == lines(chats, "--session", "one", "--repeats")
    assert [event["text"] for event in lines(chats, "--session", "one")] == ["hi", "hello"]


@pytest.mark.slow
def test_what_was_imported_of_a_dump_is_shown_as_the_dump(tmp_path: Path) -> None:
    """An archive of candidates: the same events, and the same dropped readings."""
    out = tmp_path / "archive"
    assert CliRunner().invoke(tracline, ["import", str(DUMP), "--out", str(out)]).exit_code == 0
    assert lines(out) == lines(DUMP)
    name = "openai-openinference-amber"
    assert lines(out, "--session", name, "--repeats") == lines(DUMP, "--session", name, "--repeats")


def test_a_call_that_model_and_tool_claim_names_both_spans() -> None:
    """The model's span gave the fields, the tool's span repeats them: it is dropped as paired."""
    found = lines(DUMP, "--session", "openai-openinference-amber", "--repeats")
    event = next(row for row in found if row.get("kind") == "tool_call" and "dropped" not in row)
    (paired,) = (row for row in found if row.get("of") == event["event_id"] and row["dropped"] == "paired")
    assert paired["kind"] == "tool_call"
    assert paired["span_id"] != event["span_id"]
    assert event["spans"][:2] == [event["span_id"], paired["span_id"]]


def test_a_row_that_an_archive_holds_twice_is_dropped_as_a_copy(judged: Path) -> None:
    """Of rows with one place those with the same id are copies; another event there is a conflict."""
    write(judged / "again.parquet", session("b", user("x"), end=False))
    write(judged / "other.parquet", session("b", user("y", event_id="z"), end=False))
    event, copy, conflict = lines(judged, "--session", "b", "--repeats")
    assert (copy["dropped"], copy["of"]) == ("copy", event["event_id"])
    assert (conflict["dropped"], conflict["of"], conflict["text"]) == ("conflict", None, "y")


@pytest.mark.slow
def test_what_was_dropped_live_is_reported_as_missing(judged: Path) -> None:
    """A note on standard error, where there may have been repeats and the archive cannot have them."""
    note = "judged before"
    assert note in show(judged, "--session", "a", "--repeats").stderr
    assert note not in show(judged, "--session", "a").stderr
    assert note not in show(DUMP, "--session", "openai-openinference-amber", "--repeats").stderr


def test_as_of_a_time_only_what_was_there_is_shown(judged: Path) -> None:
    """Later events and sessions are not there, and what had not closed is open."""
    found = lines(judged, "--as-of", "2026-02-17T12:00:01Z")
    assert [(line["session_id"], line["events"], line["closed"]) for line in found] == [
        ("a", 2, False),
        ("b", 1, False),
    ]
    assert len(lines(judged, "--session", "a", "--as-of", "2026-02-17T12:00:01Z")) == 2


def test_an_unknown_session_names_near_ones(chats: Path) -> None:
    """Exit 2, with what to do; nothing on standard output."""
    found = show(chats, "--session", "tow")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "TRL410" in found.stderr
    assert "did you mean two?" in found.stderr
    assert "did you mean two?" in show(chats, "--session", "tw").stderr


def test_repeats_need_a_session(chats: Path) -> None:
    """They are of one session: without it the call is a mistake."""
    found = show(chats, "--repeats")
    assert found.exit_code == 2
    assert "--session" in found.stderr


def test_what_cannot_be_read_exits_2_behind_what_can(tmp_path: Path) -> None:
    """The sessions are listed, what was rejected is named, as other commands do; its text is not."""
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(map(json.dumps, CHATS)) + '\n{"messages": "4111 1111"}')
    found = show(file)
    assert found.exit_code == 2
    assert "one" in found.stdout
    assert "4111" not in found.output
    assert show(file, "--allow-rejected", "1").exit_code == 0


@pytest.mark.slow
def test_a_reader_may_stop_reading(tmp_path: Path) -> None:
    """A closed pipe is no error to complain of."""
    many = [user("long " * 100) for _ in range(500)]
    write(tmp_path / "events.parquet", session("a", *many))
    words = [sys.executable, "-c", "from tracline.cli import main; main()", "show", str(tmp_path)]
    for form in ("json", "table"):
        asked = [*words, "--session", "a", "--format", form]
        with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""


@pytest.mark.slow
def test_a_log_without_times_shows_none(chats: Path, tmp_path: Path) -> None:
    """The list, a session, a finding, an explanation and the report name no year for it."""
    (tmp_path / "desk.yaml").write_text(PACK.replace("not angry", "not true"))
    rules = ("--rules", str(tmp_path / "desk.yaml"))
    bundle = str(tmp_path / "bundle")
    run = CliRunner(env={"COLUMNS": "120"})
    assert run.invoke(tracline, ["audit", str(chats), *rules, "--out", bundle]).exit_code == 0
    for words in (
        ["show", str(chats)],
        ["show", str(chats), "--session", "two", "--repeats"],
        ["show", bundle],
        ["explain", str(chats), "--session", "one", *rules],
    ):
        found = run.invoke(tracline, words)
        assert found.exit_code == 0
        assert "no times" in found.stdout, words
        assert "1970" not in found.stdout
    page = Path(bundle, "report.html").read_text()
    assert "2 sessions have no times" in page
    assert "1970" not in page
