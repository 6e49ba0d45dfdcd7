"""The sessions of a store: their states, and when each of them is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..messages.session_state import SessionState, decode
from ..stages.schedule import Schedule
from ..stages.session_cache import SessionCache
from .store import SessionRow, Store


class StoreSessions:
    """The sessions of a store. A session is idle, and closes, after `idle` nanoseconds."""

    def __init__(self, store: Store, idle: int) -> None:
        self._store, self._cache, self._schedule = store, SessionCache(idle), Schedule()
        for session_id, due in store.schedule():
            self._schedule.plan(session_id, due)

    def touched(self, session_ids: Iterable[str], watermark: int) -> list[str]:
        """Return these sessions and those that are due at the watermark, in order."""
        return sorted({*session_ids, *self._schedule.due_at(watermark)})

    def take(self, session_id: str) -> SessionState:
        """Return a session's state as it was committed last; the caller owns it."""
        return self._cache.take(session_id, self._store.session(session_id), decode)

    def apply(self, rows: Mapping[str, SessionRow | None], states: Mapping[str, SessionState]) -> None:
        """Follow rows that were committed, with the states in them."""
        for session_id, row in rows.items():
            self._schedule.plan(session_id, None if row is None else row.due)
        self._schedule.trim()
        written = {session_id: row.state for session_id, row in rows.items() if row is not None}
        self._cache.put({session_id: (data, states[session_id]) for session_id, data in written.items()})
