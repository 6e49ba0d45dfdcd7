"""The tolerated rates of `--tolerate`: read, compared with those of an audit, and notes on their history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....predict.binomial import lower_limit
from ....schemas.records.violation_rate import rate_of
from ....schemas.time import NS, parse_time
from ....schemas.verdict import Severity
from ...error import coded_error

if TYPE_CHECKING:
    from ....stream.alerts.rates import Rate, Rates, RuleRates

CONFIDENCE = 0.95
"""The confidence of the lower limit of a rate: it exceeds the true rate in at most one of twenty audits."""
LEARNED_MIN = 100
"""Sessions below which the history of a rate is short: an interval of 95 % is then often 10 points wide."""
_DAY = 86_400 * NS


def read_rates(path: Path) -> Rates:
    """Return the rates in a file. Raises CommandError (TRL762) if they are damaged, and OSError."""
    from ....stream.alerts.rates import decode
    from ....stream.error import StreamError

    try:
        return decode(path.read_bytes())
    except StreamError as error:
        raise coded_error(error.code, str(path), str(error), error.hint) from error


def is_tolerated(rule: Mapping[str, Any], known: RuleRates) -> bool:
    """Return whether no agent's rate in an audit exceeds the tolerated one for certain."""
    return all(limit <= tolerated for limit, tolerated in _limits(rule, known))


def described(rule: Mapping[str, Any], known: RuleRates) -> str:
    """Return the agent's rate that is nearest to its tolerated one, in words."""
    limits = sorted(_limits(rule, known), key=lambda found: found[0] - found[1])
    if not limits:
        return ""
    limit, tolerated = limits[-1]
    return f": at least {limit:.2%} of the sessions, {tolerated:.2%} tolerated"


def _limits(rule: Mapping[str, Any], known: RuleRates) -> Iterator[tuple[float, float]]:
    """Yield for each agent that broke the rule the lower limit of its rate, and the tolerated rate."""
    for agent, counts in rule["by_agent"].items():
        rate = rate_of(counts)
        if rate.violating:
            # With all sessions in which the rule was not judged to the end, the rate is least.
            limit = lower_limit(rate.violating, rate.sessions, CONFIDENCE)
            yield limit, known.agents.get(agent, known.rest).tolerated


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
    from ....batch.report.figures import wilson

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
    from ....archive.writer import UNKNOWN_DAY

    days = [day for day in sessions_by_day if day != UNKNOWN_DAY]
    first, last = parse_time(rates.since), parse_time(rates.until)
    if not days or first is None or last is None:
        return False
    bounds = [parse_time(f"{day}T00:00") for day in (min(days), max(days))]
    begin, end = (bound for bound in bounds if bound is not None)
    begin = begin if since is None else max(begin, since)
    end = end + _DAY if until is None else min(end + _DAY, until)
    return begin <= last and first < end
