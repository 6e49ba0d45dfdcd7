"""The options of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo

from ...schemas.chat.reading import AS_LOGGED, ChatReading
from ..waivers.waiver import WaiverFile


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options for reading and judging a source; times are nanoseconds since the epoch.

    Reading: `zone` is that of times in chat logs without one, `chat` has the other options for chat logs;
    `scope` are the resource attributes that prefix a span's session id. Both: `idle_s` seconds without an
    event close a session; rows after `as_of`, and spans that end later, are ignored. Judging: verdicts before
    `since` or from `until` on are omitted; `satisfied` adds satisfied and held verdicts. The report: `seed`
    chooses the sessions without a violation that it draws, and `with_text` adds the texts of drawn events.
    `waivers` are in force at `as_of`, or at `waivers_at` where that is None.

    With `previous_as_of`, the audit covers the sessions that closed after that time and not after `as_of`,
    which must be given. `files` are the names of the inputs that are read, None for all.
    """

    since: int | None = None
    until: int | None = None
    as_of: int | None = None
    satisfied: bool = False
    idle_s: float = 3600.0
    scope: tuple[str, ...] = ()
    zone: tzinfo = UTC
    chat: ChatReading = AS_LOGGED
    threads: int = 1
    seed: int = 0
    with_text: bool = False
    waivers: WaiverFile | None = None
    waivers_at: int | None = None
    previous_as_of: int | None = None
    files: frozenset[str] | None = None

    def __post_init__(self) -> None:
        assert self.previous_as_of is None or self.as_of is not None, "a night ends at a time"
        assert self.waivers is None or self.waivers_in_force, "waivers are in force at a time"

    @property
    def waivers_in_force(self) -> tuple[WaiverFile, int] | None:
        """Return the waivers and the time at which they are in force, None without waivers."""
        at = self.waivers_at if self.as_of is None else self.as_of
        return None if self.waivers is None or at is None else (self.waivers, at)

    @property
    def waivers_in_force_at(self) -> int | None:
        """Return the time at which the waivers are in force, None without waivers."""
        return None if self.waivers_in_force is None else self.waivers_in_force[1]


ALLOCATOR = "_RJEM_MALLOC_CONF"
"""The environment variable from which Polars' allocator reads its settings on the first import."""


def allocator_settings(threads: int) -> str:
    """Return settings by which Polars' allocator uses freed pages again instead of returning them at once.

    By default it returns them after half a second, and the system clears each page that it gives out. Few
    arenas, so that threads find pages that other threads freed.
    """
    return f"narenas:{max(1, threads // 2)},dirty_decay_ms:10000,muzzy_decay_ms:0"
