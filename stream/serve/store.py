"""The embedded store of `tracline serve`: one SQLite file that survives a crash at any moment.

A request is on disk before it is acknowledged (`accept`). Everything that a batch changes is written in one
transaction with the removal of its requests (`commit`), so that each request is judged exactly once.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from ...predict.drift.detectors import Detectors
from ...schemas.instrumentations.census import OTHER_SCOPES, SCOPES_MAX
from ...schemas.otlp.signal import Signal
from ..error import StreamError
from ..ingest.request import Encoding, ExportRequest
from ..messages.drift_state import decode_detectors, encode_detectors
from .changes import SessionRow, StoreChanges, TraceRow
from .store_schema import MIGRATIONS, TABLES, VERSION

FILE = "tracline.sqlite3"
LOCK = "tracline.lock"
CACHE_KB = 32_000
"""Kilobytes of the tables that SQLite has in memory."""
PAGE_BYTES = 8_192
"""Bytes of a page of SQLite in a new store; an older store stays with its own."""
_ENCODINGS = frozenset(encoding.value for encoding in Encoding)
_SIGNALS = frozenset((Signal.SPANS.value, Signal.LOGS.value))
_FACTS = ("version", "id", "watermark", "spans_time", "logs_time", "archived", "archiving", "drift")
"""`version` of the tables; `id` of the store; `watermark` and input times of the source; the numbers of the
last event `archived` and of the last one in the range that is being archived; the detectors of `drift`."""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """An acknowledged request on disk, with its number."""

    number: int
    received: int
    encoding: Encoding
    body: bytes
    signal: Signal


class Store:
    """A connection to the store, for one thread at a time; it holds the lock. `open_store` opens it."""

    def __init__(self, connection: sqlite3.Connection, lock: IO[bytes]) -> None:
        self._db, self._lock = connection, lock

    def close(self) -> None:
        """Close the connection, and release the lock."""
        self._db.close()
        self._lock.close()

    def accept(self, requests: Sequence[ExportRequest]) -> list[int]:
        """Write requests to disk, and return their numbers."""
        query = "INSERT INTO inbox (received, encoding, body, signal) VALUES (?, ?, ?, ?)"
        with self._writing():
            return [
                _number(self._db.execute(query, (r.received, r.encoding, r.body, r.signal))) for r in requests
            ]

    def inbox(self) -> Iterator[StoredRequest]:
        """Yield the acknowledged requests that no batch has judged, in their order."""
        query = "SELECT id, received, encoding, body, signal FROM inbox ORDER BY id"
        for number, received, encoding, body, signal in self._db.execute(query):
            if encoding not in _ENCODINGS or signal not in _SIGNALS:
                raise damaged()
            yield StoredRequest(number, received, Encoding(encoding), body, Signal(signal))

    def session(self, session_id: str) -> tuple[bytes, bytes] | None:
        """Return a session's stored state and the places of its pages, None where there is none."""
        query = "SELECT state, pages FROM session WHERE session_id = ?"
        return self._db.execute(query, (session_id,)).fetchone()

    def pages(self, session_id: str) -> dict[tuple[int, int], bytes]:
        """Return the pages of a session's state by round and number."""
        rows = self._db.execute("SELECT round, number, data FROM page WHERE session_id = ?", (session_id,))
        return {(number, index): data for number, index, data in rows}

    def schedule(self) -> Iterator[tuple[str, int, int]]:
        """Yield the sessions with the watermark at which each is due, and whether it is open."""
        return iter(self._db.execute("SELECT session_id, due, open FROM session WHERE due IS NOT NULL"))

    def traces(self) -> dict[str, tuple[int, list[bytes]]]:
        """Return the row of each stored trace, and its entries: its state, and the changes since then."""
        found: dict[str, tuple[int, list[bytes]]] = {}
        for trace_id, row, state in self._db.execute("SELECT trace_id, number, state FROM trace"):
            if trace_id in found:
                raise damaged()
            found[trace_id] = row, [state]
        query = "SELECT trace_id, data FROM trace_change ORDER BY trace_id, number"
        for trace_id, data in self._db.execute(query):
            if trace_id not in found:
                raise damaged()
            found[trace_id][1].append(data)
        return found

    def fact(self, name: str) -> int | str | bytes | None:
        """Return a fact, None where it was never noted."""
        assert name in _FACTS, name
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def number(self, name: str) -> int:
        """Return a fact that is a number, 0 where it was never noted. Raises StreamError where it is none."""
        return self.time(name) or 0

    def time(self, name: str) -> int | None:
        """Return a fact that is a number, None where it was never noted. Raises StreamError as `number`."""
        value = self.fact(name)
        if not isinstance(value, int | None):
            raise damaged()
        return value

    def drift(self) -> Detectors:
        """Return the detectors of drift. Raises StreamError where they are damaged."""
        value = self.fact("drift")
        try:
            return {} if value is None else decode_detectors(value if isinstance(value, bytes) else b"")
        except msgspec.MsgspecError:
            raise damaged() from None

    def note(self, name: str, value: int | str) -> None:
        """Write a fact to disk."""
        with self._writing():
            self._note(name, value)

    def events(self, after: int, count: int) -> list[tuple[int, bytes]]:
        """Return the numbers and rows of up to `count` judged events after the one with that number."""
        query = "SELECT id, row FROM event WHERE id > ? ORDER BY id LIMIT ?"
        return self._db.execute(query, (after, count)).fetchall()

    def archived(self, last: int, time: int) -> None:
        """Note that the events up to that number were archived at that time."""
        with self._writing():
            self._note("archived", last)
            self._db.execute(_ARCHIVED, (last, time))

    def prune(self, before: int) -> int:
        """Delete what was archived before that time, with its verdicts; return the number of events."""
        with self._writing():
            query = "SELECT max(event), max(verdict), max(crossing) FROM archived WHERE time < ?"
            event, verdict, crossing = self._db.execute(query, (before,)).fetchone()
            self._db.execute(_STOOD, (event,))
            self._db.execute("DELETE FROM verdict WHERE number <= ?", (verdict,))
            self._db.execute("DELETE FROM crossing WHERE number <= ?", (crossing,))
            self._db.execute("DELETE FROM archived WHERE event <= ?", (event,))
            return self._db.execute("DELETE FROM event WHERE id <= ?", (event,)).rowcount

    def commit(self, batch: StoreChanges) -> None:
        """Write everything that a batch changes, or nothing."""
        with self._writing():
            quarantined = [(number,) for number in batch.quarantined]
            self._db.executemany("INSERT INTO quarantine SELECT * FROM inbox WHERE id = ?", quarantined)
            self._db.execute("DELETE FROM inbox WHERE id <= ?", (batch.worked_off,))
            self._put_sessions(batch.sessions)
            self._put_traces(batch.traces)
            self._insert("event", "session_id, occurrence, seq, time, kind, row", batch.events)
            self._insert("verdict", VERDICT_COLUMNS, batch.verdicts, "OR IGNORE")
            self._insert("crossing", _CROSSING_COLUMNS, batch.crossings, "OR IGNORE")
            self._db.executemany(_STATUS, batch.statuses)
            self._db.executemany(_CLOSED, batch.closes)
            dead_letters = [(dl.time, dl.place, dl.code, dl.reason, dl.sha256) for dl in batch.dead_letters]
            self._insert("dead_letter", "received, place, code, reason, sha256", dead_letters)
            scopes = batch.census.spans.items()
            rows = [(name, name, OTHER_SCOPES, count, batch.census.read[name]) for name, count in scopes]
            self._db.executemany(_SCOPE, rows)
            self._note("watermark", batch.times.watermark)
            self._note("spans_time", batch.times.spans)
            if batch.times.logs is not None:
                self._note("logs_time", batch.times.logs)
            if batch.drift is not None:
                self._note("drift", encode_detectors(batch.drift))

    def _put_sessions(self, rows: Mapping[str, SessionRow | None]) -> None:
        """Replace the rows of sessions with their new pages, and delete what is gone."""
        closed = [(session_id,) for session_id, row in rows.items() if row is None]
        self._db.executemany("DELETE FROM session WHERE session_id = ?", closed)
        self._db.executemany("DELETE FROM page WHERE session_id = ?", closed)
        known = {session_id: row for session_id, row in rows.items() if row is not None}
        gone = [(session_id, *place[:2]) for session_id, row in known.items() for place in row.gone]
        self._db.executemany("DELETE FROM page WHERE session_id = ? AND round = ? AND number = ?", gone)
        new = ((session_id, *place[:2], data) for session_id, row in known.items() for place, data in row.new)
        self._insert("page", "session_id, round, number, data", new)
        states = ((session_id, *row[:4]) for session_id, row in known.items())
        self._db.executemany(_SESSION, states)

    def _put_traces(self, rows: Mapping[str, TraceRow]) -> None:
        """Write the states and changes of traces, and delete what is gone."""
        gone = [(trace_id, row.before) for trace_id, row in rows.items() if row.written == 0 and row.before]
        self._db.executemany("DELETE FROM trace WHERE number = ?", [(before.row,) for _, before in gone])
        changed = [(trace_id,) for trace_id, before in gone if before.changes]
        self._db.executemany("DELETE FROM trace_change WHERE trace_id = ?", changed)
        known = [(trace_id, row) for trace_id, row in rows.items() if row.data is not None]
        whole = [(row.row, trace_id, row.touched, row.data) for trace_id, row in known if row.written == 0]
        changes = [(trace_id, row.written, row.data) for trace_id, row in known if row.written > 0]
        self._insert("trace", "number, trace_id, touched, state", whole)
        self._insert("trace_change", "trace_id, number, data", changes)

    def _insert(self, table: str, columns: str, rows: Iterable[tuple[object, ...]], how: str = "") -> None:
        marks = ", ".join("?" * len(columns.split(",")))
        self._db.executemany(f"INSERT {how} INTO {table} ({columns}) VALUES ({marks})", rows)

    def _note(self, name: str, value: int | str | bytes) -> None:
        assert name in _FACTS, name
        self._db.execute("INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", (name, value))

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Run the block in one transaction, which is rolled back on any exception."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # SQLite itself rolls back some transactions on a full disk.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


