"""Decoded states of sessions in memory, each beside the record that it is the content of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...schemas.sessions.assemble import SessionAssembler
from ..messages.session_state import SessionState

STATES_CACHED_MAX = 20_000
"""Sessions whose state the cache has."""


class StoredSession(NamedTuple):
    """A session's record, and its chunks. A record names its pages, which never change."""

    record: bytes
    chunks: Sequence[bytes | None]


class SessionCache:
    """The states that were written last. A session is idle, and closes, after `idle` nanoseconds."""

    def __init__(self, idle: int) -> None:
        self._idle = idle
        self._cached: dict[str, tuple[StoredSession, SessionState]] = {}

    def empty(self, session_id: str) -> SessionState:
        """Return the state of a session that has no record."""
        return SessionState(SessionAssembler(session_id, self._idle))

    def take(
        self,
        session_id: str,
        stored: StoredSession | None,
        decode: Callable[[bytes, Sequence[bytes | None]], SessionState],
    ) -> SessionState:
        """Return the state in a session's record; the caller owns it, and the cache has it no more.

        `decode` returns the state in a record and its chunks, where the cache does not have their content.
        """
        cached = self._cached.pop(session_id, None)
        if stored is None:
            return self.empty(session_id)
        return cached[1] if cached is not None and cached[0] == stored else decode(*stored)

    def put(self, states: Mapping[str, tuple[StoredSession, SessionState]]) -> None:
        """Hold states with their records, in place of those that were put first."""
        self._cached.update(states)
        while len(self._cached) > STATES_CACHED_MAX:
            del self._cached[next(iter(self._cached))]
