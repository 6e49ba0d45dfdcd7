"""Pages of session states, and changes of traces, are rows that serve writes once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec
import pytest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.sessions.memory import held, seen
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.serve.rows import frame_of
from tracline.stream.serve.store import FILE

from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Manner
from ..support.processes.live import Live, places_of, schedule
from ..support.truth.conversations import PlayedSession, answered_once, paced, true_ids

PLAYED = [
    PlayedSession(
        paced(answered_once(random_session(seed)), START_NS + 60 * place * NS, 15),
        Manner(one_trace=place > 0),
    )
    for place, seed in enumerate((237, 104, 267))
]


@pytest.fixture(autouse=True)
def small_pages() -> Iterator[None]:
    """Put states into pages early."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(seen, "RECENT_MAX", 2)
        patched.setattr(held, "RECENT_CHARS_MAX", 200)
        yield


def check_rows(live: Live, reached: Counter[str]) -> None:
    """Assert that the store has the pages that its sessions name, and changes of its traces only."""
    with closing(sqlite3.connect(live.folder / "state" / FILE)) as db:
        named = {
            (session_id, place[0], place[1])
            for session_id, places in db.execute("SELECT session_id, pages FROM session WHERE pages != x''")
            for place in msgspec.msgpack.decode(places)
        }
        stored = set(db.execute("SELECT session_id, round, number FROM page"))
        assert stored == named
        reached["pages"] += len(stored)
        reached["rounds"] += max((page[1] for page in stored), default=0) > 1
        changed = {row[0] for row in db.execute("SELECT trace_id FROM trace_change")}
        assert changed <= {row[0] for row in db.execute("SELECT trace_id FROM trace")}
        reached["trace changes"] += len(changed)


@pytest.mark.parametrize("restarts", [False, True])
def test_sessions_continue_from_their_rows(restarts: bool, pack: Path, tmp_path: Path) -> None:
    """With restarts after each round and without, every event is judged once, and no row is left behind."""
    compiled, random, reached = compile_rule_set(load_packs([pack])), Random(6), Counter[str]()
    sent = schedule(PLAYED, Random(4), again=0.2, most=6)
    with closing(Live(tmp_path, compiled)) as live:
        for first in range(0, len(sent), 4):
            live.play(sent[first : first + 4], random, restarts=restarts)
            check_rows(live, reached)
        live.finish()
        check_rows(live, Counter())
        events = frame_of([row for _, row in live.store.events(0, 10_000)])
        assert places_of(events) == Counter(place for played in PLAYED for place in played.places)
        assert live.records.keys() == true_ids(PLAYED, pack).keys() != set()
    assert min(reached[name] for name in ("pages", "rounds", "trace changes")) > 0, reached


@pytest.mark.parametrize("change", ["DELETE FROM page", "UPDATE page SET data = x'00'"])
def test_a_missing_or_damaged_page_ends_the_process(change: str, pack: Path, tmp_path: Path) -> None:
    """A session without its page is never judged: the store is damaged (TRL702)."""
    sent, reached, random = schedule(PLAYED, Random(4), again=0.2, most=6), Counter[str](), Random(5)
    with closing(Live(tmp_path, compile_rule_set(load_packs([pack])))) as live:
        while not reached["pages"]:
            live.play(sent[:1], random)
            check_rows(live, reached)
            del sent[0]
        with closing(sqlite3.connect(tmp_path / "state" / FILE)) as db, db:
            assert db.execute(change).rowcount > 0
        live.restart()
        with pytest.raises(StreamError) as caught:
            live.play(sent, random)
        assert caught.value.code == "TRL702"
