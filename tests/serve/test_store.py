"""The embedded store: refusals at opening, a full disk, and retention."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tracline.rules.incremental.carried import Carried
from tracline.rules.incremental.carried_slices import (
    CarriedEvent,
    CarriedSlice,
    CarriedSlices,
    SliceClass,
    SlicePage,
)
from tracline.schemas.instrumentations.census import OTHER_SCOPES, SCOPES_MAX
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.stream.error import StreamError
from tracline.stream.ingest.request import Encoding, ExportRequest
from tracline.stream.messages.session_state import VERSION, JudgingState, SessionState, decode, encode
from tracline.stream.serve.changes import StoreChanges
from tracline.stream.serve.store import FILE, Store, open_store

ID = "5e1f" * 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that was made just now, in the test's folder."""
    with closing(open_store(tmp_path, ID)) as store:
        yield store


def changed(folder: Path, statement: str) -> int | None:
    """The one number that a statement on the store's file gives, done by somebody else."""
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        found = db.execute(statement).fetchone()
    return None if found is None else found[0]


def refused(folder: Path) -> StreamError:
    """The error of opening a store."""
    with pytest.raises(StreamError) as caught:
        open_store(folder, ID)
    return caught.value


def test_a_store_keeps_its_id(store: Store, tmp_path: Path) -> None:
    """It has the id with which it was created, whatever id it is opened with later."""
    store.close()
    with closing(open_store(tmp_path, "f" * 64)) as again:
        assert again.fact("id") == ID


def test_a_store_is_open_once(store: Store, tmp_path: Path) -> None:
    """A second one is refused (TRL703) until the first is closed."""
    error = refused(tmp_path)
    assert (error.code, error.hint != "") == ("TRL703", True)
    store.close()
    open_store(tmp_path, ID).close()


def test_scopes_are_limited_and_their_counts_add_up(store: Store, tmp_path: Path) -> None:
    """Spans of further scopes count together, also after a restart."""
    store.close()
    with closing(open_store(tmp_path, ID)) as again:
        for first in (0, 600):
            batch = StoreChanges()
            for number in range(first, first + 600):
                batch.census.count(f"scope-{number}", 2, 1)
            again.commit(batch)
    assert changed(tmp_path, "SELECT count(*) FROM scope") == SCOPES_MAX + 1
    assert changed(tmp_path, "SELECT sum(spans) FROM scope") == 2_400
    assert changed(tmp_path, f"SELECT read FROM scope WHERE name = '{OTHER_SCOPES}'") == 200


def test_a_store_of_another_version_is_refused(store: Store, tmp_path: Path) -> None:
    """TRL702, and the file stays as it was; nor does it stay locked."""
    store.close()
    changed(tmp_path, "UPDATE fact SET value = 99 WHERE name = 'version'")
    assert refused(tmp_path).code == "TRL702"
    assert "99" in str(refused(tmp_path))
    assert changed(tmp_path, "SELECT value FROM fact WHERE name = 'version'") == 99


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    """A file that is no store is TRL702, not a traceback."""
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    assert refused(tmp_path).code == "TRL702"


@pytest.mark.parametrize(
    "data", [b"", bytes([VERSION + 1]) + b"x", bytes([VERSION]), bytes([VERSION]) + b"\x80"]
)
def test_a_state_that_is_not_understood_is_refused(data: bytes) -> None:
    """Of another version, cut off, or without what it must have: TRL701."""
    with pytest.raises(StreamError) as caught:
        decode(data)
    assert caught.value.code == "TRL701"


def test_a_state_is_read_as_it_was_written() -> None:
    """Sets, numbers as keys and None come back as they were."""
    event = CarriedEvent("e", 3, 5, 1, None)
    page = SlicePage.of(1, {"0 a": CarriedSlice(2, (event, event)), "0 b": CarriedSlice(2)})
    sliced = CarriedSlices({2: SliceClass(0, b"\3", 2)}, {1: 2}, page, (page,), 3)
    carried = Carried("program", 5, [event], [], b"\0\1", sliced=sliced)
    judging = JudgingState("digest", 5, carried, {"seq": [1, None], "late": [True]})
    state = SessionState(SessionAssembler("s", 7), judging)
    state.session.seen[-1].add_span("b", ("a",))
    state.session.seen[-1].add_call("c", None, "{}")
    assert decode(encode(state)) == state


def test_a_full_disk_refuses_and_undoes_whole(store: Store, tmp_path: Path) -> None:
    """A request for which there is no room is not there at all; once there is room, all goes on."""
    assert store.accept([ExportRequest(b"small", Encoding.JSON, Decoded(), 1)]) == [1]
    room = changed(tmp_path, "PRAGMA page_count")
    store._db.execute(f"PRAGMA max_page_count = {room}")
    large = ExportRequest(bytes(1 << 20), Encoding.PROTOBUF, Decoded(), 2)
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError):
            store.accept([ExportRequest(b"beside", Encoding.JSON, Decoded(), 2), large])
    assert [request.received for request in store.inbox()] == [1]
    store._db.execute("PRAGMA max_page_count = 1000000")
    assert len(store.accept([large])) == 1
    assert [request.received for request in store.inbox()] == [1, 2]


def test_what_was_archived_long_ago_is_forgotten(store: Store) -> None:
    """By when it was archived, not by when it happened: what comes from the past can be looked at."""
    old = StoreChanges(
        events=[("s", 1, 1, 1, "user", b"{}"), ("s", 1, 2, 1, "end", b"{}"), ("t", 1, 1, 1, "user", b"{}")],
        verdicts=[verdict("a")],
        statuses=[(session, 1, "p", "r", None, 1, None, None) for session in "st"],
    )
    store.commit(old)
    store.archived(2, time=100)
    store.commit(StoreChanges(verdicts=[verdict("b")]))
    assert store.prune(100) == 0
    assert store.prune(101) == 2
    assert store.prune(101) == 0
    assert [number for number, _ in store.events(0, 9)] == [3]
    db = store._db
    assert db.execute("SELECT id FROM verdict").fetchall() == [("b",)]
    assert db.execute("SELECT session_id FROM standing").fetchall() == [("t",)]


def verdict(name: str) -> tuple[object, ...]:
    """A row of the table of verdicts."""
    return (name, "p", "r", "s", 1, 1, 1, "violated", "low", None, 0, 1, b"{}")
