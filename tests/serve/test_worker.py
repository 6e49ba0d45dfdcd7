"""The pipeline against the conversations' own truth: however their spans come, and wherever it is cut."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import orjson
import polars as pl
import pytest
from tracline.archive.manifest import MANIFEST
from tracline.archive.rule_sets import write_rule_set
from tracline.batch.audit.as_judged import audit_as_judged
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import load_packs
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Busy, Encoding, ExportRequest

from ..support.conversations.days import HOURS, day, json_lines, manner, protobuf
from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Keys, Manner
from ..support.evidence.bundle_lines import bundle_lines
from ..support.processes.live import IDLE_S, Live, Sent, audited, places_of, schedule, wire
from ..support.truth.conversations import (
    PACK,
    Ids,
    PlayedSession,
    answered_once,
    applying,
    ids_of,
    paced,
    true_ids,
)
from ..unit.batch import test_tool_results
from ..unit.schemas.test_awaited import without_content
from .hostile import spoilt

SESSION = answered_once(random_session(237))
"""One that breaks many rules at many places."""


def check(records: dict[str, dict], truth: Ids) -> None:
    """The verdicts are those of the truth, which are not few."""
    missing = {name: expected for name, expected in truth.items() if name not in records}
    assert missing == {}
    invented = {name: record for name, record in records.items() if name not in truth}
    assert invented == {}
    assert len(truth) > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_live_is_what_was_done(seed: int, live: Live, pack: Path, tmp_path: Path) -> None:
    """However spans come inside the bounds, verdicts and events are those of the conversations, each once.

    An audit of the archive, and one of the requests as files, give the same records.
    """
    played, random = day(seed), Random(seed)
    sent = schedule(played, random)
    live.play(sent, random)
    live.finish()
    found = live.records
    check(found, true_ids(played, pack))
    events = live.events
    assert places_of(events) == Counter(place for session_played in played for place in session_played.places)
    assert not events["late"].any()
    assert audited(tmp_path / "archive", pack, tmp_path / "of-archive") == found
    for name, write in FORMATS.items():
        folder = tmp_path / name
        folder.mkdir()
        write(folder, sent)
        assert audited(folder, pack, tmp_path / f"of-{name}", as_of=live.now) == found


FORMATS: dict[str, Callable[[Path, Sequence[Sent]], None]] = {"json": json_lines, "protobuf": protobuf}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10])
def test_a_restart_after_every_round_changes_nothing(seed: int, pack: Path, tmp_path: Path) -> None:
    """Every state goes through the store between any two rounds; the same records come in the same order."""
    played = day(seed)
    sent = schedule(played, Random(seed))
    judged: list[list[dict]] = []
    for name in ("whole", "cut"):
        with closing(Live(tmp_path / name, compile_rule_set(load_packs([pack])))) as live:
            live.play(sent, Random(seed), restarts=name == "cut")
            live.finish()
            judged.append(list(live.records.values()))
    assert judged[0] == judged[1]
    check({record["id"]: record for record in judged[1]}, true_ids(played, pack))


@pytest.mark.slow
def test_what_is_open_is_not_judged_to_its_end(live: Live, pack: Path, tmp_path: Path) -> None:
    """While the time has not passed a session's last event by `idle_s`, nothing is unmet; audits agree."""
    played = [
        session_played
        for session_played in day(20, 20)
        if session_played.events[0].time < START_NS + HOURS * 3600 * NS
    ]
    random = Random(20)
    live.play(schedule(played, random), random)
    live.tick(300)
    live.pipeline.archive()
    watermark = live.now - round(live.settings.lateness_s * NS)
    ended = [
        session_played.manner.end_mark or session_played.events[-1].time + IDLE_S * NS < watermark
        for session_played in played
    ]
    assert len(set(ended)) == 2
    truth = ids_of(
        (session_played.events for session_played, end in zip(played, ended, strict=True) if end), pack
    )
    truth |= ids_of(
        (session_played.events for session_played, end in zip(played, ended, strict=True) if not end),
        pack,
        closed=False,
    )
    check(live.records, truth)
    assert audited(tmp_path / "archive", pack, tmp_path / "bundle") == live.records


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a restart after every span"])
@pytest.mark.parametrize("ids", [True, False], ids=["call_0", "no ids"])
def test_ids_that_come_again_lose_no_result(ids: bool, restarts: bool, tmp_path: Path) -> None:
    """A session comes back with the id of a log-in that failed: the new one is judged, live as in audits."""
    pack = tmp_path / "desk.yaml"
    pack.write_text(test_tool_results.PACK)
    for log_in, expected in ((test_tool_results.LOG_IN, []), (test_tool_results.DENIED, ["logged-in"])):
        folder = tmp_path / log_in[2]
        with closing(Live(folder, compile_rule_set(load_packs([pack])))) as live:
            live.play(map(alone, test_tool_results.come_back(ids, log_in)), Random(1), restarts=restarts)
            live.finish()
            results = live.events.filter(kind="tool_result", history=False)["result"].to_list()
            assert results == ["no", log_in[2], "done"]
            broken = [record["rule"] for record in live.records.values() if record["verdict"] == "violated"]
            assert broken == expected
            assert audited(folder / "archive", pack, folder / "bundle") == live.records


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a restart after every span"])
def test_results_without_content_are_judged_when_audits_judge_them(restarts: bool, tmp_path: Path) -> None:
    """Runs have no content: at any time serve has found what an audit of the requests as of then finds."""
    pack, raw = tmp_path / "desk.yaml", tmp_path / "raw"
    pack.write_text(test_tool_results.PACK)
    raw.mkdir()
    steps = [getattr(test_tool_results, name) for name in ("LOG_IN", "REFUND", "DENIED", "REFUND", "LOG_IN")]
    sent = [alone(span) for span in without_content(test_tool_results.talk(steps, True, {0, 1, 2, 4}, 600))]
    # No later span repeats what the last run returned.
    del sent[-1]
    with closing(Live(tmp_path, compile_rule_set(load_packs([pack])))) as live:
        for number, span in enumerate(sent):
            (raw / f"{number:02}.json").write_bytes(span.body)
            live.play([span], Random(number), restarts=restarts)
            live.tick(150)
            found = audited(raw, pack, tmp_path / f"bundle {number}", as_of=live.watermark)
            assert found == live.records
        assert "logged-in" not in {
            span["rule"] for span in live.records.values() if span["verdict"] == "violated"
        }
        assert live.events.filter(kind="tool_result")["content"].to_list() == ["captured"] * 4
        live.finish()
        assert live.events.filter(kind="tool_result")["content"].to_list() == ["captured"] * 4 + ["absent"]
        assert audited(tmp_path / "archive", pack, tmp_path / "bundle") == live.records


