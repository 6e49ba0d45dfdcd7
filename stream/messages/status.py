"""Changes of sessions' status: what alerts count."""

from __future__ import annotations

from dataclasses import dataclass, field
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


class SessionCount(StrEnum):
    """A count of a rule's sessions, from which the bounds of its rate follow."""

    SESSIONS = "sessions"
    """Sessions to which the rule applies, or may apply: the denominator of both bounds."""
    VIOLATING = "violating"
    """Sessions that violate the rule."""
    POSSIBLE = "possible"
    """Sessions in which the rule could not be judged to the end, and that had not violated it before."""


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A change of an occurrence's status; `time` is that of its last judged event.

    `pack`, `rule`, `rule_digest` and `severity` are None where the occurrence closed. `missing` is the state
    of the content that an unjudged rule lacks (`absent`, `truncated` or `redacted`), None if it is unjudged
    for another reason. `previous` is the rule's latest status before, for metrics; no message has it.
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
    missing: str | None = None
    previous: SessionStatus | None = field(default=None, compare=False)

    @property
    def counts(self) -> tuple[SessionCount, ...]:
        """Return the counts of the rule's sessions that grow by this change."""
        sessions = () if self.previous is not None else (SessionCount.SESSIONS,)
        match self.status:
            case SessionStatus.APPLIED:
                return sessions
            case SessionStatus.VIOLATED:
                return *sessions, SessionCount.VIOLATING
            case SessionStatus.UNJUDGED if self.previous is not SessionStatus.VIOLATED:
                return *sessions, SessionCount.POSSIBLE
            case _:
                return ()


def as_json(change: StatusChange) -> dict[str, object]:
    """Return the change as JSON; it has `missing` only where content is missing."""
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
        **({} if change.missing is None else {"missing": change.missing}),
    }


_instant = lru_cache(maxsize=4096)(rfc3339)
"""Many changes share their times: all rules that begin to apply to an occurrence."""
