"""What an audit depends on beside the archive and the rules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How a source is read and judged; times in nanoseconds since the epoch.

    Reading: `zone` is that of times in chat logs without one, `scope` the resource attributes that go before
    a span's session id. Both: `idle_s` seconds without an event close a session; `as_of` is the time as of
    which all is judged, so that later rows are not looked at, nor spans that end later. Judging: verdicts
    outside `since` and `until` are left out, `satisfied` asks for satisfied and held ones, too.
    """

    since: int | None = None
    until: int | None = None
    as_of: int | None = None
    satisfied: bool = False
    idle_s: float = 3600.0
    scope: tuple[str, ...] = ()
    zone: tzinfo = UTC
    threads: int = 1
