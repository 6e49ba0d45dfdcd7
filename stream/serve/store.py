"""The embedded store of `tracline serve`: one SQLite file that a crash at any moment leaves whole.

A request is on disk before it is acknowledged (`accept`), and all that a batch changes is written in one
transaction with the requests that it used up (`commit`): so each is worked off exactly once.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ...schemas.event import Event
from ...schemas.instrumentations.census import OTHER_SCOPES, SCOPES_MAX, SpanCensus
from ...schemas.otlp.signal import Signal
from ...schemas.span import Span
from ...schemas.span_content import SpanContent
from ..error import StreamError
from ..ingest.request import Encoding, ExportRequest
from ..messages.unjoined import Unjoined
from .store_schema import MIGRATIONS, TABLES, VERSION

FILE = "tracline.sqlite3"
LOCK = "tracline.lock"
_ENCODINGS = frozenset(encoding.value for encoding in Encoding)
_SIGNALS = frozenset((Signal.SPANS.value, Signal.LOGS.value))
_FACTS = ("version", "id", "watermark", "spans_time", "logs_time", "archived", "archiving")
"""`version` of the tables; `id` of the store; the source's `watermark` and the times of its inputs; the last
event that is `archived`, and the last one of the range that was being archived."""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """An acknowledged request, by the number under which it is on disk."""

    number: int
    received: int
    encoding: Encoding
    body: bytes
    signal: Signal


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """Something that could not be read: when it came, where, why, and a digest of the request."""

    received: int
    place: str
    code: str
    reason: str
    sha256: str


@dataclass(slots=True)
class StoreChanges:
    """Everything that one batch changes; rows are tuples in the order of the table's columns.

    Requests up to the number `worked_off` are done with, and the one `quarantined` is put aside. `census`
    counts the spans that came. For metrics alone: what was `late`, how many tellings were `repeats`, when the
    latest request was received, how many spans and log records wait, how many of the latter were not joined
    to a span and why, and how many sessions are open once the batch is written. For the doctor alone: the
    `spans` that came with what they say, the events that were `judged`, and whether `log_records` came.
    """

    worked_off: int = 0
    quarantined: int = 0
    sessions: dict[str, tuple[int, bool, bytes] | None] = field(
        default_factory=dict[str, tuple[int, bool, bytes] | None]
    )
    traces: dict[str, tuple[int, bytes] | None] = field(default_factory=dict[str, tuple[int, bytes] | None])
    events: list[tuple[str, int, int, int, str, bytes]] = field(
        default_factory=list[tuple[str, int, int, int, str, bytes]]
    )
    verdicts: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    standings: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    closes: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])
    dead_letters: list[StoredDeadLetter] = field(default_factory=list[StoredDeadLetter])
    census: SpanCensus = field(default_factory=SpanCensus)
    watermark: int = 0
    spans_time: int = 0
    logs_time: int | None = None
    late: int = 0
    repeats: int = 0
    received: int | None = None
    spans_waiting: int = 0
    spans_early: int = 0
    records_waiting: int = 0
    unjoined: Counter[Unjoined] = field(default_factory=Counter[Unjoined])
    open_sessions: int = 0
    spans: list[tuple[Span, SpanContent]] = field(default_factory=list[tuple[Span, SpanContent]])
    log_records: bool = False
    judged: Sequence[Event] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is to be written: no request, no session, no trace that changed."""
        return not (self.worked_off or self.sessions or self.traces or self.dead_letters)


