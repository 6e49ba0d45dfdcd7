"""What a rule has come to in a session: what alerts count, and what a session's close ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
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
class Status:
    """That an occurrence has come to a standing; `time` is that of the last event judged by then.

    `pack`, `rule`, `rule_digest` and `severity` are None where the occurrence closed.
    """

    status: Standing
    session_id: str
    occurrence: int
    pack: str | None
    rule: str | None
    rule_digest: str | None
    severity: str | None
    agent: str | None
    time: int
