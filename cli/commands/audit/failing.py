"""The rules that make an audit fail: severities, and tolerated rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....predict.binomial import lower_limit
from ....schemas.verdict import Severity
from ...error import coded_error

if TYPE_CHECKING:
    from ....stream.alerts.rates import Rates, RuleRates

CONFIDENCE = 0.95
"""The confidence of the lower limit of a rate: it exceeds the true rate in at most one of twenty audits."""


def read_rates(path: Path) -> Rates:
    """Return the rates in a file. Raises CommandError (TRL762) if they are damaged, and OSError."""
    from ....stream.alerts.rates import decode
    from ....stream.error import StreamError

    try:
        return decode(path.read_bytes())
    except StreamError as error:
        raise coded_error(error.code, str(path), str(error), error.hint) from error


def accepted_rules(
    summary: Mapping[str, Any], fail_on: Severity | None, rates: Rates | None
) -> dict[str, str]:
    """Return why broken rules do not make the audit fail, by the rules' names in the summary.

    Without `fail_on` no rule is accepted. With `rates` a rule fails only where the lower limit of an agent's
    rate exceeds the tolerated one. A rule that the rates lack tolerates nothing.
    """
    if fail_on is None:
        return {}
    tolerated = {} if rates is None else {(rule.pack, rule.rule): rule for rule in rates.rules}
    found: dict[str, str] = {}
    for key, rule in summary["rules"].items():
        if not rule["violations"] + rule["unmet"]:
            continue
        known = tolerated.get((rule["pack"], rule["id"]))
        if Severity(rule["severity"]).rank < fail_on.rank:
            found[key] = f"below --fail-on {fail_on.value}"
        elif known is not None and not any(limit > rate for _, limit, rate in _limits(rule, known)):
            found[key] = f"within the tolerated rate{_described(rule, known)}"
    return found


def failing_rules(summary: Mapping[str, Any], accepted: Mapping[str, str]) -> list[str]:
    """Return the names of the broken rules that are not accepted."""
    return [
        key
        for key, rule in summary["rules"].items()
        if rule["violations"] + rule["unmet"] and key not in accepted
    ]


def _limits(rule: Mapping[str, Any], known: RuleRates) -> Iterator[tuple[str, float, float]]:
    """Yield each agent that broke the rule, the lower limit of its rate, and the tolerated rate."""
    for agent, counts in rule["by_agent"].items():
        violating = counts["sessions_violating"]
        # In sessions that were not judged to the end, the rule may hold: with all of them the rate is least.
        possible = counts.get("sessions_possible", counts["sessions_unjudged"])
        sessions = counts["sessions_applicable"] + possible
        if violating:
            limit = lower_limit(violating, sessions, CONFIDENCE)
            yield agent, limit, known.agents.get(agent, known.rest).tolerated


def _described(rule: Mapping[str, Any], known: RuleRates) -> str:
    """Return the agent's rate that is nearest to its tolerated one, in words."""
    limits = sorted(_limits(rule, known), key=lambda found: found[1] - found[2])
    if not limits:
        return ""
    _, limit, tolerated = limits[-1]
    return f": at least {limit:.2%} of the sessions, {tolerated:.2%} tolerated"
