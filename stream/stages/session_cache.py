"""Decoded states of sessions in memory, each beside the record that it is the content of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...schemas.sessions.assemble import SessionAssembler
from ..messages.monitor_state import FORGOTTEN, chunk_keys, decode_head, decode_session
from ..messages.session_state import SessionState

STATES_CACHED_MAX = 20_000
"""Sessions whose state the cache has."""


class StoredSession(NamedTuple):
    """A session's record, and its chunks."""

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
        self, session_id: str, partition: int, record: bytes | None, get: Callable[[str], bytes | None]
    ) -> SessionState:
        """Return the state in a session's record; the caller owns it, and the cache has it no more.

        `get` returns the records of the chunks by key. Raises StreamError where the state is damaged.
        """
        cached = self._cached.pop(session_id, None)
        if record is None or (head := decode_head(record)).due == FORGOTTEN:
            return self.empty(session_id)
        stored = StoredSession(record, [get(key) for key in chunk_keys(partition, session_id, head)])
        if cached is not None and cached[0] == stored:
            return cached[1]
        return decode_session(*stored)

    def put(self, states: Mapping[str, tuple[StoredSession, SessionState]]) -> None:
        """Hold states with their records, in place of those that were put first."""
        self._cached.update(states)
        while len(self._cached) > STATES_CACHED_MAX:
            del self._cached[next(iter(self._cached))]
