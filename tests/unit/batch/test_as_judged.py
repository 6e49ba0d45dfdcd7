"""`tracline audit --as-judged`: every event by the rule set that judged it live, wherever rules changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from tracline.archive.chunk import ArchiveCheckpoint
from tracline.archive.error import SourceError
from tracline.archive.manifest import ManifestSource
from tracline.archive.rule_sets import write_rule_set
from tracline.archive.shared_writer import LiveArchive
from tracline.archive.writer import RULES_COLUMN, archive_writer
from tracline.batch.audit.as_judged import audit_as_judged
from tracline.batch.audit.audit import audit
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.cli import tracline
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import load_texts, pack_text
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Kind
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS
from tracline.stream.messages.codec import Activation, CandidateBatch, EventsMessage, decode_verdicts, encode
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.monitor import MonitorStage
from tracline.stream.stages.monitor_step import MonitorOptions
from tracline.stream.stages.schedule import MonitorState

from ...support.checker import refusal
from ...support.event_rows import PACK, START, call, result, session, user, write
from ...support.evidence.bundle_lines import bundle_lines
from ...support.taking_buffer import TakingBuffer

pytestmark = pytest.mark.slow

OLD = pack_text(PACK)
NEW = pack_text(
    PACK.replace('text contains "!"', 'text contains "?"').replace("id: paid-once", "id: paid-twice")
)
LATEST = load_texts(
    {"desk": "pack: desk\nextends: old.yaml\nseverities: {calm: low}\n", "desk.extends/desk": PACK}
)
A, B = rule_set_digest(OLD), rule_set_digest(NEW)


def archive(root: Path, *parts: tuple[list[dict], str], times: int = 1) -> Path:
    """An archive of these rows, so many times over, judged by the sets of the letters `a` and `b`."""
    rows = [row for session_rows, _ in parts for row in session_rows]
    rules = [{"a": A, "b": B}[letter] for _, letters in parts for letter in letters]
    frame = pl.read_parquet(write(root.with_name("rows.parquet"), rows))
    with archive_writer(root) as writer:
        for number in range(times):
            judged = frame.with_columns(pl.Series(RULES_COLUMN, rules))
            writer.write(judged, ManifestSource("kafka", "c" * 64), (number, number))
    for rule_set in (OLD, NEW):
        write_rule_set(root, rule_set_digest(rule_set), rule_set.sources)
    return root


def judged(root: Path, **options: Any) -> list[tuple[str, int, str, str]]:
    """Session, place, rule and verdict of what an audit as judged finds."""
    bundle = root.with_name("bundle")
    audit_as_judged(root, bundle, AuditOptions(**options))
    assert refusal(bundle) is None
    return [(v["session_id"], v["seq"], v["rule"], v["verdict"]) for v in bundle_lines(bundle)]


def plain(root: Path, name: str, rows: Sequence[dict], rules: Any) -> list[dict[str, Any]]:
    """Return what an ordinary audit of these rows finds."""
    write(root / name / "archive" / "events.parquet", rows)
    audit(root / name / "archive", rules, root / name / "bundle", AuditOptions())
    return bundle_lines(root / name / "bundle")


ROWS = [
    *session("s", user("hello"), call("pay"), user("now!"), call("pay"), result(), user("why?")),
    *session("t", user("well!"), user("well?"), call("odd"), end=False),
]


def test_one_set_that_judged_all_is_an_ordinary_audit(tmp_path: Path) -> None:
    """The bytes of verdicts are the same, and the summary is but for its list of rule sets."""
    found = audit_as_judged(
        archive(tmp_path / "live", (ROWS, "a" * len(ROWS))), tmp_path / "bundle", AuditOptions(satisfied=True)
    )
    write(tmp_path / "plain" / "events.parquet", ROWS)
    plain_audit = audit(tmp_path / "plain", OLD, tmp_path / "other", AuditOptions(satisfied=True))
    assert len(bundle_lines(tmp_path / "bundle")) > 4
    for name in ("verdicts.jsonl", "verdicts.parquet"):
        assert (tmp_path / "bundle" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    summary = dict(found.summary)
    [of_set] = summary.pop("rule_sets")
    assert summary == plain_audit.summary
    assert found.examples == plain_audit.examples
    assert of_set == {
        "digest": A,
        "events": len(ROWS) - 1,
        "first_time": "2026-02-17T12:00:00.000000000Z",
        "packs": ["desk"],
        "rules": 4,
    }
    assert (tmp_path / "bundle" / "rules" / A / "desk.yaml").read_text() == PACK


def test_occurrences_that_finished_under_their_rules(tmp_path: Path) -> None:
    """Each occurrence is judged whole by its own set, as two audits would: also while both are in force."""
    first = session("s", user("now!"), call(), user("now?"))
    second = session("s", user("now!"), call(), user("now?"), start=START + 3600 * NS)
    second_session = session("t", user("now?"), start=START + NS)
    live = archive(tmp_path / "live", (first, "aaaa"), (second_session, "bb"), (second, "bbbb"))
    audit_as_judged(live, tmp_path / "bundle", AuditOptions())
    found = {verdict["id"] for verdict in bundle_lines(tmp_path / "bundle")}
    old = plain(tmp_path, "old", first, OLD)
    new = plain(tmp_path, "new", [*second, *second_session], NEW)
    assert found == {verdict["id"] for verdict in [*old, *new]}
    assert len(found) == 2 + 3
    assert {verdict["rule_digest"] for verdict in old if verdict["rule"] == "calm"}.isdisjoint(
        verdict["rule_digest"] for verdict in new
    )


def test_an_occurrence_that_restarted_under_other_rules(tmp_path: Path) -> None:
    """The old part stays open, the new one begins with empty history at its own place, and closes."""
    rows = session("s", call("odd"), call("pay"), user("now!"), user("now?"), call("pay"))
    # Under one set: the calls are unmet at the end, paid twice, and odd before anybody was angry.
    assert judged(archive(tmp_path / "live", (rows, "aabbbb"))) == [
        ("s", 1, "gives-up", "violated"),
        ("s", 4, "calm", "violated"),
        ("s", 5, "answered", "unmet"),
    ]


def test_a_set_that_came_back_has_two_histories(tmp_path: Path) -> None:
    """The history of the first part of a session is forgotten in the third, though the same set judges it."""
    rows = session("s", call("pay"), user("now?"), call("pay"))
    assert judged(archive(tmp_path / "live", (rows, "abaa"))) == [
        ("s", 2, "calm", "violated"),
        ("s", 3, "answered", "unmet"),
    ]


def test_segments_are_drawn_with_the_rules_of_their_set(tmp_path: Path) -> None:
    """A violating segment has the rules of its own set; a clean session was judged by one set as a whole."""
    torn = session("torn", user("why?"), user("a"), user("now!"), user("why?"))
    clean = session("clean", user("a"), call("pay"), result(), user("b"))
    mixed = session("mixed", user("a"), user("b"), user("c"), user("d"))
    rows = (torn, "aabbb"), (clean, "b" * len(clean)), (mixed, "aabbb")
    judged(archive(tmp_path / "archive", *rows))
    lines = bundle_lines(tmp_path / "bundle", "sessions.jsonl")
    found = {(line["session_id"], line["why"], line["events"][0]["seq"]): line["rules"] for line in lines}
    assert set(found) == {("torn", "worst", 3), ("clean", "sample", 1)}
    assert {run["rule"] for run in found["clean", "sample", 1]} >= {"paid-twice"}
    (calm,) = [run for run in found["torn", "worst", 3] if run["rule"] == "calm"]
    assert [verdict["step"] for verdict in calm["verdicts"] if verdict["sentence"]] == [2]


def test_an_end_closes_only_the_segment_that_it_follows(tmp_path: Path) -> None:
    """If the rules changed twice and nothing came after, no part has anything to close."""
    rows = session("s", call("pay"), call("pay"))
    assert judged(archive(tmp_path / "live", (rows, "aba"))) == []
    assert judged(archive(tmp_path / "more", (rows, "aab"))) == [("s", 2, "paid-once", "violated")]


def test_an_archive_that_holds_a_file_twice_gives_the_same_verdicts(tmp_path: Path) -> None:
    """Repeated rows, ends among them, neither cut nor close anything."""
    rows = session("s", call("odd"), call("pay"), user("now!"), user("now?"), call("pay"))
    once = judged(archive(tmp_path / "live", (rows, "aabbbb")))
    assert once
    assert judged(archive(tmp_path / "twice", (rows, "aabbbb"), times=2)) == once


def test_more_rows_than_memory_holds_are_judged_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By way of the disk, in several threads, the verdicts are the same bytes."""
    parts = [
        (session(f"s{i}", call("odd"), call("pay"), user("now!"), user("now?"), call("pay")), "aabbbb")
        for i in range(20)
    ]
    live = archive(tmp_path / "live", *parts)
    audit_as_judged(live, tmp_path / "held", AuditOptions())
    monkeypatch.setattr(spill, "BUCKET_ROWS", 10)
    monkeypatch.setattr(spill, "HELD_BYTES", 0)
    audit_as_judged(live, tmp_path / "spilled", AuditOptions(threads=2))
    held, spilled = ((tmp_path / name / "verdicts.jsonl").read_bytes() for name in ("held", "spilled"))
    assert held == spilled
    assert len(held.splitlines()) == 60