class Store:
    """A connection to the store, for one thread at a time; it holds the lock. `open_store` makes it."""

    def __init__(self, connection: sqlite3.Connection, lock: IO[bytes]) -> None:
        self._db, self._lock = connection, lock

    def close(self) -> None:
        """Close the connection, and let another process have the store."""
        self._db.close()
        self._lock.close()

    def accept(self, requests: Sequence[ExportRequest]) -> list[int]:
        """Write requests to disk, and return their numbers there."""
        query = "INSERT INTO inbox (received, encoding, body, signal) VALUES (?, ?, ?, ?)"
        with self._writing():
            return [
                _number(self._db.execute(query, (one.received, one.encoding, one.body, one.signal)))
                for one in requests
            ]

    def inbox(self) -> Iterator[StoredRequest]:
        """The requests that were acknowledged and are not worked off, in their order."""
        query = "SELECT id, received, encoding, body, signal FROM inbox ORDER BY id"
        for number, received, encoding, body, signal in self._db.execute(query):
            if encoding not in _ENCODINGS or signal not in _SIGNALS:
                raise damaged()
            yield StoredRequest(number, received, Encoding(encoding), body, Signal(signal))

    def session(self, session_id: str) -> bytes | None:
        """A session's stored state."""
        row = self._db.execute("SELECT state FROM session WHERE session_id = ?", (session_id,)).fetchone()
        return None if row is None else row[0]

    def due(self, watermark: int) -> list[tuple[str, bytes]]:
        """The sessions that have something to do when the watermark is there."""
        found = self._db.execute("SELECT session_id, state FROM session WHERE due <= ?", (watermark,))
        return found.fetchall()

    def open_sessions(self) -> int:
        """Return how many sessions are open."""
        return self._db.execute("SELECT count(*) FROM session WHERE open").fetchone()[0]

    def traces(self) -> Iterator[tuple[str, bytes]]:
        """The stored traces, those first that were silent longest."""
        return iter(self._db.execute("SELECT trace_id, state FROM trace ORDER BY touched, trace_id"))

    def fact(self, name: str) -> int | str | None:
        """A fact, None where it was never noted."""
        assert name in _FACTS, name
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def number(self, name: str) -> int:
        """A fact that is a number, 0 where it was never noted. Raises StreamError where it is none."""
        return self.time(name) or 0

    def time(self, name: str) -> int | None:
        """Return a fact that is a number, None where it was never noted. Raises StreamError as `number`."""
        value = self.fact(name)
        if not isinstance(value, int | None):
            raise damaged()
        return value

    def note(self, name: str, value: int | str) -> None:
        """Note a fact on disk."""
        with self._writing():
            self._note(name, value)

    def events(self, after: int, count: int) -> list[tuple[int, bytes]]:
        """Up to `count` judged events behind the one with that number: their numbers and rows."""
        query = "SELECT id, row FROM event WHERE id > ? ORDER BY id LIMIT ?"
        return self._db.execute(query, (after, count)).fetchall()

    def archived(self, last: int, time: int) -> None:
        """Note that the events up to that number are in the archive since that time."""
        with self._writing():
            self._note("archived", last)
            self._db.execute(_ARCHIVED, (last, time))

    def prune(self, before: int) -> int:
        """Delete what was archived before that time, and what was said of it; how many events these were."""
        with self._writing():
            query = "SELECT max(event), max(verdict) FROM archived WHERE time < ?"
            event, verdict = self._db.execute(query, (before,)).fetchone()
            self._db.execute(_STOOD, (event,))
            self._db.execute("DELETE FROM verdict WHERE number <= ?", (verdict,))
            self._db.execute("DELETE FROM archived WHERE event <= ?", (event,))
            return self._db.execute("DELETE FROM event WHERE id <= ?", (event,)).rowcount

    def commit(self, batch: StoreChanges) -> None:
        """Write all that a batch changed, or nothing."""
        with self._writing():
            self._db.execute("INSERT INTO quarantine SELECT * FROM inbox WHERE id = ?", (batch.quarantined,))
            self._db.execute("DELETE FROM inbox WHERE id <= ?", (batch.worked_off,))
            self._put("session", "session_id, due, open, state", batch.sessions)
            self._put("trace", "trace_id, touched, state", batch.traces)
            self._insert("event", "session_id, occurrence, seq, time, kind, row", batch.events)
            self._insert("verdict", VERDICT_COLUMNS, batch.verdicts, "OR IGNORE")
            self._db.executemany(_STANDING, batch.standings)
            self._db.executemany(_CLOSED, batch.closes)
            letters = [(d.received, d.place, d.code, d.reason, d.sha256) for d in batch.dead_letters]
            self._insert("dead_letter", "received, place, code, reason, sha256", letters)
            scopes = batch.census.spans.items()
            rows = [(name, name, OTHER_SCOPES, count, batch.census.read[name]) for name, count in scopes]
            self._db.executemany(_SCOPE, rows)
            self._note("watermark", batch.watermark)
            self._note("spans_time", batch.spans_time)
            if batch.logs_time is not None:
                self._note("logs_time", batch.logs_time)

    def _put(self, table: str, columns: str, rows: Mapping[str, tuple[object, ...] | None]) -> None:
        """Replace rows by their key, and delete those that are None."""
        key = columns.split(",")[0]
        gone = [(name,) for name, row in rows.items() if row is None]
        self._db.executemany(f"DELETE FROM {table} WHERE {key} = ?", gone)
        kept = [(name, *row) for name, row in rows.items() if row is not None]
        self._insert(table, columns, kept, "OR REPLACE")

    def _insert(self, table: str, columns: str, rows: Iterable[tuple[object, ...]], how: str = "") -> None:
        marks = ", ".join("?" * len(columns.split(",")))
        self._db.executemany(f"INSERT {how} INTO {table} ({columns}) VALUES ({marks})", rows)

    def _note(self, name: str, value: int | str) -> None:
        assert name in _FACTS, name
        self._db.execute("INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", (name, value))

    @contextmanager
    def _writing(self) -> Generator[None]:
        """One transaction: on disk when it is left, or undone."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # A full disk undoes some transactions by itself.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


VERDICT_COLUMNS = (
    "id, pack, rule, session_id, occurrence, seq, time, verdict, severity, agent, history, given, record"
)

_STANDING = """
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
_ARCHIVED = "INSERT INTO archived SELECT ?, coalesce(max(number), 0), ? FROM verdict"
_STOOD = """
DELETE FROM standing WHERE (session_id, occurrence) IN
  (SELECT session_id, occurrence FROM event WHERE id <= ? AND kind = 'end')
"""
_CLOSED = "UPDATE standing SET closed = ? WHERE session_id = ? AND occurrence = ?"


