"""Rates by hour of event time: sessions that violate a rule, of those to which it applies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...schemas.records.violation_rate import ViolationRate
from ...schemas.time import NS

HOUR = 3600 * NS


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """The sessions of one rule, agent (`""`: not named) and bucket: applicable, violating, unjudged.

    The applicable ones include the violating ones; the unjudged ones have no violation.
    """

    pack: str
    rule: str
    agent: str
    bucket: int
    applicable: int
    violating: int
    unjudged: int


@dataclass(frozen=True, slots=True)
class Window:
    """A window of event time in whole hours: `hours` buckets from `since` (ns)."""

    since: int
    hours: int

    @property
    def until(self) -> int:
        """Return the end of the window (ns)."""
        return self.since + self.hours * HOUR

    def begins(self, bucket: int) -> int:
        """Return the beginning of a bucket (ns)."""
        return self.since + bucket * HOUR


@dataclass(frozen=True, slots=True)
class Series:
    """The rates over a window: one per hour, and that of all sessions."""

    window: Window
    hours: tuple[ViolationRate, ...]
    total: ViolationRate


def window_to(watermark: int, hours: int) -> Window:
    """Return the window of whole hours whose last hour has the watermark."""
    return Window((watermark // HOUR - hours + 1) * HOUR, hours)


def series(counts: Iterable[SessionCounts], window: Window) -> Series:
    """Return the counts added up by hour."""
    rates = [ViolationRate()] * window.hours
    for counted in counts:
        if 0 <= counted.bucket < window.hours:
            clear = counted.applicable - counted.violating
            rates[counted.bucket] += ViolationRate(counted.violating, clear, counted.unjudged)
    return Series(window, tuple(rates), sum(rates, ViolationRate()))
