"""`tracline serve` over a store that is damaged, or that the disk does not take: an error, no traceback."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tracline.schemas.otlp.decoded import Decoded
from tracline.stream.error import StreamError
from tracline.stream.ingest.request import Encoding, ExportRequest
from tracline.stream.messages.trace_state import EntrySizes
from tracline.stream.serve.changes import StoreChanges, TraceRow
from tracline.stream.serve.store import FILE, open_store, unusable, using

from ..support.processes.serving import free_port, run_to_end

ID = "5e1f" * 16
PAGE = 4_096


def stored(folder: Path) -> Path:
    """Make a store with requests and traces that wait, all in its one file; return that."""
    with closing(open_store(folder, ID)) as store:
        store.accept([ExportRequest(bytes(3_000), Encoding.PROTOBUF, Decoded(), 1) for _ in range(40)])
        states = {
            f"{number:032x}": TraceRow(number + 1, 1, 0, bytes(3_000), EntrySizes(0, 0), None)
            for number in range(40)
        }
        store.commit(StoreChanges(traces=states))
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / FILE


def spoil_pages(path: Path) -> None:
    """Overwrite every page behind those of the tables' roots."""
    data = path.read_bytes()
    intact = 24 * PAGE
    assert len(data) > 2 * intact
    path.write_bytes(data[:intact] + b"\xa5" * (len(data) - intact))


def test_a_damaged_page_ends_the_process_with_an_error(tmp_path: Path, pack: Path) -> None:
    """`serve` reports the file, TRL702 and a hint, and exits 2 without a traceback."""
    path = stored(tmp_path / "state")
    spoil_pages(path)
    ended = run_to_end(tmp_path, pack, free_port(), "--grpc-port", "0")
    assert ended.returncode == 2
    assert f"TRL702 cannot use {path} (SQLITE_CORRUPT" in ended.stderr
    assert "hint: back up the folder" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_damaged_row_ends_the_process_with_an_error(tmp_path: Path, pack: Path) -> None:
    """A trace's state that is no state any more is TRL702, too: SQLite has no sum of what it holds."""
    path = stored(tmp_path / "state")
    ended = run_to_end(tmp_path, pack, free_port(), "--grpc-port", "0")
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert f"TRL702 {path}: the store is damaged" in ended.stderr


@pytest.mark.parametrize("statement", ["UPDATE fact SET value = x'ff'", "UPDATE inbox SET encoding = 'x'"])
def test_odd_facts_and_requests_are_damage(tmp_path: Path, statement: str) -> None:
    """Every value that is read at the start is the one that was written, or the start fails with TRL702."""
    path = stored(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
    with pytest.raises(StreamError) as caught, using(path), closing(open_store(tmp_path, ID)) as store:
        list(store.inbox())
    assert (caught.value.code, str(path) in str(caught.value)) == ("TRL702", True)


def test_a_store_that_cannot_be_written_is_the_disks_or_anothers(tmp_path: Path) -> None:
    """TRL704 with the path where the file is read-only, full or locked: nothing in it is damaged."""
    path = stored(tmp_path)
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        assert code_of(db, "DELETE FROM inbox", path) == "TRL704"
    with closing(sqlite3.connect(path, timeout=0)) as db, closing(sqlite3.connect(path)) as second_db:
        second_db.execute("BEGIN IMMEDIATE")
        assert code_of(db, "DELETE FROM inbox", path) == "TRL704"
        second_db.rollback()
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
        assert (
            code_of(db, "INSERT INTO inbox VALUES (99, 1, 'json', zeroblob(1000000), 'spans')", path)
            == "TRL704"
        )
        assert code_of(db, "SELECT * FROM nowhere", path) == "TRL702"


def code_of(db: sqlite3.Connection, statement: str, path: Path) -> str:
    """Return the code of the error of a statement, which names the path."""
    with pytest.raises(sqlite3.Error) as caught:
        db.execute(statement)
    error = unusable(path, caught.value)
    assert str(path) in str(error)
    return error.code
