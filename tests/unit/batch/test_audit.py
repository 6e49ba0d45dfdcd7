"""Counts, closes, omissions and files of an audit, on archives small enough to see."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tracline.archive.error import SourceError
from tracline.archive.gaps import gaps
from tracline.archive.manifest import MANIFEST, Manifest, ManifestSource, read_manifest
from tracline.archive.writer import archive_writer
from tracline.batch.audit.audit import AuditResult, audit
from tracline.batch.evidence.bundle import VERDICT_SCHEMA
from tracline.batch.importing.run import import_source
from tracline.batch.prepare import chat_frames as chatframe
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.engine.kernel import SLICES_MAX
from tracline.rules.model.rule import stopping
from tracline.rules.packs.load import pack_text
from tracline.schemas.time import NS, rfc3339

from ...support.checker import refusal
from ...support.event_rows import PACK, START, call, result, session, user, write

HOUR = 3600 * NS
RULES = pack_text(PACK)


def run(tmp_path: Path, *sessions: list[dict], **options: object) -> tuple[AuditResult, list[dict]]:
    """Audit the sessions; the outcome and the verdicts."""
    archive = write(
        tmp_path / "archive" / "events.parquet", [row for session_rows in sessions for row in session_rows]
    )
    outcome = audit(archive.parent, RULES, tmp_path / "bundle", AuditOptions(**options))
    assert refusal(tmp_path / "bundle") is None
    lines = (tmp_path / "bundle" / "verdicts.jsonl").read_text().splitlines()
    return outcome, [json.loads(line) for line in lines]


def fields_of(verdicts: list[dict]) -> list[tuple]:
    """Session, place, rule and verdict of each record."""
    return [(v["session_id"], v["seq"], v["rule"], v["verdict"]) for v in verdicts]


def test_a_record_has_every_field_and_a_witness(tmp_path: Path) -> None:
    """A violation names the rule, the event, the agent, and shows the events that led to it."""
    _, [verdict] = run(tmp_path, session("a", user("hello", agent="bot"), user("well!", agent="bot")))
    assert verdict["pack"] == "desk"
    assert verdict["rule"] == "calm"
    assert verdict["severity"] == "high"
    assert verdict["session_id"] == "a"
    assert verdict["occurrence"] == "2026-02-17T12:00:00.000000000Z"
    assert verdict["time"] == "2026-02-17T12:00:01.000000000Z"
    assert (verdict["seq"], verdict["event_id"], verdict["agent"]) == (2, "a-2", "bot")
    assert (verdict["late"], verdict["history"], verdict["slice"]) == (False, False, None)
    assert verdict["witness"] == {
        "events": [{"event_id": "a-2", "seq": 2, "true": ["angry"], "residual": "false"}],
        "history": [],
        "truncated": False,
    }
    assert len(verdict["id"]) == 32


def test_a_witness_names_the_first_event_where_that_decided(tmp_path: Path) -> None:
    """The witness of what holds from the first event on is that event, not nothing."""
    rules = pack_text(PACK.split("rules:")[0] + "rules: [{id: r, formula: always (pay -> not once angry)}]\n")
    rows = session("a", user("now!"), call("pay"))
    audit(write(tmp_path / "in" / "a.parquet", rows).parent, rules, tmp_path / "bundle", AuditOptions())
    (line,) = (tmp_path / "bundle" / "verdicts.jsonl").read_text().splitlines()
    assert json.loads(line)["witness"]["history"] == [
        {"event_id": "a-1", "seq": 1, "formula": "once angry", "value": True}
    ]


def test_a_closing_verdict_stands_at_the_last_event(tmp_path: Path) -> None:
    """An unanswered call is unmet when the session ends, with its last event and the call as witness."""
    _, [verdict] = run(tmp_path, session("a", user("do"), call(), user("well?")))
    assert (verdict["verdict"], verdict["seq"], verdict["event_id"]) == ("unmet", 3, "a-3")
    assert [event["seq"] for event in verdict["witness"]["events"]] == [2, 3]


@pytest.mark.slow
def test_an_open_session_has_no_closing_verdict(tmp_path: Path) -> None:
    """Without an end, a session stays open until the archive's last time passes it by the idle time."""
    waiting = session("a", call(), end=False)
    near = session("b", user("hi"), start=START + HOUR)
    far = session("c", user("hi"), start=START + HOUR + 1)
    outcome, verdicts = run(tmp_path / "1", waiting, near)
    assert verdicts == []
    assert outcome.summary["population"]["open_sessions"] == 1
    outcome, verdicts = run(tmp_path / "2", waiting, far)
    assert fields_of(verdicts) == [("a", 1, "answered", "unmet")]
    assert outcome.summary["population"]["open_sessions"] == 0


def test_the_next_occurrence_closes_the_one_before(tmp_path: Path) -> None:
    """A session id that comes back is a new occurrence with fresh history, and the former one is closed."""
    again = session("a", result(), start=START + 60 * NS, end=False)
    outcome, verdicts = run(tmp_path, session("a", call(), end=False), again)
    assert fields_of(verdicts) == [("a", 1, "answered", "unmet")]
    assert outcome.summary["population"]["sessions"] == 2
    assert outcome.summary["population"]["open_sessions"] == 1


def test_times_may_lie_centuries_apart(tmp_path: Path) -> None:
    """A session of 1700 is closed by an event of 2200: more nanoseconds than 64 bits hold lie between."""
    year = 365 * 24 * HOUR
    old = session("a", call(), start=START - 320 * year, end=False)
    new = session("b", user("hi"), start=START + 200 * year, end=False)
    outcome, verdicts = run(tmp_path, old, new)
    assert fields_of(verdicts) == [("a", 1, "answered", "unmet")]
    assert outcome.summary["population"]["open_sessions"] == 1


def test_progress_ends_at_its_total(tmp_path: Path) -> None:
    """The progress of labelling is reported in rows of rows, `end` rows of chat logs among both."""
    log = tmp_path / "log.json"
    talks = [{"messages": [{"role": "user", "content": f"hi {i}"}]} for i in range(2)]
    log.write_text(json.dumps(talks), encoding="utf-8")
    reported: list[tuple[str, int, int]] = []
    audit(log, RULES, tmp_path / "b", AuditOptions(), lambda *progress: reported.append(progress))
    assert [(done, of) for what, done, of in reported if what == "labelling"] == [(4, 4)]


def test_a_missing_range_is_a_gap(tmp_path: Path) -> None:
    """A file that was taken out of an archive together with its line in the manifest is counted as a gap."""
    root = tmp_path / "archive"
    origin = ManifestSource("log", "0" * 64)
    with archive_writer(root) as archive:
        for number in range(3):
            rows = write(tmp_path / "rows.parquet", session(f"s{number}", user("hi")))
            archive.write(pl.read_parquet(rows), origin, (10 * number, 10 * number + 9))
    whole = audit(root, RULES, tmp_path / "b", AuditOptions())
    assert whole.summary["population"]["gaps"] == 0
    lines = (root / MANIFEST).read_bytes().splitlines(keepends=True)
    (root / json.loads(lines[1])["file"]).unlink()
    (root / MANIFEST).write_bytes(lines[0] + lines[2])
    assert audit(root, RULES, tmp_path / "b", AuditOptions()).summary["population"]["gaps"] == 1
    assert gaps(Manifest(read_manifest(root).entries[1:])) == 0
    assert gaps(Manifest(read_manifest(root).entries[1:], (origin,))) == 1


def test_the_least_watermark_is_in_the_summary(tmp_path: Path) -> None:
    """Of the live sources of an archive the one that came least far; null where nothing live wrote it."""
    root = tmp_path / "archive"
    ours, theirs = ManifestSource("serve", "a" * 64), ManifestSource("serve", "b" * 64)
    with archive_writer(root) as archive:
        rows = write(tmp_path / "rows.parquet", session("s", user("hi")))
        archive.write(pl.read_parquet(rows), ours, (0, 1))
        assert audit(root, RULES, tmp_path / "b", AuditOptions()).summary["population"]["watermark"] is None
        for origin, time in ((ours, START), (theirs, START + 2), (ours, START + 3)):
            archive.mark(origin, time)
    watermark = audit(root, RULES, tmp_path / "b", AuditOptions()).summary["population"]["watermark"]
    assert watermark == rfc3339(START + 2)