VERDICT_COLUMNS = (
    "id, pack, rule, session_id, occurrence, seq, time, verdict, severity, agent, history, given, record"
)

_CROSSING_COLUMNS = (
    "id, level, pack, rule, session_id, occurrence, seq, time, risk, threshold, severity, agent, history,"
    " given, record"
)

_SESSION = """
INSERT INTO session (session_id, due, open, state, pages) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
  due = excluded.due, open = excluded.open, state = excluded.state, pages = excluded.pages
"""
_STATUS = """
INSERT INTO standing (session_id, occurrence, pack, rule, agent, applied, violated, unjudged)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
  agent = coalesce(agent, excluded.agent), applied = coalesce(applied, excluded.applied),
  violated = coalesce(violated, excluded.violated), unjudged = coalesce(unjudged, excluded.unjudged)
"""
_SCOPE = f"""
INSERT INTO scope (name, spans, read)
SELECT CASE WHEN (SELECT count(*) FROM scope) < {SCOPES_MAX} OR EXISTS (SELECT 1 FROM scope WHERE name = ?)
       THEN ? ELSE ? END, ?, ?
WHERE true ON CONFLICT DO UPDATE SET spans = spans + excluded.spans, read = read + excluded.read
"""
_ARCHIVED = """
INSERT INTO archived (event, time, verdict, crossing)
SELECT ?, ?, (SELECT coalesce(max(number), 0) FROM verdict), (SELECT coalesce(max(number), 0) FROM crossing)
"""
_STOOD = """
DELETE FROM standing WHERE (session_id, occurrence) IN
  (SELECT session_id, occurrence FROM event WHERE id <= ? AND kind = 'end')
"""
_CLOSED = "UPDATE standing SET closed = ? WHERE session_id = ? AND occurrence = ?"


