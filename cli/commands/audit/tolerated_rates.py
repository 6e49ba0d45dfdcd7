"""Notes on tolerated rates whose history is short, or is the audited one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ....archive.writer import UNKNOWN_DAY
from ....batch.report.figures import wilson
from ....schemas.time import NS, parse_time
from ....schemas.verdict import Severity

if TYPE_CHECKING:
    from ....stream.alerts.rates import Rate, Rates

LEARNED_MIN = 100
"""Sessions below which the history of a rate is short: an interval of 95 % is then often 10 points wide."""
_DAY = 86_400 * NS


def notes_on_history(
    rates: Rates, summary: Mapping[str, Any], fail_on: Severity, since: int | None, until: int | None
) -> Iterator[str]:
    """Yield notes on the history of the tolerated rates with which broken rules are compared.

    `since` and `until` are the bounds of the audited sessions.
    """
    if _overlaps(rates, summary["population"]["sessions_by_day"], since, until):
        history = f"the rates were learned from {rates.since} to {rates.until}"
        yield f"{history}, which overlaps the audited sessions: they tolerate what they were learned from"
    known = {(rule.pack, rule.rule): rule for rule in rates.rules}
    for key, rule in summary["rules"].items():
        learned = known.get((rule["pack"], rule["id"]))
        if learned is None or Severity(rule["severity"]).rank < fail_on.rank:
            continue
        for agent, counts in rule["by_agent"].items():
            rate = learned.agents.get(agent, learned.rest)
            if counts["sessions_violating"] and rate.applicable < LEARNED_MIN:
                yield f"{key}: {_short(agent, rate)}"


def _short(agent: str, rate: Rate) -> str:
    """Return the note on a rate with a short history."""
    named = f" of agent {agent}" if agent else ""
    if not rate.applicable:
        return f"the tolerated rate, {rate.tolerated:.2%}, was learned from no session{named}"
    low, high = wilson(rate.violating, rate.applicable)
    sessions = "1 session" if rate.applicable == 1 else f"{rate.applicable:,} sessions"
    return (
        f"the tolerated rate, {rate.tolerated:.2%}, was learned from {sessions}{named}; "
        f"the interval of their rate is {low:.1%} to {high:.1%}"
    )


def _overlaps(rates: Rates, sessions_by_day: Mapping[str, Any], since: int | None, until: int | None) -> bool:
    """Return whether audited sessions may begin in the time that the rates were learned from, by days."""
    days = [day for day in sessions_by_day if day != UNKNOWN_DAY]
    first, last = parse_time(rates.since), parse_time(rates.until)
    if not days or first is None or last is None:
        return False
    bounds = [parse_time(f"{day}T00:00") for day in (min(days), max(days))]
    begin, end = (bound for bound in bounds if bound is not None)
    begin = begin if since is None else max(begin, since)
    end = end + _DAY if until is None else min(end + _DAY, until)
    return begin <= last and first < end
