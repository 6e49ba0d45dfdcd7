"""Rates as small bar charts: the bars, and their text alternative."""

from __future__ import annotations

from dataclasses import dataclass

from ...schemas.records.violation_rate import ViolationRate
from .formatting import clock, day, number
from .rates import HOUR, Series

RATE_TOP_MIN = 0.1
"""The least rate at the top of a chart, so that one session in many does not look like many."""


@dataclass(frozen=True, slots=True)
class Bar:
    """An hour: its certain rate above the middle line, its number of sessions below."""

    x: float
    width: float
    y: float
    height: float
    base: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars in a box: `top` is the rate at its upper edge, `most` the number of sessions at its lower.

    `ticks` are positions along it with their labels; `words` are the text alternative.
    """

    width: int
    height: int
    middle: int
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    top: float
    most: int
    words: str


def chart(series: Series, width: int, height: int) -> Chart:
    """Return the chart of a rate over its window."""
    hours, window = series.hours, series.window
    top = max([rate.low or 0.0 for rate in hours] + [RATE_TOP_MIN])
    most = max([rate.sessions for rate in hours] + [1])
    middle = round(height * 0.72)
    step = width / window.hours
    bars = tuple(
        Bar(
            x=round(place * step, 2),
            width=round(max(step - 1, step * 0.7), 2),
            y=round(middle * (1 - (rate.low or 0.0) / top), 2),
            height=round(middle * (rate.low or 0.0) / top, 2),
            base=round((height - middle - 1) * rate.sessions / most, 2),
        )
        for place, rate in enumerate(hours)
        if rate.sessions
    )
    every = window.hours // 6
    ticks = tuple(
        (round(place * step, 2), _tick(window.begins(place)))
        for place in range(window.hours)
        if window.begins(place) // HOUR % every == 0
    )
    return Chart(width, height, middle, bars, ticks, top, most, _words(series))


def _tick(ns: int) -> str:
    """Return the time of day, and the day at midnight."""
    return clock(ns) if ns % (24 * HOUR) else day(ns)[5:]


def _words(series: Series) -> str:
    total = series.total
    if not total.sessions:
        return "the rule applied to no session"
    words = f"{_in_words(total)} in {series.window.hours} hours"
    place, highest = max(enumerate(series.hours), key=lambda hour: (hour[1].low or 0.0, hour[1].sessions))
    if not highest.violating:
        return words
    begins = series.window.begins(place)
    return f"{words}; highest {_in_words(highest)} from {day(begins)} {clock(begins)} UTC"


def _in_words(rate: ViolationRate) -> str:
    return f"{rate.percent}, {number(rate.violating)} of {number(rate.sessions)} sessions,"