def test_late_events_are_no_change_of_rules(tmp_path: Path) -> None:
    """As of a time, an event that was judged before but happened later leaves no cut behind."""
    rows = session("s", call("pay", "c1"), user("later"), call("pay", "c1"), end=False)
    rows[1]["time"] += 60 * NS
    live = archive(tmp_path / "live", (rows, "aaa"))
    assert judged(live, as_of=START + 10 * NS) == [("s", 3, "paid-once", "violated")]


def test_a_summary_adds_the_rules_of_all_sets_up(tmp_path: Path) -> None:
    """Rules of one pack and id count together, sessions and events once, whatever sets judged them."""
    changed = session("s", user("now!", agent="bot"), user("now?", agent="bot"))
    second_session = session("t", user("now!", agent="bot"))
    root = archive(tmp_path / "live", (changed, "abb"), (second_session, "aa"))
    found = audit_as_judged(root, tmp_path / "bundle", AuditOptions()).summary
    population = found["population"]
    assert (population["events"], population["sessions"], population["open_sessions"]) == (3, 2, 0)
    assert population["sessions_by_agent"] == {"bot": 2}
    assert found["rules"]["calm"]["violations"] == 3
    # Two segments and a session: each set has its own rule.
    assert found["rules"]["calm"]["sessions_violating"] == 3
    assert found["rules"]["calm"]["by_agent"]["bot"]["violations"] == 3
    assert set(found["rules"]) == {"answered", "calm", "gives-up", "paid-once", "paid-twice"}
    assert [(record["digest"], record["events"]) for record in found["rule_sets"]] == [(A, 2), (B, 1)]
    latest = {record["rule_digest"] for record in bundle_lines(tmp_path / "bundle") if record["seq"] == 2}
    assert latest == {found["rules"]["calm"]["rule_digest"]}


