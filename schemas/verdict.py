"""Verdicts: what a rule says of a session."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What a rule's machine says after an event, or at the close of a session.

    The first three are the three values of LTL3 (Bauer, Leucker and Schallhart, 2006), as TRAC reports
    them after each event. `HELD` and `UNMET` are the finite-trace reading of what was still pending when
    the session closed. `UNJUDGED` says that something the rule asks about was not captured.
    """

    PENDING = "pending"
    SATISFIED = "satisfied"
    VIOLATED = "violated"
    HELD = "held"
    UNMET = "unmet"
    UNJUDGED = "unjudged"


class Severity(StrEnum):
    """How much a violation matters, least first."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Return the place in the order from `info` (0) to `critical` (4)."""
        return list(Severity).index(self)


class Recover(StrEnum):
    """When an instance begins anew: TRAC_R, after violations only, or never (TRAC)."""

    BOTH = "both"
    VIOLATION = "violation"
    NONE = "none"
