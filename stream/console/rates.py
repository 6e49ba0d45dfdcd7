"""Rates over time: sessions that violate a rule, of those to which it applies, hour by hour of event time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...schemas.time import NS

HOUR = 3600 * NS


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Sessions of one rule, agent (`""`: none named) and bucket: applicable, violating, unjudged."""

    pack: str
    rule: str
    agent: str
    bucket: int
    applicable: int
    violating: int
    unjudged: int


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of event time in whole hours: `hours` buckets from `since` (ns)."""

    since: int
    hours: int

    @property
    def until(self) -> int:
        """Return where it ends (ns)."""
        return self.since + self.hours * HOUR

    def begins(self, bucket: int) -> int:
        """When a bucket begins (ns)."""
        return self.since + bucket * HOUR


@dataclass(frozen=True, slots=True)
class Share:
    """Sessions that violate, of those to which a rule applies and which could be judged; and the unjudged."""

    violating: int = 0
    applicable: int = 0
    unjudged: int = 0

    @property
    def rate(self) -> float | None:
        """The share, None where there is nothing to divide by."""
        return self.violating / self.applicable if self.applicable else None

    def __add__(self, other: Share) -> Share:
        return Share(
            self.violating + other.violating,
            self.applicable + other.applicable,
            self.unjudged + other.unjudged,
        )


@dataclass(frozen=True, slots=True)
class Series:
    """A rate over a window: one share per hour, and their sum."""

    window: Window
    hours: tuple[Share, ...]
    total: Share


def window_to(watermark: int, hours: int) -> Window:
    """The window of whole hours whose last holds the watermark."""
    return Window((watermark // HOUR - hours + 1) * HOUR, hours)


def series(tallies: Iterable[SessionCounts], window: Window) -> Series:
    """The tallies summed hour by hour."""
    shares = [Share()] * window.hours
    for tally in tallies:
        if 0 <= tally.bucket < window.hours:
            shares[tally.bucket] += Share(tally.violating, tally.applicable, tally.unjudged)
    return Series(window, tuple(shares), sum(shares, Share()))
