"""What a rule has come to in a session: what alerts count, and what a session's close ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from ...schemas.time import rfc3339


class SessionStatus(StrEnum):
    """What a rule, or a session, has come to."""

    APPLIED = "applied"
    """The rule has come to apply to the occurrence."""
    VIOLATED = "violated"
    """The occurrence has violated the rule (or left it unmet) for the first time, history aside."""
    UNJUDGED = "unjudged"
    """The rule cannot be judged in the occurrence any more."""
    CLOSED = "closed"
    """The occurrence is over; it says so once, for all rules."""


@dataclass(frozen=True, slots=True)
class StatusChange:
    """That an occurrence has come to a standing; `time` is that of the last event judged by then.

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


def as_json(status: StatusChange) -> dict[str, object]:
    """A status as JSON."""
    return {
        "status": status.status,
        "session_id": status.session_id,
        "occurrence": _instant(status.occurrence),
        "pack": status.pack,
        "rule": status.rule,
        "rule_digest": status.rule_digest,
        "severity": status.severity,
        "agent": status.agent,
        "time": _instant(status.time),
    }


_instant = lru_cache(maxsize=4096)(rfc3339)
"""Every rule says the same times of an occurrence that it has come to apply to."""