def open_store(folder: Path, new_id: str) -> Store:
    """Return the store in a folder; create it with that id where there is none.

    Raises StreamError where another process has it open, an incompatible release wrote it, or it is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    connection = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False, timeout=60)
    store = Store(connection, lock)
    try:
        # FULL: a transaction is on disk when it is committed, also in WAL mode.
        # A commit touches rows all over the tables, of which SQLite's default caches 2 MB.
        cached = f"cache_size = -{CACHE_KB}"
        sized = f"page_size = {PAGE_BYTES}"
        for pragma in (sized, "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", cached):
            connection.execute(f"PRAGMA {pragma}")
        _prepare(connection, store, new_id)
    except StreamError:
        store.close()
        raise
    except sqlite3.Error as error:
        store.close()
        raise unusable(folder / FILE, error) from None
    return store


def is_of_the_disk(error: sqlite3.Error) -> bool:
    """Return whether the disk or another process prevents writing the file, which may pass."""
    return error.sqlite_errorcode & 0xFF in _OF_THE_DISK


_OF_THE_DISK = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
}
_SAFE = "no acknowledged request is lost"
_RECOVER = "back up the folder, then restore the file from an earlier copy, or start with an empty folder"


def unusable(path: Path, error: sqlite3.Error) -> StreamError:
    """Return the error of a store's file that SQLite cannot use."""
    name = error.sqlite_errorname
    if is_of_the_disk(error):
        hint = "make sure that the disk is writable and not full, and that no other program has the file open"
        return StreamError(
            "TRL704", f"cannot read or write {path} ({name})", f"{hint}; then restart: {_SAFE}"
        )
    return StreamError("TRL702", f"cannot use {path} ({name})", _RECOVER)


