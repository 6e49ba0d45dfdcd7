"""`tracline serve --open`: an archive in the console, read only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.batch.audit.audit import audit
from tracline.batch.evidence.bundle import read_verdicts
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population
from tracline.batch.survey.judged_sessions import judged_sessions
from tracline.cli import tracline
from tracline.rules.engine.judge import CompiledRules, compile_rule_set
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs, pack_text
from tracline.stream.console import pages, queries
from tracline.stream.serve.read_only_store import ReadOnlyStore

from ...support.event_rows import PACK, START, call, result, session, user, write
from ..stream.console.asking import get, links, plain

pytestmark = pytest.mark.slow

FRAMEWORKS = Path(__file__).parents[2] / "frameworks" / "recordings"


def opened(source: Path, folder: Path, rules: RuleSet) -> tuple[Path, CompiledRules]:
    """Return the store that the command makes of a source."""
    compiled, store = compile_rule_set(rules), ReadOnlyStore(folder / "store.db")
    (folder / "scratch").mkdir()
    for judged in judged_sessions(source, compiled, folder / "scratch", AuditOptions(), Population()):
        store.add(judged.events, judged.records, judged.statuses.iter_rows(named=True), "")
    store.finish()
    return folder / "store.db", compiled


def console(store: Path, compiled: CompiledRules):
    """Return the console over an opened store."""
    from starlette.applications import Starlette

    return Starlette(routes=pages.routes(store, compiled, is_live=False))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """An archive with a session that shouts and one that is open."""
    rows = session("a", user("no!"), call("pay", "c1"), result("c1"))
    rows += session("b", user("x"), start=START + 10**12, end=False)
    write(tmp_path / "archive" / "events.parquet", rows)
    return tmp_path / "archive"


def test_a_store_has_the_verdicts_of_an_audit_and_all_events(tmp_path: Path) -> None:
    """Of a demo: the same records, each session's events in order, and the sessions by time."""
    demo = ["demo", "--out", str(tmp_path / "demo"), "--sessions", "60", "--quiet"]
    assert CliRunner().invoke(tracline, demo).exit_code == 0
    rules = load_packs([str(tmp_path / "demo" / "bundle" / "rules")])
    audit(tmp_path / "demo" / "archive", rules, tmp_path / "out", AuditOptions())
    store, _ = opened(tmp_path / "demo" / "archive", tmp_path, rules)
    with queries.reading(store) as db:
        rows = queries.latest(db, 10_000)
        sessions = queries.begun(db, 10_000)
        events = [queries.events(db, each.session_id, each.occurrence, 1_000) for each in sessions]
    expected = {record.id: record for record in read_verdicts(tmp_path / "out" / "verdicts.jsonl")}
    assert {row.id for row in rows} == set(expected)
    assert [row.time for row in rows] == sorted((row.time for row in rows), reverse=True)
    assert len(sessions) == 60
    assert all(each.closed for each in sessions)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert sum(map(len, events)) == summary["population"]["events"]
    assert all([event.seq for event in each] == list(range(1, len(each) + 1)) for each in events)


def test_rates_count_what_the_summary_counts(desk: Path, tmp_path: Path) -> None:
    """The sessions of each rule, by those that violate it."""
    rules = pack_text(PACK)
    store, _ = opened(desk, tmp_path, rules)
    summary = audit(desk, rules, tmp_path / "out", AuditOptions()).summary["rules"]
    with queries.reading(store) as db:
        counted = queries.session_counts(db, 0, 2**62, 2**61)
    found = {count.rule: (count.violating, count.applicable) for count in counted}
    assert found["calm"] == (summary["calm"]["sessions_violating"], summary["calm"]["sessions_applicable"])


def test_pages_of_an_archive_are_not_live(desk: Path, tmp_path: Path) -> None:
    """No feed, no script, no dead letters; the session page has events and verdicts."""
    app = console(*opened(desk, tmp_path, pack_text(PACK)))
    overview = get(app, "/").text
    assert "console.js" not in overview
    assert "Last event" in overview
    assert "/dead-letters" not in links(overview)
    assert get(app, "/feed").status_code == 404
    page = plain(get(app, "/sessions/a").text)
    assert "no!" in page
    assert "Nobody shouts" in page
    verdict = next(link for link in links(overview) if link.startswith("/verdicts/"))
    assert "The rule excludes the user message at event 1 (angry)." in plain(get(app, verdict).text)
    assert "open for" in plain(get(app, "/sessions/b").text)


@pytest.mark.parametrize("source", ["chat", "spans"])
def test_chat_logs_and_spans_are_shown_too(tmp_path: Path, source: str) -> None:
    """Without rules: the sessions and their events."""
    if source == "chat":
        (tmp_path / "in").mkdir()
        chat = [{"id": "c", "messages": [{"role": "user", "content": "Where is my rain jacket?"}]}]
        (tmp_path / "in" / "chat.json").write_text(json.dumps(chat))
        folder, name, words = tmp_path / "in", "c", "Where is my rain jacket?"
    else:
        folder, words = FRAMEWORKS / "openai-openinference" / "otlp", "Call"
        name = "openai-openinference-amber"
    app = console(*opened(folder, tmp_path, RuleSet((), {})))
    assert words in plain(get(app, f"/sessions/{name}").text)
    assert name in plain(get(app, "/sessions").text)
    assert (
        get(app, "/").status_code
        == get(app, "/rules").status_code
        == get(app, "/verdicts").status_code
        == 200
    )


def test_large_archives_are_read_in_buckets(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the rows of one bucket the labelled events go over the disk, with all columns."""
    whole = list(_judged(desk, tmp_path / "one"))
    monkeypatch.setattr(spill, "BUCKET_ROWS", 2)
    parts = list(_judged(desk, tmp_path / "two"))
    assert sorted(event.event_id for judged in parts for event in judged.events) == sorted(
        event.event_id for judged in whole for event in judged.events
    )


def _judged(source: Path, scratch: Path):
    scratch.mkdir()
    return judged_sessions(source, compile_rule_set(pack_text(PACK)), scratch, AuditOptions(), Population())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--open", "nowhere"], "TRL401"),
        (["--open", "nowhere", "neither"], "TRL401"),
        (["--open", "x", "--state", "y"], "--open and --state exclude each other"),
        (["--open", "x", "--grpc-port", "0"], "--open and --grpc-port exclude each other"),
        ([], "Missing option '--rules'"),
        (["--open", "x", "--rules", "no/such.yaml"], "no/such.yaml"),
    ],
)
def test_mistakes_are_explained(more: list[str], words: str) -> None:
    """Exit 2 with a remedy, before anything is served."""
    done = CliRunner().invoke(tracline, ["serve", *more])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_an_address_that_others_reach_requires_a_token(desk: Path) -> None:
    """As for a live process."""
    done = CliRunner().invoke(tracline, ["serve", "--open", str(desk), "--host", "0.0.0.0", "-q"])
    assert done.exit_code == 2
    assert "TRL711" in done.stderr
