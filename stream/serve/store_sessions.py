"""The sessions of a store: their states with the pages of these, and when each of them is due.

A state that grows with its session is in pages (`schemas/paged/page.py`). A page is a row that is written
once, so that a commit writes only the rest of each state.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...schemas.paged.page import PagePlace
from ..messages.session_state import (
    SessionState,
    decode,
    decode_places,
    encode_places,
    encode_with_places,
    store_pages,
)
from ..stages.schedule import Schedule
from ..stages.session_cache import SessionCache, StoredSession
from .changes import SessionRow
from .store import Store, damaged

PAGE_BYTES_MAX = 1 << 29
"""Bytes of a page; SQLite's rows have at most 1e9."""


class StoreSessions:
    """The sessions of a store. A session is idle, and closes, after `idle` nanoseconds."""

    def __init__(self, store: Store, idle: int) -> None:
        self._store, self._cache, self._schedule = store, SessionCache(idle), Schedule()
        self._places: dict[str, tuple[PagePlace, ...]] = {}
        """The places of the pages of the sessions that were taken, as committed last."""
        self._open = set[str]()
        for session_id, due, is_open in store.schedule():
            self._schedule.plan(session_id, due)
            if is_open:
                self._open.add(session_id)

    @property
    def open_count(self) -> int:
        """Return the number of open sessions."""
        return len(self._open)

    def touched(self, session_ids: Iterable[str], watermark: int) -> list[str]:
        """Return these sessions and those that are due at the watermark, in order."""
        return sorted({*session_ids, *self._schedule.due_at(watermark)})

    def take(self, session_id: str) -> SessionState:
        """Return a session's state as it was committed last; the caller owns it."""
        found = self._store.session(session_id)
        self._places[session_id] = () if found is None else _places_in(found[1])
        stored = None if found is None else StoredSession(found[0], found[1:])
        return self._cache.take(session_id, stored, lambda data, _: self._decoded(session_id, data))

    def rows(self, states: Mapping[str, SessionState]) -> dict[str, SessionRow | None]:
        """Return the rows of sessions that were taken; their new pages are stored with these rows."""
        return {session_id: self._row(session_id, state) for session_id, state in states.items()}

    def apply(self, rows: Mapping[str, SessionRow | None], states: Mapping[str, SessionState]) -> None:
        """Follow rows that were committed, with the states in them."""
        self._places.clear()
        for session_id, row in rows.items():
            self._schedule.plan(session_id, None if row is None else row.due)
            if row is not None and row.is_open:
                self._open.add(session_id)
            else:
                self._open.discard(session_id)
        self._schedule.trim()
        self._cache.put(
            {
                session_id: (StoredSession(row.state, (row.pages,)), states[session_id])
                for session_id, row in rows.items()
                if row is not None
            }
        )

    def _row(self, session_id: str, state: SessionState) -> SessionRow | None:
        session = state.session
        if session.due is None:
            return None
        before = self._places[session_id]
        number = 1 + max((place.offset for place in before), default=0)
        new = store_pages(state, number, bytes, PAGE_BYTES_MAX)
        data, places = encode_with_places(state)
        gone = sorted({*before} - {*places})
        return SessionRow(session.due, session.open is not None, data, encode_places(places), new, gone)

    def _decoded(self, session_id: str, data: bytes) -> SessionState:
        """Return the state of a taken session from its row and its pages."""
        places = self._places[session_id]
        return decode(data, self._pages(session_id, places) if places else ())

    def _pages(self, session_id: str, places: Sequence[PagePlace]) -> list[tuple[PagePlace, bytes]]:
        """Return the pages at these places. Raises StreamError where one is missing or damaged."""
        found = self._store.pages(session_id)
        pages = [(place, found.get(place[:2], b"")) for place in places]
        if any(zlib.crc32(data) != place.crc for place, data in pages):
            raise damaged()
        return pages


def _places_in(data: bytes) -> tuple[PagePlace, ...]:
    """Return the places in a session's row. Raises StreamError where they are damaged."""
    try:
        return decode_places(data)
    except msgspec.MsgspecError:
        raise damaged() from None
