"""The rules that make an audit fail: the options for severities and tolerated rates, and what they accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ....schemas.verdict import Severity
from ...error import coded_error
from ...options import grouped_options
from .tolerated_rates import described, is_tolerated, read_rates

if TYPE_CHECKING:
    from ....stream.alerts.rates import Rates

_UNLEARNED_HINT = "learn rates with `tracline alerts rates` from logs with times, or leave --tolerate out"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FailingOptions:
    """The options for which broken rules make an audit fail, and which rules SARIF and JUnit have."""

    fail_on: str | None
    tolerate: Path | None
    min_severity: str

    def check(self) -> None:
        """Raise a usage error if the options contradict each other."""
        if self.tolerate is not None and self.fail_on is None:
            raise click.UsageError("--tolerate requires --fail-on.")

    @property
    def severity(self) -> Severity:
        """Return the least severity that fails; without `--fail-on` all do."""
        return Severity.INFO if self.fail_on is None else Severity(self.fail_on)

    def rates(self) -> Rates | None:
        """Return the tolerated rates, which are those of at least one rule.

        Raises CommandError (TRL762) if they are damaged or of no rule, and OSError.
        """
        if self.tolerate is None:
            return None
        rates = read_rates(self.tolerate)
        if not rates.rules:
            what = "no rule has a tolerated rate: the rates were learned from no session with times"
            raise coded_error("TRL762", str(self.tolerate), what, _UNLEARNED_HINT)
        return rates

    def accepted(self, summary: Mapping[str, Any], rates: Rates | None) -> dict[str, str]:
        """Return why broken rules do not make the audit fail, by the rules' names in the summary."""
        return {} if self.fail_on is None else _accepted_rules(summary, self.severity, rates)


def failing_options() -> Callable[[F], F]:
    """Return the options `--fail-on`, `--tolerate` and `--min-severity`: the FailingOptions `failing`."""
    severities = click.Choice([severity.value for severity in Severity])
    return grouped_options(
        "failing",
        FailingOptions,
        click.option(
            "--fail-on", type=severities, help="Exit 1 if a rule of at least this severity is broken."
        ),
        click.option(
            "--tolerate",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE",
            help="With --fail-on: exit 1 only for rates above these, of `tracline alerts rates`.",
        ),
        click.option(
            "--min-severity",
            type=severities,
            default=Severity.INFO.value,
            show_default=True,
            help="The least severity of the rules in SARIF and JUnit.",
        ),
    )


def _accepted_rules(summary: Mapping[str, Any], fail_on: Severity, rates: Rates | None) -> dict[str, str]:
    """Return why broken rules do not make the audit fail, by the rules' names in the summary.

    With `rates` a rule fails only where the lower limit of an agent's rate exceeds the tolerated one. A rule
    that the rates lack tolerates nothing.
    """
    tolerated = {} if rates is None else {(rule.pack, rule.rule): rule for rule in rates.rules}
    found: dict[str, str] = {}
    for key, rule in summary["rules"].items():
        if not rule["violations"] + rule["unmet"]:
            continue
        known = tolerated.get((rule["pack"], rule["id"]))
        if Severity(rule["severity"]).rank < fail_on.rank:
            found[key] = f"below --fail-on {fail_on.value}"
        elif known is not None and is_tolerated(rule, known):
            found[key] = f"within the tolerated rate{described(rule, known)}"
    return found


def failing_rules(summary: Mapping[str, Any], accepted: Mapping[str, str]) -> list[str]:
    """Return the names of the broken rules that are not accepted."""
    return [
        key
        for key, rule in summary["rules"].items()
        if rule["violations"] + rule["unmet"] and key not in accepted
    ]
