"""Changes of sessions' status: what alerts count."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from ...schemas.time import rfc3339


class SessionStatus(StrEnum):
    """The status of a rule in a session, or of the session itself."""

    APPLIED = "applied"
    """The rule begins to apply to the occurrence."""
    VIOLATED = "violated"
    """The occurrence violates the rule, or leaves it unmet, for the first time; history does not count."""
    UNJUDGED = "unjudged"
    """The rule can no longer be judged in the occurrence."""
    CLOSED = "closed"
    """The occurrence has ended: one change for all rules."""


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A change of an occurrence's status; `time` is that of its last judged event.

    `pack`, `rule`, `rule_digest` and `severity` are None where the occurrence closed.
    """

    status: SessionStatus
    session_id: str
    occurrence: int
    pack: str | None
    rule: str | None
    rule_digest: str | None
    severity: str | None
    agent: str | None
    time: int


def as_json(change: StatusChange) -> dict[str, object]:
    """Return the change as JSON."""
    return {
        "status": change.status,
        "session_id": change.session_id,
        "occurrence": _instant(change.occurrence),
        "pack": change.pack,
        "rule": change.rule,
        "rule_digest": change.rule_digest,
        "severity": change.severity,
        "agent": change.agent,
        "time": _instant(change.time),
    }


_instant = lru_cache(maxsize=4096)(rfc3339)
"""Many changes share their times: all rules that begin to apply to an occurrence."""
