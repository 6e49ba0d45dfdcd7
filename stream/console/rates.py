"""Rates by hour of event time: sessions that violate a rule, of those to which it applies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...schemas.time import NS

HOUR = 3600 * NS


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """The sessions of one rule, agent (`""`: not named) and bucket: applicable, violating, unjudged."""

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
class Share:
    """The sessions that violate a rule, of those to which it applies, and the unjudged ones."""

    violating: int = 0
    applicable: int = 0
    unjudged: int = 0

    @property
    def rate(self) -> float | None:
        """Return the rate, None without applicable sessions."""
        return self.violating / self.applicable if self.applicable else None

    def __add__(self, share: Share) -> Share:
        return Share(
            self.violating + share.violating,
            self.applicable + share.applicable,
            self.unjudged + share.unjudged,
        )


@dataclass(frozen=True, slots=True)
class Series:
    """The rates over a window: one share per hour, and their sum."""

    window: Window
    hours: tuple[Share, ...]
    total: Share


def window_to(watermark: int, hours: int) -> Window:
    """Return the window of whole hours whose last hour has the watermark."""
    return Window((watermark // HOUR - hours + 1) * HOUR, hours)


def series(counts: Iterable[SessionCounts], window: Window) -> Series:
    """Return the counts added up by hour."""
    shares = [Share()] * window.hours
    for counted in counts:
        if 0 <= counted.bucket < window.hours:
            shares[counted.bucket] += Share(counted.violating, counted.applicable, counted.unjudged)
    return Series(window, tuple(shares), sum(shares, Share()))
