"""The traces of a store: the state of each, and the changes since it was written.

`stream/messages/trace_state.py` has their codec.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...schemas.sessions.pending import Traces, TraceWrites
from ...schemas.sessions.trace import OpenTrace
from ..messages.trace_state import DAMAGES, EntrySizes, decode_trace, next_entry
from .changes import TraceRow
from .store import Store, damaged


class StoreTraces:
    """The entries of the stored traces: the number of each one's changes, and the sizes of its entries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stored: dict[str, tuple[int, EntrySizes]] = {}

    def read(self) -> Traces:
        """Return the traces as they were committed last. Raises StreamError where they are damaged."""
        found: dict[str, OpenTrace] = {}
        try:
            for trace_id, entries in self._store.traces().items():
                found[trace_id], sizes = decode_trace(entries)
                self._stored[trace_id] = len(entries) - 1, sizes
        except DAMAGES:
            raise damaged() from None
        return Traces(dict(sorted(found.items(), key=lambda item: (item[1].touched, item[0]))))

    def rows(self, writes: TraceWrites) -> dict[str, TraceRow | None]:
        """Return the row that brings each changed trace up to date, None for a forgotten trace."""
        rows: dict[str, TraceRow | None] = {}
        for trace_id, changes in writes.changes.items():
            opened = writes.opened[trace_id]
            if opened is None:
                rows[trace_id] = None
                continue
            count, sizes = self._stored.get(trace_id, (0, None))
            entry = next_entry(opened, changes, sizes)
            number = 0 if entry.is_whole else count + 1
            rows[trace_id] = TraceRow(opened.touched, number, entry.data, entry.sizes)
        return rows

    def apply(self, rows: Mapping[str, TraceRow | None]) -> None:
        """Follow rows that were committed."""
        for trace_id, row in rows.items():
            if row is None:
                self._stored.pop(trace_id, None)
            else:
                self._stored[trace_id] = row.number, row.sizes
