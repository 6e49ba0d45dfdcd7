"""The states of sessions: in the store, with those touched last in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...schemas.sessions.assemble import SessionAssembler
from ..messages.session_state import SessionState, decode
from .store import Store

STATES_CACHED_MAX = 20_000
"""Sessions whose state stays in memory, too."""


class SessionStates:
    """The states of a store's sessions. A session is idle, and closes, after `idle` nanoseconds."""

    def __init__(self, store: Store, idle: int) -> None:
        self._store, self._idle = store, idle
        self._cached: dict[str, SessionState] = {}

    def touched(self, session_ids: Iterable[str], watermark: int) -> list[str]:
        """Return these sessions and those that are due at the watermark, in order."""
        return sorted({*session_ids, *(session_id for session_id, _ in self._store.due(watermark))})

    def take(self, session_id: str) -> SessionState:
        """Return a session's state, which the caller owns: it is in memory no more."""
        state = self._cached.pop(session_id, None)
        return state or self._decoded(session_id, self._store.session(session_id))

    def remember(self, states: Mapping[str, SessionState]) -> None:
        """Hold these states in memory, in place of those touched least recently."""
        for session_id, state in states.items():
            self._cached.pop(session_id, None)
            if state.session.due is not None:
                self._cached[session_id] = state
        while len(self._cached) > STATES_CACHED_MAX:
            del self._cached[next(iter(self._cached))]

    def clear(self) -> None:
        """Drop all states in memory: the store has what was committed."""
        self._cached.clear()

    def _decoded(self, session_id: str, data: bytes | None) -> SessionState:
        return SessionState(SessionAssembler(session_id, self._idle)) if data is None else decode(data)
