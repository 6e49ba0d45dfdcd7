"""The figures of a report: rates with intervals, trends by day, and rates by agent and by model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...archive.writer import UNKNOWN_DAY
from ...schemas.records.violation_rate import ViolationRate, rate_of

AGENTS_MAX, MODELS_MAX = 50, 20
"""Agents, and models, of a rule that a report shows: those with the most sessions."""
DAYS_MAX = 92
"""Days of a trend that a report draws, the last ones."""
_Z = 1.959963984540054
"""The quantile of the normal distribution for an interval of 95 %."""


def wilson(count: int, total: int) -> tuple[float, float]:
    """Return the Wilson score interval of a share, of 95 %; `total` is at least 1."""
    share, spread = count / total, _Z * _Z / total
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def interval(rate: ViolationRate) -> str:
    """Return the interval of a rate as text; with bounds it reaches from the low one's to the high one's."""
    if not rate.sessions:
        return "–"
    low, _ = wilson(rate.violating, rate.sessions)
    certain = rate.sessions - rate.uncertain
    # No session shows anything where the rule may apply to none.
    high = wilson(rate.violating + rate.possible, certain)[1] if certain else 1.0
    return f"{low:.1%} to {high:.1%}"


@dataclass(frozen=True, slots=True)
class DayRate:
    """The rate of a rule on a day."""

    day: str
    rate: ViolationRate


@dataclass(frozen=True, slots=True)
class NamedRate:
    """The rate of a rule with an agent or a model; the name is empty where no event names one."""

    name: str
    rate: ViolationRate


@dataclass(frozen=True, slots=True)
class NamedRates:
    """The rates of a rule by agent or by model, those with the most sessions; `cut` are left out."""

    title: str
    rates: tuple[NamedRate, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """A rule of the summary with its rate, its trend, and its rates by agent and by model.

    `formula` is None where the bundle's packs do not have the rule.
    """

    key: str
    entry: Mapping[str, Any]
    formula: str | None
    rate: ViolationRate
    days: tuple[DayRate, ...]
    days_cut: int
    groups: tuple[NamedRates, ...]

    @property
    def interval(self) -> str:
        """Return the Wilson interval of the rate."""
        return interval(self.rate)


def rule_figures(key: str, entry: Mapping[str, Any], formula: str | None) -> RuleFigures:
    """Return the figures of a rule from its entry in the summary."""
    dated = {day: counts for day, counts in entry["by_day"].items() if day != UNKNOWN_DAY}
    days = [DayRate(day, rate_of(counts)) for day, counts in sorted(dated.items())]
    return RuleFigures(
        key=key,
        entry=entry,
        formula=formula,
        rate=rate_of(entry),
        days=tuple(days[-DAYS_MAX:]),
        days_cut=max(0, len(days) - DAYS_MAX),
        groups=(
            _named_rates("Agent", entry["by_agent"], AGENTS_MAX),
            # Summaries of early releases have no models.
            _named_rates("Model", entry.get("by_model", {}), MODELS_MAX),
        ),
    )


def without_rates(group: NamedRates) -> NamedRates:
    """Return the group with all its rates left out."""
    return NamedRates(group.title, (), group.cut + len(group.rates))


def _named_rates(title: str, by_name: Mapping[str, Mapping[str, int]], most: int) -> NamedRates:
    rates = [NamedRate(name, rate_of(counts)) for name, counts in by_name.items()]
    rates.sort(key=lambda each: (-each.rate.sessions, each.name))
    return NamedRates(title, tuple(rates[:most]), max(0, len(rates) - most))
