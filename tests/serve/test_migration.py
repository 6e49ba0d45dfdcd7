"""Serve continues the stores of earlier releases: their requests, waiting spans, sessions and verdicts."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import zstandard
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.time import NS
from tracline.stream.serve.rows import frame_of
from tracline.stream.serve.store import FILE
from tracline.stream.serve.store_schema import VERSION

from ..support.chains.chain_of_conversations import followed
from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Manner
from ..support.processes.live import Live, Sent, places_of, schedule
from ..support.truth.conversations import PlayedSession, answered_once, paced, true_ids

FOLDER = Path(__file__).parent
STORED = FOLDER / "store_of_version_1.sql"
"""A store of version 1: half of a conversation waits as spans, the other half as a request."""
STORED_2 = FOLDER / "store_of_version_2.sql.zst"
"""A store of version 2 after `BEFORE` requests of `sent_2()`, with the next two in its inbox."""
STORED_3 = FOLDER / "store_of_version_3.sql.zst"
"""The same of version 3."""
STORED_4 = FOLDER / "store_of_version_4.sql.zst"
"""The same of version 4, whose traces and sessions are in the trees of their keys."""
BEFORE = 24
PLAYED = PlayedSession(paced(random_session(51, turns=1), START_NS, 1), Manner())


PLAYED_2 = [
    PlayedSession(paced(answered_once(random_session(seed)), START_NS + 60 * place * NS, 15), Manner())
    for place, seed in enumerate((237, 104))
]


def sent_2() -> list[Sent]:
    """Return the requests of which the store of version 2 has seen some."""
    return schedule(PLAYED_2, Random(4), again=0.2, most=6)


def stored(folder: Path, text: str) -> None:
    """Make a store from the text of its tables."""
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.executescript(text)


def schema(folder: Path) -> list[tuple[str, str, str]]:
    """Return the columns of all tables of a store: table, column, type."""
    query = (
        "SELECT t.name, c.name, c.type FROM sqlite_master t, pragma_table_info(t.name) c ORDER BY 1, c.cid"
    )
    with closing(sqlite3.connect(folder / FILE)) as db:
        return db.execute(query).fetchall()


def test_serve_continues_a_store_of_version_1(pack: Path, tmp_path: Path) -> None:
    """Its tables become those of a new one, and the conversation is judged whole, once."""
    state = tmp_path / "old" / "state"
    stored(state, STORED.read_text())
    compiled = compile_rule_set(load_packs([pack]))
    with closing(Live(tmp_path / "old", compiled, now=PLAYED.spans[-1].end)) as live:
        live.finish()
        assert places_of(live.events) == Counter(PLAYED.places)
        assert live.records.keys() == true_ids([PLAYED], pack).keys() != set()
        assert live.store.fact("version") == VERSION
        live.restart()
    Live(tmp_path / "new", compiled).close()
    assert schema(state) == schema(tmp_path / "new" / "state")


@pytest.mark.parametrize("file", [STORED_2, STORED_4])
def test_serve_continues_a_store_of_version_2_and_of_4(pack: Path, tmp_path: Path, file: Path) -> None:
    """Its sessions continue, also those whose states are whole in their rows; every event is judged once."""
    state = tmp_path / "old" / "state"
    stored(state, zstandard.decompress(file.read_bytes()).decode())
    with closing(sqlite3.connect(state / FILE)) as db:
        ids = {row[0] for row in db.execute("SELECT id FROM verdict")}
        (before,) = db.execute("SELECT count(*) FROM event").fetchone()
        (sessions,) = db.execute("SELECT count(*) FROM session WHERE open").fetchone()
    compiled = compile_rule_set(load_packs([pack]))
    with closing(Live(tmp_path / "old", compiled)) as live:
        live.play(sent_2()[BEFORE + 2 :], Random(6), restarts=True)
        live.finish()
        events = frame_of([row for _, row in live.store.events(0, 10_000)])
        assert places_of(events) == Counter(place for played in PLAYED_2 for place in played.places)
        assert ids | live.records.keys() == true_ids(PLAYED_2, pack).keys()
        assert live.store.fact("version") == VERSION
    assert min(before, sessions, len(ids)) > 0
    Live(tmp_path / "new", compiled).close()
    assert schema(state) == schema(tmp_path / "new" / "state")


def test_serve_continues_a_store_of_version_3_with_a_chain(pack: Path, chain: Path, tmp_path: Path) -> None:
    """Every verdict is given. A session that began without a chain is not followed, and a later one is."""
    state = tmp_path / "old" / "state"
    stored(state, zstandard.decompress(STORED_3.read_bytes()).decode())
    with closing(sqlite3.connect(state / FILE)) as db:
        ids = {row[0] for row in db.execute("SELECT id FROM verdict")}
        begun = {row[0] for row in db.execute("SELECT session_id FROM event WHERE seq = 1")}
    later = [
        PlayedSession(paced(answered_once(random_session(seed)), START_NS + 86_400 * NS, 15), Manner())
        for seed in (51, 267, 12)
    ]
    compiled = compile_rule_set(load_packs([pack]))
    with closing(Live(tmp_path / "old", compiled, chain=followed(chain, pack))) as live:
        live.play(sent_2()[BEFORE + 2 :], Random(6), restarts=True)
        live.play(schedule(later, Random(4)), Random(6))
        live.finish()
        assert ids | live.records.keys() == true_ids([*PLAYED_2, *later], pack).keys()
        assert live.store.fact("version") == VERSION
    with closing(sqlite3.connect(state / FILE)) as db:
        warned = {row[0] for row in db.execute("SELECT session_id FROM crossing")}
    assert begun
    assert warned
    assert not warned & begun
    Live(tmp_path / "new", compiled).close()
    assert schema(state) == schema(tmp_path / "new" / "state")