def open_store(folder: Path, new_id: str) -> Store:
    """The store in a folder, made (with that id) where there is none.

    Raises StreamError where another process has it open, another version made it, or it is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    connection = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False, timeout=60)
    store = Store(connection, lock)
    try:
        # FULL: a transaction is on disk when it is committed, also in WAL mode.
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
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
    """Return whether the disk, or another process, keeps the file from being written: that may pass."""
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
_MEND = "keep a copy of the folder, restore the file from an earlier copy, or begin with an empty folder"


def unusable(path: Path, error: sqlite3.Error) -> StreamError:
    """Return what is wrong with the store's file, by what SQLite says of it."""
    name = error.sqlite_errorname
    if is_of_the_disk(error):
        hint = "see that the disk has room and takes writes and no other program has the file open"
        text = f"{path} cannot be read or written ({name})"
        return StreamError("TRL704", text, f"{hint}, and start again: nothing that was acknowledged is lost")
    return StreamError("TRL702", f"{path} cannot be used ({name})", _MEND)


def damaged() -> StreamError:
    """Return what the store holds is not what was written."""
    return StreamError("TRL702", "what the store holds is damaged", _MEND)


@contextmanager
def using(path: Path) -> Generator[None]:
    """Raise StreamError with the path of the store's file for what goes wrong with it inside."""
    try:
        yield
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    except StreamError as error:
        if error.code in ("TRL701", "TRL702") and str(path) not in str(error):
            raise StreamError(error.code, f"{path}: {error}", error.hint) from error
        raise


def _locked(folder: Path) -> IO[bytes]:
    """The store's lock, which the system lets go of when the process ends, however it does."""
    lock = (folder / LOCK).open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        hint = "stop the other process, or keep the state of this one in another folder"
        raise StreamError("TRL703", f"another process has the store in {folder} open", hint) from None
    return lock


def _prepare(connection: sqlite3.Connection, store: Store, new_id: str) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not tables:
        assert new_id.isalnum(), "an id of letters and digits"
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
        hint = "start the release that made it, let it finish, and begin with an empty folder"
        raise StreamError(
            "TRL702", f"the store has version {version}, and this release reads {VERSION}", hint
        )


def _number(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid
