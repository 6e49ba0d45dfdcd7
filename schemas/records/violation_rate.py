"""The rate of sessions that violate a rule, or its bounds where sessions are not judged to the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DECIMALS = 9
"""Decimals of a rate in JSON."""


@dataclass(frozen=True, slots=True)
class ViolationRate:
    """The sessions of a rule, each in one count: `violating`, `clear`, `possible` or `uncertain`.

    `clear` sessions are those to which the rule applies and that do not violate it. `possible` sessions have
    no violation, but the rule was not judged in them to the end: each may violate the rule or not.
    `uncertain` sessions do not violate it, and what was not captured decides whether it applies to them.
    """

    violating: int = 0
    clear: int = 0
    possible: int = 0
    uncertain: int = 0

    @property
    def sessions(self) -> int:
        """Return the number of sessions to which the rule may apply, the denominator of the lower bound."""
        return self.violating + self.clear + self.possible + self.uncertain

    @property
    def low(self) -> float | None:
        """Return the rate if it applies to all and no possible session violates it; None without sessions."""
        return self.violating / self.sessions if self.sessions else None

    @property
    def high(self) -> float | None:
        """Return the rate if it applies to no uncertain session and all possible ones violate it, or None."""
        if not self.sessions:
            return None
        certain = self.sessions - self.uncertain
        return (self.violating + self.possible) / certain if certain else 0.0

    @property
    def percent(self) -> str:
        """Return `10.0%`, or `10.0% to 100.0%` where the bounds differ; a dash without sessions."""
        if self.low is None or self.high is None:
            return "–"
        return f"{self.low:.1%} to {self.high:.1%}" if self.low < self.high else f"{self.low:.1%}"

    @property
    def counted(self) -> str:
        """Return `1 of 10`, or `1 of 10, 8 not judged to the end, 1 to which it may not apply`."""
        rest = f", {self.possible:,} not judged to the end" if self.possible else ""
        rest += f", {self.uncertain:,} to which it may not apply" if self.uncertain else ""
        return f"{self.violating:,} of {self.sessions:,}{rest}"

    @property
    def described(self) -> str:
        """Return the counts with the rate: `1 of 10, 9 not judged to the end: 10.0% to 100.0%`."""
        return f"{self.counted}: {self.percent}"

    def __add__(self, rate: ViolationRate) -> ViolationRate:
        """Return the rate of the sessions of both."""
        return ViolationRate(
            self.violating + rate.violating,
            self.clear + rate.clear,
            self.possible + rate.possible,
            self.uncertain + rate.uncertain,
        )

    def as_json(self) -> dict[str, float] | None:
        """Return the bounds as JSON, null without sessions."""
        if self.low is None or self.high is None:
            return None
        return {"low": round(self.low, DECIMALS), "high": round(self.high, DECIMALS)}


def rate_of(counts: Mapping[str, int]) -> ViolationRate:
    """Return the rate of a rule, or of its part, from its counts in `summary.json`."""
    violating = counts["sessions_violating"]
    clear = counts["sessions_applicable"] - violating
    # Summaries of early releases lack these counts.
    unknown = counts.get("sessions_possible", 0), counts.get("sessions_uncertain", 0)
    return ViolationRate(violating, clear, *unknown)
