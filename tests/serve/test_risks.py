"""Risks live: the crossings of an audit of serve's own archive, risks now, and their metrics."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import httpx
import orjson
import polars as pl
import pytest
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.time import NS
from tracline.stream.console import queries
from tracline.stream.console.risks import SessionRisks
from tracline.stream.ingest.request import Encoding
from tracline.stream.serve.store import FILE

from ..support.chains.chain_of_conversations import ABOVE, audited_crossings, followed, served_chain
from ..support.chains.chains_by_symbol import limited
from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Manner
from ..support.processes.live import IDLE_S, Live, Sent, arriving, schedule, wire
from ..support.processes.serving import PLAIN, WAIT_S, running, until_judged
from ..support.truth.conversations import PlayedSession, answered_once, paced

pytestmark = pytest.mark.slow

PLAYED = [
    PlayedSession(paced(answered_once(random_session(seed)), START_NS + 60 * place * NS, 15), Manner())
    for place, seed in enumerate((237, 104, 51, 267, 12, 13))
]


MANY = [
    PlayedSession(paced(answered_once(random_session(seed)), START_NS + 120 * place * NS, 15), Manner())
    for place, seed in enumerate(range(300, 330))
]


def sent() -> list[Sent]:
    """Return the conversations as requests."""
    return schedule(PLAYED, Random(4), again=0.2, most=8)


@pytest.mark.parametrize("restarts", [False, True])
def test_crossings_are_those_of_an_audit_of_the_archive(
    pack: Path, chain: Path, tmp_path: Path, restarts: bool
) -> None:
    """However often the process restarts, each crossing is stored once, with the record of an audit."""
    compiled = compile_rule_set(load_packs([pack]))
    with closing(Live(tmp_path, compiled, chain=followed(chain, pack))) as live:
        live.play(sent(), Random(6), restarts=restarts)
        live.finish()
    with queries.reading(tmp_path / "state" / FILE) as db:
        rows = db.execute("SELECT id, level, risk, record FROM crossing ORDER BY number").fetchall()
    options = AuditOptions(idle_s=IDLE_S)
    lines = audited_crossings(tmp_path / "archive", pack, chain, tmp_path / "bundle", options)
    found = {row[0]: orjson.loads(row[3]) for row in rows}
    assert len(found) == len(rows) > 20
    assert found == {line["id"]: line for line in lines}
    archive = pl.read_parquet(tmp_path / "archive" / "**" / "*.parquet")
    assert set(archive["chain"].to_list()) == {followed(chain, pack).digest}
    assert all((line["level"], line["risk"]) == tuple(row[1:3]) for row in rows for line in [found[row[0]]])


def test_the_risk_now_is_the_last_one_over_the_events(pack: Path, chain: Path, tmp_path: Path) -> None:
    """The stored state of an open session gives the risks that following its events gives."""
    compiled = compile_rule_set(load_packs([pack]))
    served = served_chain(chain, pack)
    compared = 0
    with closing(Live(tmp_path, compiled, chain=served.followed)) as live:
        live.play(sent(), Random(6))
        with queries.reading(tmp_path / "state" / FILE) as db:
            risks = SessionRisks(served)
            for (name,) in db.execute("SELECT session_id FROM session WHERE open").fetchall():
                began = queries.occurrences(db, name)[0]
                last = {
                    (each.pack, each.rule, each.slice): each.risks[-1]
                    for each in risks.courses(queries.events(db, name, began, 1_000))
                }
                for each in risks.now(queries.followed(db, name), 0):
                    context = each.current.context
                    assert context is not None
                    key = each.current.pack, each.current.rule, each.current.value
                    assert last[key] == pytest.approx(context.risk, abs=1e-9)
                    compared += 1
    assert compared > 10


def test_an_archived_crossing_is_deleted_with_its_events(pack: Path, chain: Path, tmp_path: Path) -> None:
    """Retention covers crossings as it does verdicts."""
    compiled = compile_rule_set(load_packs([pack]))
    with closing(Live(tmp_path, compiled, chain=followed(chain, pack))) as live:
        live.play(sent(), Random(6))
        live.finish()
        live.store.prune(live.now + 1)
        with queries.reading(tmp_path / "state" / FILE) as db:
            assert db.execute("SELECT count(*) FROM crossing").fetchone() == (0,)
            assert queries.warnings(db, 10) == []


def test_a_served_chain_shows_in_metrics_console_and_api(pack: Path, chain: Path, tmp_path: Path) -> None:
    """Crossings are counted by rule, and the API has each rule's risk in an open session and its paths."""
    spans = [span for _, span in arriving(PLAYED[:3], Random(1), again=0)]
    sessions = {"tick_s": 3_600, "lateness_s": 1, "hold_s": 86_400, "idle_s": 86_400}
    options = ("--predict", str(chain), "--above", str(ABOVE))
    with running(tmp_path, pack, *options, sessions=sessions) as serving:
        for first in range(0, len(spans), 20):
            serving.send(wire(spans[first : first + 20], Encoding.PROTOBUF)).raise_for_status()
        until_judged(serving, tmp_path)
        with queries.reading(tmp_path / "state" / FILE) as db:
            (crossed,) = db.execute("SELECT count(*) FROM crossing").fetchone()
            [(name,), *_] = db.execute("SELECT session_id FROM session WHERE open").fetchall()
        metrics = asked(f"{serving.url}/metrics").text
        answer = asked(f"{serving.url}/api/sessions/{name}/risk?paths=2").json()
        page = asked(f"{serving.url}/sessions/{name}").text
        missing = httpx.get(f"{serving.url}/api/sessions/nobody/risk", timeout=WAIT_S, verify=PLAIN)
        overview = asked(serving.url).text
    counted = [line for line in metrics.splitlines() if line.startswith("tracline_risk_crossings_total{")]
    assert sum(float(line.split()[-1]) for line in counted) == crossed > 0
    assert "tracline_chains_loaded 1.0" in metrics
    followed_events = [line for line in metrics.splitlines() if line.startswith("tracline_risk_followed_")]
    assert any(float(line.split()[-1]) > 0 for line in followed_events if "_created" not in line)
    assert answer["session_id"] == name
    assert answer["chain"] == followed(chain, pack).digest
    assert answer["rules"]
    for each in answer["rules"]:
        assert 0 <= each["low"] <= each["high"] <= 1
        assert 0 <= each["risk"] <= 1
        assert each["paths"] is None or len(each["paths"]) <= 2
        for path in each["paths"] or ():
            assert 0 < path["probability"] <= each["risk"] + 1e-9
    assert any(each["paths"] for each in answer["rules"])
    assert 'id="risk-title"' in page
    assert "Live warnings" in overview
    assert missing.status_code == 404


def asked(url: str) -> httpx.Response:
    """Return a good answer."""
    return httpx.get(url, timeout=WAIT_S, verify=PLAIN).raise_for_status()


def test_drift_is_in_crossings_and_goes_on_after_a_restart(pack: Path, chain: Path, tmp_path: Path) -> None:
    """However often the process restarts, the same crossings state it, and the detectors are the same."""
    compiled = compile_rule_set(load_packs([pack]))
    allowing = limited(followed(chain, pack), lambda _context: 0.001)
    found: list[tuple[dict[str, bool], object]] = []
    for restarts in (False, True):
        folder = tmp_path / str(restarts)
        with closing(Live(folder, compiled, chain=allowing)) as live:
            live.play(schedule(MANY, Random(4)), Random(6), restarts=restarts)
            live.finish()
        with queries.reading(folder / "state" / FILE) as db:
            rows = db.execute("SELECT id, record FROM crossing").fetchall()
            drifted = queries.drifted(db, allowing.digest)
            found.append(({row[0]: orjson.loads(row[1])["drift"] for row in rows}, drifted))
    drift, rules = found[0]
    assert 0 < sum(drift.values()) < len(drift)
    assert rules
    assert found[1] == found[0]
