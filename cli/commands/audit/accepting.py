"""The findings that an audit accepts: the options for waivers and for the baseline of known findings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import grouped_options, note
from ...terminal import quoted

if TYPE_CHECKING:
    from ....batch.audit.audit import AuditResult
    from ....batch.findings.baseline import Baseline
    from ....batch.waivers.waiver import WaiverFile

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class AcceptingOptions:
    """The file of waivers, and the bundle whose findings are known."""

    waivers: Path | None
    baseline: Path | None

    def waiver_file(self) -> WaiverFile | None:
        """Return the waivers. Raises RuleError for mistakes in the file, and OSError."""
        from ....batch.waivers.waiver_file import read_waivers

        return None if self.waivers is None else read_waivers(self.waivers.read_bytes(), str(self.waivers))

    def known(self) -> Baseline | None:
        """Return the findings of the baseline. Raises SourceError (TRL440) if it is no bundle."""
        from ....batch.findings.baseline import read_baseline

        if self.baseline is None:
            return None
        known = read_baseline(self.baseline)
        click.get_current_context().call_on_close(known.close)
        return known

    @property
    def audit_options(self) -> dict[str, Any]:
        """Return the options of the audit on waivers, which are in force now unless it is as of a time."""
        file = self.waiver_file()
        return {} if file is None else {"waivers": file, "waivers_at": time.time_ns()}


def accepting_options() -> Callable[[F], F]:
    """Return the options `--waivers` and `--baseline`: the AcceptingOptions `accepting`."""
    return grouped_options(
        "accepting",
        AcceptingOptions,
        click.option(
            "--waivers",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE",
            help="Accept the findings that this file names, until a day; they do not count for --fail-on.",
        ),
        click.option(
            "--baseline",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            metavar="BUNDLE",
            help="With --fail-on: exit 1 only for findings that this bundle does not have.",
        ),
    )


def accepted_findings(result: AuditResult, out: Path, known: Baseline | None) -> dict[str, str]:
    """Return the broken rules without a finding that remains, by their names in the summary, and why."""
    from ....batch.findings.baseline import remaining_findings

    if result.waived is None and known is None:
        return {}
    remaining = remaining_findings(out, known)
    found: dict[str, str] = {}
    for key, rule in result.summary["rules"].items():
        count = rule["violations"] + rule["unmet"]
        if count and not remaining[rule["pack"], rule["id"]]:
            found[key] = "waived" if rule.get("waived") == count else "waived or in the baseline"
    return found


def report_waivers(result: AuditResult) -> None:
    """Report on standard error the waivers that have expired, and those that match no finding."""
    if result.waived is None:
        return
    for waiver in result.waived.expired:
        note(quoted(f"--waivers: waiver {waiver.place} expired after {waiver.until}: {waiver.reason}"))
    for waiver in result.waived.unmatched:
        note(quoted(f"--waivers: waiver {waiver.place} matches no finding: {waiver.reason}"))


def report_changed_rules(result: AuditResult, known: Baseline) -> None:
    """Report the broken rules that judge otherwise than in the baseline: all their findings are new."""
    for key, rule in result.summary["rules"].items():
        former = known.rules.get((rule["pack"], rule["id"]))
        if rule["violations"] + rule["unmet"] and former not in (None, rule["rule_digest"]):
            note(quoted(f"--baseline: {key} has changed since, so all its findings are new"))
