"""The store of an archive that the console shows read only: the tables of `serve`, filled once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...schemas.event import Event, Kind
from ...schemas.records.verdict_record import VerdictRecord
from .rows import event_row, verdict_row
from .store import VERDICT_COLUMNS
from .store_schema import TABLES, VERSION

_STAGED = """
CREATE TABLE staged_event (session_id, occurrence, seq, time, kind, row);
CREATE TABLE staged_verdict AS SELECT * FROM verdict WHERE false;
ALTER TABLE staged_verdict DROP COLUMN number;
"""
_COLUMNS = "session_id, occurrence, seq, time, kind, row"
_SORTED = f"""
INSERT INTO event ({_COLUMNS}) SELECT {_COLUMNS} FROM staged_event ORDER BY occurrence, session_id, seq;
INSERT INTO verdict ({VERDICT_COLUMNS})
  SELECT {VERDICT_COLUMNS} FROM staged_verdict ORDER BY time, session_id, occurrence, seq, pack, rule;
DROP TABLE staged_event;
DROP TABLE staged_verdict;
"""
_STATUS_COLUMNS = ("applied", "violated", "unjudged", "closed")


class ReadOnlyStore:
    """A new store in a file of the caller: `add` sessions in any order, then `finish`.

    `events` counts the added events and `end` rows.
    """

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        # The file is written once and read by this process alone: a crash needs no recovery.
        self._db.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {TABLES} {_STAGED}")
        self._last = 0
        self.events = 0

    def add(
        self,
        events: Iterable[Event],
        records: Iterable[VerdictRecord],
        statuses: Iterable[Mapping[str, Any]],
        digest: str,
    ) -> None:
        """Add whole sessions: events with `end` rows, verdicts, and statuses with the rules' digest."""
        self._db.execute("BEGIN")
        rows = [event_row(event, digest) for event in events]
        self._last = max([self._last, *(row[3] for row in rows if row[4] != Kind.END.value)])
        self.events += len(rows)
        self._insert("staged_event", _COLUMNS, rows)
        self._insert("staged_verdict", VERDICT_COLUMNS, [verdict_row(record, 0) for record in records])
        for status in statuses:
            self._set_status(status)
        self._db.execute("COMMIT")

    def finish(self) -> None:
        """Write the events and verdicts in the order of their times, and close the file."""
        facts = [("version", VERSION), ("watermark", self._last)]
        self._db.executescript(f"BEGIN; {_SORTED} COMMIT;")
        self._db.executemany("INSERT INTO fact (name, value) VALUES (?, ?)", facts)
        self._db.close()

    def _insert(self, table: str, columns: str, rows: Iterable[tuple[object, ...]]) -> None:
        marks = ", ".join("?" * len(columns.split(",")))
        self._db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)

    def _set_status(self, status: Mapping[str, Any]) -> None:
        """Set one time of a rule in a session, or the close of a session in all its rules."""
        column = status["status"]
        assert column in _STATUS_COLUMNS, column
        key = (status["session_id"], status["occurrence"])
        if column == "closed":
            query = "UPDATE standing SET closed = ? WHERE session_id = ? AND occurrence = ?"
            self._db.execute(query, (status["changed"], *key))
            return
        if not status["is_certain"]:
            # A session to which a rule may not apply is counted as an unjudged one.
            self._set_status({**status, "status": "unjudged", "is_certain": True})
        names = f"session_id, occurrence, pack, rule, agent, {column}"
        query = (
            f"INSERT INTO standing ({names}) VALUES (?, ?, ?, ?, ?, ?)"
            f" ON CONFLICT DO UPDATE SET {column} = coalesce({column}, excluded.{column})"
        )
        self._db.execute(query, (*key, status["pack"], status["rule"], status["agent"], status["changed"]))