def test_an_import_leaves_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranges of an imported chat log follow each other, repeated conversations among them."""
    monkeypatch.setattr(chatframe, "FRAME_EVENTS_MAX", 2)
    log = tmp_path / "log.json"
    talks = [{"messages": [{"role": "user", "content": f"hi {i // 3}"}]} for i in range(12)]
    log.write_text(json.dumps(talks), encoding="utf-8")
    import_source(log, tmp_path / "archive")
    manifest = read_manifest(tmp_path / "archive")
    assert len(manifest.entries) > 2
    assert len(manifest.finished) == 1
    assert gaps(manifest) == 0


@pytest.mark.slow
def test_many_small_files_are_read_a_bounded_number_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few rows there are: what is planned for a file takes memory, too."""
    monkeypatch.setattr(spill, "PASS_PARTS", 4)
    for number in range(10):
        write(tmp_path / "in" / f"{number}.parquet", session(f"s{number}", user("no!")))
    reported: list[tuple[str, int, int]] = []
    outcome = audit(
        tmp_path / "in", RULES, tmp_path / "b", AuditOptions(), lambda *progress: reported.append(progress)
    )
    assert [(done, of) for what, done, of in reported if what == "labelling"] == [(8, 20), (16, 20), (20, 20)]
    assert outcome.summary["rules"]["calm"]["violations"] == 10


def test_as_of_judges_what_was_there_then(tmp_path: Path) -> None:
    """Later rows are not looked at, nor are later ends; what was idle for long enough by then is closed."""
    rows = session("a", call(), result())
    outcome, verdicts = run(tmp_path / "1", rows, as_of=START)
    assert verdicts == []
    assert outcome.summary["population"]["open_sessions"] == 1
    assert outcome.summary["population"]["events"] == 1
    _, verdicts = run(tmp_path / "2", session("a", call(), end=False), as_of=START + HOUR + 1)
    assert fields_of(verdicts) == [("a", 1, "answered", "unmet")]


def test_a_window_leaves_verdicts_out_and_judges_sessions_whole(tmp_path: Path) -> None:
    """--since and --until pick verdicts by their time, and count the sessions with an event inside."""
    first = session("a", user("one!"), user("two!"), user("three!"))
    second = session("b", user("four!"), start=START + HOUR)
    outcome, verdicts = run(tmp_path, first, second, since=START + NS, until=START + 2 * NS)
    assert fields_of(verdicts) == [("a", 2, "calm", "violated")]
    assert outcome.summary["population"]["sessions"] == 1
    assert outcome.summary["rules"]["calm"]["sessions_applicable"] == 1


@pytest.mark.slow
def test_the_same_file_twice_changes_nothing(tmp_path: Path) -> None:
    """Rows that repeat an event are duplicates; one with another event in its place is rejected."""
    rows = session("a", user("one!"), call())
    outcome, verdicts = run(tmp_path / "1", rows, rows)
    assert fields_of(verdicts) == [("a", 1, "calm", "violated"), ("a", 2, "answered", "unmet")]
    assert outcome.summary["population"]["duplicates"] == 2
    assert outcome.summary["population"]["events"] == 2
    outcome, verdicts = run(tmp_path / "2", rows, [{**rows[0], "event_id": "z", "text": "calm"}])
    assert fields_of(verdicts)[0] == ("a", 1, "calm", "violated")
    assert outcome.summary["population"]["rejected_by_reason"] == {"row-conflict": 1}
    [reject] = outcome.population.rejects
    assert (reject.position, reject.code) == ("session a, seq 1", "row-conflict")
    assert reject.text == "event z claims the place of another"


def test_verdicts_at_history_events_are_listed_and_not_counted(tmp_path: Path) -> None:
    """History steps the machines; what it breaks has a record, but no part in any count of breaches."""
    rows = session("a", user("old!", history=True), user("new"))
    outcome, [verdict] = run(tmp_path, rows)
    assert (verdict["history"], verdict["verdict"]) == (True, "violated")
    counts = outcome.summary["rules"]["calm"]
    assert (counts["violations"], counts["sessions_violating"], counts["sessions_applicable"]) == (0, 0, 1)
    assert outcome.examples.get("calm", []) == []


def test_what_was_not_captured_makes_a_rule_unjudged_once(tmp_path: Path) -> None:
    """One record at the first event that cannot be judged; other verdicts stay, and other rules go on.

    `gives-up` is satisfied by the first message for good, so it is judged.
    """
    rows = session("a", user("hi!"), user(None), user(None), user("hey!"), call())
    outcome, verdicts = run(tmp_path, rows)
    assert fields_of(verdicts) == [
        ("a", 1, "calm", "violated"),
        ("a", 2, "calm", "unjudged"),
        ("a", 4, "calm", "violated"),
        ("a", 5, "answered", "unmet"),
    ]
    assert "not captured" in verdicts[1]["reason"]
    assert verdicts[1]["witness"] is None
    counts = outcome.summary["rules"]["calm"]
    assert (counts["sessions_unjudged"], counts["sessions_violating"]) == (1, 1)
    assert outcome.summary["rules"]["gives-up"]["sessions_unjudged"] == 0


def test_rules_that_stop_are_unjudged_from_an_unknown_on(tmp_path: Path) -> None:
    """With `unknown: stop` there is no verdict after the first unknown that a rule asks about."""
    rows = session("a", user("hi!"), user(None), user(None), user("hey!"), call())
    archive = write(tmp_path / "archive" / "events.parquet", rows)
    audit(archive.parent, stopping(RULES), tmp_path / "bundle", AuditOptions())
    lines = (tmp_path / "bundle" / "verdicts.jsonl").read_text().splitlines()
    assert fields_of([json.loads(line) for line in lines]) == [
        ("a", 1, "calm", "violated"),
        ("a", 2, "calm", "unjudged"),
        ("a", 2, "gives-up", "unjudged"),
        ("a", 5, "answered", "unmet"),
    ]


def test_slices_are_judged_apart_and_named(tmp_path: Path) -> None:
    """The second payment of one call is a violation in that call's slice only."""
    rows = session("a", call("pay", "x"), call("pay", "y"), call("pay", "x"), result("x"))
    _, [verdict] = run(tmp_path, rows)
    assert (verdict["rule"], verdict["slice"], verdict["seq"]) == ("paid-once", "x", 3)


def test_too_many_slices_are_reported(tmp_path: Path) -> None:
    """A session with more slices than the limit is unjudged for that rule, with the reason, and counted."""
    calls = [call("pay", f"c{number}") for number in range(SLICES_MAX + 2)]
    outcome, verdicts = run(tmp_path, session("a", *calls, result()))
    [verdict] = [verdict for verdict in verdicts if verdict["rule"] == "paid-once"]
    assert (verdict["verdict"], verdict["seq"]) == ("unjudged", SLICES_MAX + 1)
    assert str(SLICES_MAX) in verdict["reason"]
    assert outcome.summary["rules"]["paid-once"]["sessions_over_slices_max"] == 1


@pytest.mark.slow
def test_satisfied_and_held_are_written_on_request_only(tmp_path: Path) -> None:
    """They are counted either way; a satisfied rule that never recovers has no closing."""
    rows = session("a", user("oh!"), user("oh!"))
    outcome, verdicts = run(tmp_path / "1", rows)
    assert outcome.summary["rules"]["gives-up"]["satisfactions"] == 1
    assert {verdict["verdict"] for verdict in verdicts} == {"violated"}
    _, verdicts = run(tmp_path / "2", rows, satisfied=True)
    rest = [line for line in fields_of(verdicts) if line[3] != "violated"]
    assert ("a", 1, "gives-up", "satisfied") in rest
    assert ("a", 2, "answered", "held") in rest
    assert [line[2] for line in rest].count("gives-up") == 1


def test_sessions_count_under_their_agent_and_day(tmp_path: Path) -> None:
    """The agent is the first that a session's events name, the day that on which it began (UTC)."""
    first = session("a", user("hi!"), call(agent="bot"), result(agent="sub"))
    next_day = session("b", user("hi", agent="bot"), start=START + 24 * HOUR)
    nobody = session("c", user("hi!"), start=START + 24 * HOUR)
    outcome, _ = run(tmp_path, first, next_day, nobody)
    calm = outcome.summary["rules"]["calm"]
    assert {agent: counts["sessions_violating"] for agent, counts in calm["by_agent"].items()} == {
        "": 1,
        "bot": 1,
    }
    assert calm["by_agent"]["bot"]["sessions_applicable"] == 2
    assert {day: counts["violations"] for day, counts in calm["by_day"].items()} == {
        "2026-02-17": 1,
        "2026-02-18": 1,
    }
    assert outcome.summary["population"]["sessions_by_day"] == {"2026-02-17": 1, "2026-02-18": 2}


