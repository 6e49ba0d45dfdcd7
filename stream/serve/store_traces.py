"""The traces of a store: the state of each, and the changes since it was written.

`stream/messages/trace_state.py` has their codec. A state has a row of its own, and one that is written again
a new row behind all others: traces are written, and forgotten, in about the order in which they come, so that
a commit touches few pages of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...schemas.sessions.pending import Traces, TraceWrites
from ...schemas.sessions.trace import OpenTrace
from ..messages.trace_state import DAMAGES, EntrySizes, decode_trace, next_entry
from .changes import TraceInRows, TraceRow
from .store import Store, damaged


class StoreTraces:
    """The places of the stored traces, and the sizes of their entries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stored: dict[str, TraceInRows] = {}
        self._last_row = 0

    def read(self) -> Traces:
        """Return the traces as they were committed last. Raises StreamError where they are damaged."""
        found: dict[str, OpenTrace] = {}
        try:
            for trace_id, (row, entries) in self._store.traces().items():
                found[trace_id], sizes = decode_trace(entries)
                self._stored[trace_id] = TraceInRows(row, len(entries) - 1, sizes)
                self._last_row = max(self._last_row, row)
        except DAMAGES:
            raise damaged() from None
        return Traces(dict(sorted(found.items(), key=lambda item: (item[1].touched, item[0]))))

    def rows(self, writes: TraceWrites) -> dict[str, TraceRow]:
        """Return the row that brings each changed trace up to date."""
        rows: dict[str, TraceRow] = {}
        last = self._last_row
        for trace_id, changes in writes.changes.items():
            opened, before = writes.opened[trace_id], self._stored.get(trace_id)
            if opened is None:
                rows[trace_id] = TraceRow(0, 0, 0, None, EntrySizes(0, 0), before)
                continue
            entry = next_entry(opened, changes, None if before is None else before.sizes)
            if before is None or entry.is_whole:
                last += 1
                row, number = last, 0
            else:
                row, number = before.row, before.changes + 1
            rows[trace_id] = TraceRow(row, opened.touched, number, entry.data, entry.sizes, before)
        return rows

    def apply(self, rows: Mapping[str, TraceRow]) -> None:
        """Follow rows that were committed."""
        for trace_id, row in rows.items():
            if row.data is None:
                self._stored.pop(trace_id, None)
            else:
                self._stored[trace_id] = TraceInRows(row.row, row.written, row.sizes)
                self._last_row = max(self._last_row, row.row)
