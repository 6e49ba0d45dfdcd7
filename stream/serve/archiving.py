"""Archiving of judged events: the same rows in the same file, even after a crash between two steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...schemas.time import NS
from ..process.faultpoints import ServeFault, fault_point
from .store import Store, is_of_the_disk

ARCHIVE_ROWS = 50_000
"""Events archived at a time."""


class ArchiveSink(Protocol):
    """An archive that judged events are written to."""

    def write(self, rows: Sequence[bytes], first: int, last: int) -> None:
        """Write judged events, rows of the store with these numbers; a repeated write must change nothing."""

    def mark(self, watermark: int) -> None:
        """Record that everything judged up to this time is in the archive."""


@dataclass(frozen=True, slots=True)
class StoreIntervals:
    """Seconds between two rounds of archiving, and seconds that the store retains archived events."""

    archive_s: float = 10.0
    retain_s: float = 7 * 86_400.0


class StoreArchiver:
    """The archiver of one store. `now` returns the time in nanoseconds since the epoch."""

    def __init__(
        self, store: Store, archive: ArchiveSink, intervals: StoreIntervals, now: Callable[[], int]
    ) -> None:
        self._store, self._archive, self._intervals, self._now = store, archive, intervals, now
        self._archived_at = now()
        self._marked = 0

    def finish_begun(self) -> None:
        """Repeat the write that a crash may have interrupted: the same events, in the same file."""
        archived, begun = (self._store.number(name) for name in ("archived", "archiving"))
        if begun > archived:
            self._write([row for row in self._store.events(archived, ARCHIVE_ROWS) if row[0] <= begun])

    def archive_if_due(self, now: int, watermark: int) -> None:
        """Archive and prune once the interval is over; where the disk is full, in the next one."""
        if now - self._archived_at < round(self._intervals.archive_s * NS):
            return
        self._archived_at = now
        try:
            self.archive(watermark)
            self._store.prune(now - round(self._intervals.retain_s * NS))
        except sqlite3.OperationalError as error:
            if not is_of_the_disk(error):
                raise

    def archive(self, watermark: int) -> None:
        """Archive the events judged since the last time, and record the watermark behind them."""
        while rows := self._store.events(self._store.number("archived"), ARCHIVE_ROWS):
            self._store.note("archiving", rows[-1][0])
            fault_point(ServeFault.ARCHIVING)
            self._write(rows)
        if watermark > self._marked:
            # Also where nothing was judged: events judged after a restart must lie behind the mark.
            self._store.note("watermark", watermark)
            fault_point(ServeFault.MARKING)
            self._archive.mark(watermark)
            self._marked = watermark

    def _write(self, rows: Sequence[tuple[int, bytes]]) -> None:
        self._archive.write([row for _, row in rows], rows[0][0], rows[-1][0])
        fault_point(ServeFault.WRITTEN)
        self._store.archived(rows[-1][0], self._now())
        fault_point(ServeFault.ARCHIVED)