def alone(span: dict[str, Any]) -> Sent:
    """A span in a request of its own, a second after it ended."""
    body = orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    return Sent(int(span["endTimeUnixNano"]) + NS, body, Encoding.JSON)


def test_changed_rules_judge_from_the_next_event_on(live: Live, pack: Path, tmp_path: Path) -> None:
    """After a start with other rules an open session is judged by them alone, from its next event on.

    The archive records by which rules each event was judged: an audit as judged finds the same.
    """
    played = PlayedSession(paced(SESSION, START_NS, 200), Manner(keys=Keys.EVERYWHERE))
    sent = schedule([played], Random(1), again=0, most=1)
    half = len(sent) // 2
    live.play(sent[:half], Random(1))
    before = live.events.height
    changed = pack.with_name("other.yaml")
    # The first rule is another one, so that each rule has another number, too.
    rules = PACK.replace("pack: desk", "pack: other").replace("rules:\n", f"rules:\n{FIRST}")
    changed.write_text(rules)
    live.compiled = compile_rule_set(load_packs([changed]))
    live.restart()
    live.play(sent[half:], Random(2))
    live.finish()
    rest = played.events[before:]
    assert 5 < len(rest) < len(played.events) - 5
    by_other = {name: verdict for name, verdict in live.records.items() if verdict["pack"] == "other"}
    assert by_other.keys() == ids_of([rest], changed).keys() != set()
    statuses = live.store._db.execute("SELECT rule FROM standing WHERE pack = 'other' AND applied NOT NULL")
    assert {rule for (rule,) in statuses} == applying(rest, changed)
    for rule_set in (load_packs([pack]), load_packs([changed])):
        write_rule_set(tmp_path / "archive", rule_set_digest(rule_set), rule_set.sources)
    audit_as_judged(tmp_path / "archive", tmp_path / "bundle", AuditOptions())
    assert {record["id"]: record for record in bundle_lines(tmp_path / "bundle")} == live.records


FIRST = "  - {id: a-new-one, formula: always (failed -> eventually answer)}\n"


@pytest.mark.slow
def test_spans_that_come_much_too_late_are_judged_where_they_come(
    live: Live, pack: Path, tmp_path: Path
) -> None:
    """Some come hours late, or before their time: an audit of the archive gives the same records."""
    random = Random(7)
    sent = [
        Sent(sent_at.time + random.choice((0, 0, 0, 2 * IDLE_S)) * NS, sent_at.body, sent_at.encoding)
        for sent_at in schedule(day(30), random, most=6)
    ]
    live.play(sorted(sent, key=lambda sent_at: sent_at.time), random)
    live.finish()
    assert live.events["late"].sum() > 20
    assert len(live.records) > 60
    assert audited(tmp_path / "archive", pack, tmp_path / "bundle") == live.records


@pytest.mark.slow
def test_hostile_spans_stop_nothing(live: Live, pack: Path, tmp_path: Path) -> None:
    """Whatever spans hold is judged or a dead letter, never the end; audits of the archive agree."""
    random = Random(11)
    for place in range(60):
        session = replace(random_session(place, turns=3), session_id=f"hostile-{place % 15}")
        played = PlayedSession(paced(session, START_NS + place * 60 * NS, 5), manner(random, place))
        live.now = START_NS + (place * 60 + 120) * NS
        live.send(Sent(live.now, spoilt(played, random), Encoding.JSON))
    live.finish()
    assert audited(tmp_path / "archive", pack, tmp_path / "bundle") == live.records
    letters = live.store._db.execute("SELECT code, count(*) FROM dead_letter GROUP BY code").fetchall()
    assert {"otlp-text", "otlp-time", "otlp-value", "otlp-parent-id"} <= {code for code, _ in letters}
    assert "internal" not in dict(letters)
    assert (live.events.height > 500, len(live.records) > 100) == (True, True)


def test_an_archive_that_was_cut_off_is_made_whole(live: Live, pack: Path, tmp_path: Path) -> None:
    """Files are there that the manifest does not name, and half the line of one: all is written once."""
    live.play(schedule(day(40, 4), Random(4)), Random(4))
    live.finish()
    times = live.store._db.execute("SELECT event FROM archived ORDER BY event DESC").fetchall()
    (last,), (before,), *_ = times
    manifest = tmp_path / "archive" / MANIFEST
    lines = manifest.read_bytes().splitlines(keepends=True)
    file = max(place for place, line in enumerate(lines) if b'"file"' in line)
    manifest.write_bytes(b"".join(lines[:file]) + lines[file][:-20])
    live.store._db.execute("DELETE FROM archived WHERE event = ?", (last,))
    live.store.note("archived", before)
    live.restart()
    live.pipeline.archive()
    assert audited(tmp_path / "archive", pack, tmp_path / "bundle") == live.records
    rows = pl.read_parquet(tmp_path / "archive" / "**" / "*.parquet")
    assert rows.height == live.events.height
    assert places_of(rows) == places_of(live.events)


def test_a_span_from_the_future_advances_no_time(live: Live, pack: Path) -> None:
    """A clock that is hours ahead makes nobody else's spans late, and its own are judged when they came."""
    played = [
        PlayedSession(paced(answered_once(random_session(seed)), START_NS, 30), Manner())
        for seed in (237, 104)
    ]
    ahead = paced(random_session(51), START_NS + 5 * 3600 * NS, 1)
    sent = schedule(played, Random(3))
    early = [Sent(sent[3].time, wire(PlayedSession(ahead, Manner()).spans, Encoding.JSON), Encoding.JSON)]
    live.play([*sent[:3], *early, *sent[3:]], Random(3))
    live.tick(1)
    live.tick(300)
    events = live.events
    assert not events["late"].any()
    assert set(events["session_id"]) == {"random-237", "random-104", "random-51"}
    assert events.filter(session_id="random-51")["time"].to_physical().max() <= sent[3].time
    assert (
        true_ids(played, pack).keys()
        > {name for name, record in live.records.items() if record["session_id"] != "random-51"}
        != set()
    )


