"""A store of the release before is gone on with: requests in it, spans that wait, and their verdicts."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.stream.serve.store import FILE
from tracline.stream.serve.store_schema import VERSION

from ..support.scripts import START_NS, random_session
from ..support.span_plan import Manner
from .live import Live, places_of
from .truth import PlayedSession, paced, true_ids

STORED = Path(__file__).with_name("store_of_version_1.sql")
"""The store of the release before: half of a conversation waits as spans, the other half as a request."""
PLAYED = PlayedSession(paced(random_session(51, turns=1), START_NS, 1), Manner())


def schema(folder: Path) -> list[tuple[str, str, str]]:
    """The columns of all tables of a store: table, column, type."""
    query = (
        "SELECT t.name, c.name, c.type FROM sqlite_master t, pragma_table_info(t.name) c ORDER BY 1, c.cid"
    )
    with closing(sqlite3.connect(folder / FILE)) as db:
        return db.execute(query).fetchall()


def test_a_store_of_version_1_is_gone_on_with(pack: Path, tmp_path: Path) -> None:
    """Its tables become those of a new one, and the conversation is judged whole, once."""
    state = tmp_path / "old" / "state"
    state.mkdir(parents=True)
    with closing(sqlite3.connect(state / FILE)) as db:
        db.executescript(STORED.read_text())
    compiled = compile_rule_set(load_packs([pack]))
    with closing(Live(tmp_path / "old", compiled, now=PLAYED.spans[-1].end)) as live:
        live.finish()
        assert places_of(live.events) == Counter(PLAYED.places)
        assert live.records.keys() == true_ids([PLAYED], pack).keys() != set()
        assert live.store.fact("version") == VERSION
        live.restart()
    Live(tmp_path / "new", compiled).close()
    assert schema(state) == schema(tmp_path / "new" / "state")