def test_an_archive_that_names_no_rules_is_refused(tmp_path: Path) -> None:
    """Imported logs do not record by which rules they were judged, nor do archives of earlier releases."""
    write(tmp_path / "archive" / "events.parquet", ROWS)
    with pytest.raises(SourceError, match="TRL407") as caught:
        audit_as_judged(tmp_path / "archive", tmp_path / "bundle", AuditOptions())
    assert "--rules" in caught.value.hint
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("content", [None, b"[]", b"{", b'{"packs":{"desk":"pack: desk\\n"}}'])
def test_a_rule_set_that_is_not_there_or_was_changed_is_refused(
    tmp_path: Path, content: bytes | None
) -> None:
    """Nothing is judged by rules that nobody vouches for."""
    live = archive(tmp_path / "live", (session("s", user("now!")), "aa"))
    file = live / "rules" / f"{A}.json"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(SourceError, match="TRL408"):
        audit_as_judged(live, tmp_path / "bundle", AuditOptions())


def test_an_archive_that_was_copied_without_its_manifest_is_judged_alike(tmp_path: Path) -> None:
    """Its rule sets are no telemetry there either; another file beside them is looked at as ever."""
    live = archive(tmp_path / "live", (session("s", user("now!")), "aa"))
    whole = judged(live)
    (live / "manifest.jsonl").unlink()
    (live / "rules" / "more.json").write_text("[7]")
    (live / "rules" / f"{'0' * 64}.json").write_text("[7]")
    found = audit_as_judged(live, tmp_path / "bundle", AuditOptions())
    assert [
        (v["session_id"], v["seq"], v["rule"], v["verdict"]) for v in bundle_lines(tmp_path / "bundle")
    ] == whole
    assert {reject.file for reject in found.population.rejects} == {
        "rules/more.json",
        f"rules/{'0' * 64}.json",
    }


def test_no_digest_leads_out_of_the_archive(tmp_path: Path) -> None:
    """A name in a row is only looked up where it is a digest."""
    live = archive(tmp_path / "live", (session("s", user("now!")), "aa"))
    (tmp_path / "outside.json").write_bytes((live / "rules" / f"{A}.json").read_bytes())
    hostile = pl.lit("../../outside").alias(RULES_COLUMN)
    frame = pl.read_parquet(tmp_path / "rows.parquet").with_columns(hostile)
    with archive_writer(live) as writer:
        writer.write(frame, ManifestSource("kafka", "d" * 64), (0, 0))
    with pytest.raises(SourceError, match="TRL408"):
        audit_as_judged(live, tmp_path / "bundle", AuditOptions())


def test_the_command_takes_one_of_the_two(tmp_path: Path) -> None:
    """Either rules are named or those in the archive are used; the verdicts are written as ever."""
    live = str(archive(tmp_path / "live", (session("s", user("now!")), "aa")))
    out = ["--out", str(tmp_path / "bundle")]
    run = CliRunner().invoke
    both = run(tracline, ["audit", live, "--as-judged", *out, "--rules", "privacy"])
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)
    neither = run(tracline, ["audit", live, *out])
    assert (neither.exit_code, "Missing option '--rules'" in neither.stderr) == (2, True)
    done = run(tracline, ["audit", live, "--as-judged", *out, "--format", "jsonl", "--fail-on", "high"])
    assert done.exit_code == 1, done.stderr
    assert [json.loads(line)["rule"] for line in done.stdout.splitlines()] == ["calm"]


def candidate(session_id: str, second: int, kind: Kind, **more: Any) -> Candidate:
    """A message or an action in a second of its own."""
    time = START + second * NS
    claims = (Claim(kind, time, place=0, key=f"{second}", **more),)
    return Candidate(
        session_id, SpanRole.CHAT, time, time, claims, "t", f"{session_id}-{second}", str(second)
    )


def live_messages() -> list[EventsMessage]:
    """Sessions of which one is over before the rules change twice, one goes on through that, one begins."""

    def batch(until: int, *candidates: Candidate) -> CandidateBatch:
        return CandidateBatch(0, 1, 0, START + until * NS, list(candidates))

    return [
        batch(
            0,
            candidate("a", 1, Kind.USER, text="now!"),
            candidate("b", 1, Kind.TOOL_CALL, tool="pay", call_id="c"),
        ),
        batch(3, candidate("b", 2, Kind.USER, text="now! or now?")),
        batch(70, candidate("b", 40, Kind.TOOL_CALL, tool="pay", call_id="c")),
        Activation(dict(NEW.sources)),
        batch(80, candidate("b", 75, Kind.USER, text="why? why!"), candidate("c", 76, Kind.USER, text="hm?")),
        Activation(dict(LATEST.sources)),
        batch(
            90,
            candidate("b", 85, Kind.TOOL_CALL, tool="pay", call_id="c"),
            candidate("c", 84, Kind.USER, text="!"),
        ),
        batch(300),
    ]


@pytest.mark.parametrize("polled", [1, 2, 100], ids=["one by one", "two by two", "together"])
@pytest.mark.parametrize("finish", [True, False], ids=["finish", "restart"])
def test_an_audit_as_judged_finds_what_was_found_live(tmp_path: Path, finish: bool, polled: int) -> None:
    """The monitor's verdicts, over activations, have the ids of the audit of its own archive."""
    options = MonitorOptions(
        SessionSettings(idle_s=60, lateness_s=0),
        partitions=1,
        bytes_max=100_000,
        finish=finish,
        rules=dict(OLD.sources),
    )
    table: dict[str, bytes] = {}
    monitor, state = MonitorStage(options), MonitorState(table)
    monitor.restore(state, [0], [])
    taking = TakingBuffer(0, ArchiveCheckpoint(0, 0))
    live: dict[str, tuple[str, str, str]] = {}
    records = [Record(0, offset, START, encode(message)) for offset, message in enumerate(live_messages())]
    for begin in range(0, len(records), polled):
        step = monitor.step(state, records[begin : begin + polled])
        table.update({key: value for key, value in step.writes[0] if value is not None})
        state.apply(step.writes)
        for output in step.outputs:
            if output.topic is Topic.JUDGED:
                offset = taking.buffer.progress.next
                assert taking.take(Record(0, offset, START, output.value or b"")) is None
            elif output.topic is Topic.VERDICTS:
                for record in decode_verdicts(output.value or b"").verdicts:
                    live[record.id] = (record.session_id, record.rule, record.verdict)
    written = LiveArchive(tmp_path / "live", "kafka", "c" * 64)
    chunk = taking.chunk
    with written.lock():
        for digest, packs in chunk.activated.items():
            written.write_rules(digest, packs)
        written.begin(chunk)
        written.write(chunk)
        written.commit()
        written.finish(chunk)
    audit_as_judged(tmp_path / "live", tmp_path / "bundle", AuditOptions())
    found = {
        record["id"]: (record["session_id"], record["rule"], record["verdict"])
        for record in bundle_lines(tmp_path / "bundle")
    }
    assert found == live
    counts = Counter(live.values())
    # The third payment is one too many if its session's history counts.
    assert counts["b", "paid-once", "violated"] == (2 if finish else 1)
    assert counts["c", "calm", "violated"] == (1 if finish else 2)
    assert counts["a", "calm", "violated"] == counts["b", "answered", "unmet"] == 1