def damaged() -> StreamError:
    """Return the error of a store whose content is damaged."""
    return StreamError("TRL702", "the store is damaged", _RECOVER)


@contextmanager
def using(path: Path) -> Generator[None]:
    """Turn errors of the store inside the block into StreamError with the path of its file."""
    try:
        yield
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    except StreamError as error:
        if error.code in ("TRL701", "TRL702") and str(path) not in str(error):
            raise StreamError(error.code, f"{path}: {error}", error.hint) from error
        raise


def _locked(folder: Path) -> IO[bytes]:
    """Return the store's lock, which the system releases when the process ends."""
    lock = (folder / LOCK).open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        hint = "stop the other process, or choose another state folder"
        raise StreamError("TRL703", f"another process is using the store in {folder}", hint) from None
    return lock


def _prepare(connection: sqlite3.Connection, store: Store, new_id: str) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not tables:
        assert new_id.isalnum(), "the id has letters and digits only"
        facts = f"INSERT INTO fact VALUES ('version', {VERSION}), ('id', '{new_id}');"
        connection.executescript(f"BEGIN IMMEDIATE; {TABLES} {facts} COMMIT;")
    if not str(store.fact("id") or "").isalnum():
        raise damaged()
    version = store.fact("version")
    while version in MIGRATIONS:
        assert isinstance(version, int)
        note = f"UPDATE fact SET value = {version + 1} WHERE name = 'version';"
        connection.executescript(f"BEGIN IMMEDIATE; {MIGRATIONS[version]} {note} COMMIT;")
        version += 1
    if version != VERSION:
        hint = "run the release that wrote it, or start with an empty folder"
        raise StreamError(
            "TRL702", f"unknown version {version} of the store; this release reads version {VERSION}", hint
        )


def _number(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid
