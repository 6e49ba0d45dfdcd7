"""Verdicts of rules on sessions."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The verdict of a rule's machine after an event, or at the close of a session.

    The first three are the three values of LTL3 (Bauer, Leucker and Schallhart, 2006), as TRAC reports
    them after each event. `HELD` and `UNMET` are the finite-trace reading of what was still pending when
    the session closed. `UNJUDGED` means that something the rule needs was not captured.
    """

    PENDING = "pending"
    SATISFIED = "satisfied"
    VIOLATED = "violated"
    HELD = "held"
    UNMET = "unmet"
    UNJUDGED = "unjudged"


BREACHES = (Verdict.VIOLATED, Verdict.UNMET)
"""The verdicts that break a rule."""


class Severity(StrEnum):
    """The severity of a violation, least first."""

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
    """The verdicts after which an instance restarts: both (TRAC_R), violations only, or none (TRAC)."""

    BOTH = "both"
    VIOLATION = "violation"
    NONE = "none"


class Unknown(StrEnum):
    """The treatment of an unknown proposition.

    A rule that follows continues with every run that some completion of the unknown propositions allows. A
    rule that stops is unjudged from there on.
    """

    FOLLOW = "follow"
    STOP = "stop"