def test_the_bundle_holds_verdicts_twice_the_summary_and_the_rules(tmp_path: Path) -> None:
    """The Parquet file has the lines' rows in their order, typed; the summary is that of the outcome."""
    outcome, verdicts = run(tmp_path, session("b", user("no!")), session("a", call(), user("no!")))
    bundle = tmp_path / "bundle"
    names = "certificates.jsonl inputs.jsonl open.jsonl report.html rules sessions.jsonl source.json"
    assert {path.name for path in bundle.iterdir()} == {
        *names.split(),
        "attestation.json",
        "summary.json",
        "verdicts.jsonl",
        "verdicts.parquet",
    }
    frame = pl.read_parquet(bundle / "verdicts.parquet")
    assert dict(frame.schema) == {
        name: kind if isinstance(kind, pl.DataType) else kind() for name, kind in VERDICT_SCHEMA.items()
    }
    assert frame["id"].to_list() == [verdict["id"] for verdict in verdicts]
    assert frame["witness"].to_list() == [verdict["witness"] for verdict in verdicts]
    assert frame["time"].to_physical().to_list()[0] == START + NS
    assert json.loads((bundle / "summary.json").read_text()) == outcome.summary
    assert (bundle / "rules" / "desk.yaml").read_text() == PACK


def test_no_verdicts_are_a_bundle_too(tmp_path: Path) -> None:
    """A clean archive gives an empty file of verdicts and a typed empty Parquet file."""
    _, verdicts = run(tmp_path, session("a", user("hi")))
    assert verdicts == []
    assert pl.read_parquet(tmp_path / "bundle" / "verdicts.parquet").height == 0


@pytest.mark.slow
def test_a_bundle_replaces_a_bundle_and_nothing_else(tmp_path: Path) -> None:
    """An earlier bundle is replaced whole; a folder of anything else is refused and left as it is."""
    run(tmp_path, session("a", user("no!")))
    _, verdicts = run(tmp_path, session("b", user("no!")))
    assert fields_of(verdicts) == [("b", 1, "calm", "violated")]
    (tmp_path / "bundle" / "summary.json").unlink()
    with pytest.raises(SourceError, match="TRL406"):
        run(tmp_path, session("c", user("no!")))
    assert (tmp_path / "bundle" / "verdicts.jsonl").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_failed_audit_leaves_no_trace(tmp_path: Path) -> None:
    """If the archive cannot be read, neither a bundle nor a half-written folder stays."""
    with pytest.raises(SourceError, match="TRL401"):
        audit(tmp_path / "nothing", RULES, tmp_path / "bundle", AuditOptions())
    assert list(tmp_path.iterdir()) == []


def test_two_packs_may_use_one_rule_id(tmp_path: Path) -> None:
    """Their counts stand under `pack/id`, those of rules with an id of their own under the id."""
    second_pack = pack_text("pack: other\nversion: 1\nrules:\n  - {id: calm, formula: always true}\n")
    both = type(RULES)(
        rules=RULES.rules + second_pack.rules, sources={**RULES.sources, **second_pack.sources}
    )
    archive = write(tmp_path / "events.parquet", session("a", user("no!")))
    outcome = audit(archive, both, tmp_path / "bundle", AuditOptions())
    names = set(outcome.summary["rules"])
    assert {"desk/calm", "other/calm", "answered"} <= names
    assert "calm" not in names


def test_rules_that_ask_nothing_are_judged_too(tmp_path: Path) -> None:
    """A pack without propositions steps over every event."""
    rules = pack_text("pack: other\nversion: 1\nrules:\n  - {id: short, formula: next next false}\n")
    archive = write(tmp_path / "events.parquet", session("a", user("one"), user("two"), user("three")))
    outcome = audit(archive, rules, tmp_path / "bundle", AuditOptions())
    assert outcome.summary["rules"]["short"]["violations"] == 3