class Broken(dict):
    """Attributes that raise an error when they are read."""

    def get(self, *_: object) -> object:
        """Break."""
        raise ZeroDivisionError("a secret")

    __getitem__ = __contains__ = __iter__ = get


def test_a_request_that_breaks_the_pipeline_is_put_aside(live: Live, pack: Path) -> None:
    """The others are judged as without it; it goes to quarantine, and its dead letter has no content."""
    played = PlayedSession(paced(SESSION, START_NS, 30), Manner())
    sent = schedule([played], Random(1))
    span = Span("5e" * 16, "5e" * 8, None, "chat", START_NS, sent[-1].time, attributes=Broken())
    poison = ExportRequest(b"poison", Encoding.PROTOBUF, Decoded((span,)), sent[-1].time)
    live.now = sent[-1].time
    asyncio.run(
        live.take(
            [*(message.request for message in sent[:4]), poison, *(message.request for message in sent[4:])]
        )
    )
    live.finish()
    assert live.records.keys() == true_ids([played], pack).keys() != set()
    assert not live.events["late"].any()
    assert live.store._db.execute("SELECT body FROM quarantine").fetchall() == [(b"poison",)]
    letters = live.store._db.execute("SELECT code, reason, sha256 FROM dead_letter").fetchall()
    assert letters == [("internal", "ZeroDivisionError", hashlib.sha256(b"poison").hexdigest())]


def fails(*_: object) -> None:
    """The error of a store whose disk cannot be read."""
    raise sqlite3.OperationalError("disk I/O error")


def test_a_disk_that_cannot_be_read_spoils_no_request(
    live: Live, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the process; the next one judges what was taken, and puts nothing aside."""
    played = PlayedSession(paced(SESSION, START_NS, 30), Manner())
    sent = schedule([played], Random(1))
    live.now = sent[-1].time
    with monkeypatch.context() as broken:
        broken.setattr(live.store, "session", fails)
        with pytest.raises(sqlite3.OperationalError):
            live.send(*sent)
    live.restart()
    live.finish()
    assert live.records.keys() == true_ids([played], pack).keys() != set()
    assert not live.store._db.execute("SELECT code FROM dead_letter").fetchall()


def test_a_request_is_read_after_a_crash_as_it_was_read_before(live: Live) -> None:
    """By the encoding that its sender named: JSON may begin with a line end, as protobuf does."""
    played = PlayedSession(paced(SESSION, START_NS, 30), Manner())
    body = b"\n" + wire(played.spans, Encoding.JSON)
    live.now = played.spans[-1].end
    live.store.accept([Sent(live.now, body, Encoding.JSON).request])
    live.restart()
    live.finish()
    assert places_of(live.events) == Counter(played.places)


def test_nothing_is_taken_while_the_disk_is_full(live: Live) -> None:
    """Senders are asked to retry while the disk is full, or nearly; then the same requests are accepted."""
    played = PlayedSession(paced(SESSION, START_NS, 30), Manner())
    sent = schedule([played], Random(1), again=0)
    live.free_bytes = 0
    with pytest.raises(Busy, match="disk"):
        live.send(sent[0])
    live.free_bytes = 1 << 40
    (pages,) = live.store._db.execute("PRAGMA page_count").fetchone()
    live.store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Busy, match="disk"):
        live.send(*sent, *sent)
    assert list(live.store.inbox()) == []
    live.store._db.execute("PRAGMA max_page_count = 1000000")
    live.play(sent, Random(1))
    live.finish()
    assert places_of(live.events) == Counter(played.places)


def test_nothing_is_taken_once_it_stops(live: Live) -> None:
    """A process that ends refuses requests as one that stops."""
    live.pipeline.stop()
    played = PlayedSession(paced(SESSION, START_NS, 30), Manner())
    with pytest.raises(Busy, match="stopping"):
        live.send(*schedule([played], Random(1)))
