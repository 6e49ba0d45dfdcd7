"""`tracline audit`: judge an archive by rules, and write a bundle of verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....schemas.verdict import Severity
from ...options import Command, RuleSelection, format_option, note, out_option, selected_rules_options
from ...progress import progress_bar
from ...rejected import report_rejected
from ...source import allow_empty_option, allow_rejected_option, named, sources_argument
from ...terminal import clean, quoted
from ...unread import report_empty, report_unread
from ..evidence.signing import SigningOptions, signing_options
from ..predict.reading import note_without_risk, predict_errors
from .accepting import (
    AcceptingOptions,
    accepted_findings,
    accepting_options,
    report_changed_rules,
    report_waivers,
)
from .failing import FailingOptions, failing_options, failing_rules
from .judging import JudgingOptions, judging_options
from .night import NightOptions, night_options
from .output import write_results
from .predicting import PredictOptions, predict_options
from .tolerated_rates import notes_on_history

if TYPE_CHECKING:
    from ....batch.attestation.attest import Attesting
    from ....batch.audit.audit import AuditResult
    from ....predict.following.followed_chain import FollowedChain


@click.command("audit", cls=Command)
@sources_argument("archive", "ARCHIVE")
@selected_rules_options(required=False)
@click.option(
    "--as-judged",
    is_flag=True,
    help="Judge each event by the rules that judged it live, from the archive.",
)
@out_option("BUNDLE", "The folder for the bundle; an existing bundle is replaced.")
@failing_options()
@accepting_options()
@night_options()
@predict_options()
@allow_rejected_option()
@allow_empty_option()
@judging_options()
@signing_options()
@click.option(
    "--timestamp",
    metavar="URL",
    help="Have a timestamp authority (RFC 3161) stamp the signature; requires --key.",
)
@format_option("table", "json", "jsonl", "junit", "sarif")
def command(
    archive: tuple[str, ...],
    selection: RuleSelection,
    as_judged: bool,
    out: Path,
    failing: FailingOptions,
    accepting: AcceptingOptions,
    night: NightOptions,
    predicting: PredictOptions,
    allow_rejected: int,
    allow_empty: bool,
    judging: JudgingOptions,
    signing: SigningOptions,
    timestamp: str | None,
    format: str,
) -> None:
    """Judge an archive by rule packs and write a bundle of verdicts.

    ARCHIVE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps; the
    latter two are read as by `tracline import`. Several are read as one. The bundle contains verdicts.jsonl,
    verdicts.parquet, summary.json and the rules. Sessions that span --since or --until are judged whole.

    Archives of `tracline serve` and `tracline stream archive` contain the rules that were active: --as-judged
    judges by these rules and their changes instead of --rules.
    """
    _check(selection, as_judged)
    failing.check()
    night.check()
    predicting.check()
    judging.set_threads()
    rates, known = failing.rates(), accepting.known()
    attesting = replace(signing.attesting(timestamp), previous=night.chained())
    result = _judged(
        archive, None if as_judged else selection, out, judging, accepting, night, attesting, predicting
    )
    accepted = accepted_findings(result, out, known) | failing.accepted(result.summary, rates)
    write_results(result, selection.rules, out, format, accepted, Severity(failing.min_severity), known)
    report_waivers(result)
    if known is not None:
        report_changed_rules(result, known)
    code = _report(result, archive, allow_rejected, allow_empty=allow_empty)
    _report_chains(result.chains)
    if judging.since is not None or judging.until is not None:
        _report_window(result.summary["population"], archive)
    if code:
        click.get_current_context().exit(code)
    if rates is not None:
        for key, reason in accepted.items():
            note(quoted(f"{key}: {reason}"))
        for text in notes_on_history(rates, result.summary, failing.severity, judging.since, judging.until):
            note(clean(text))
    if failing.fail_on is not None and failing_rules(result.summary, accepted):
        click.get_current_context().exit(1)


CHAIN_CHARS = 16
"""Characters of a chain's digest that a note has."""


def _check(selection: RuleSelection, as_judged: bool) -> None:
    """Raise a usage error unless either `--rules` or `--as-judged` names the rules."""
    if as_judged and selection.rules:
        raise click.UsageError("--as-judged and --rules exclude each other.")
    if as_judged and selection.is_given:
        raise click.UsageError("--as-judged takes all active rules: omit --select and --ignore.")
    if not as_judged and not selection.rules:
        ctx = click.get_current_context()
        raise click.MissingParameter(ctx=ctx, param_hint="'--rules'", param_type="option")


def _judged(
    archive: Sequence[str],
    selection: RuleSelection | None,
    out: Path,
    judging: JudgingOptions,
    accepting: AcceptingOptions,
    night: NightOptions,
    attesting: Attesting,
    predicting: PredictOptions,
) -> AuditResult:
    """Judge the archive by the selected rules, or by those that judged it live, and write the bundle."""
    from ....batch.audit.as_judged import audit_as_judged
    from ....batch.audit.audit import audit

    rule_set = None if selection is None else selection.load()
    options = replace(judging.audit_options(), **accepting.audit_options)
    chain = None if rule_set is None else predicting.chain(rule_set)
    options = night.audit_options(archive, options, as_judged=rule_set is None)
    followed: list[FollowedChain] = []
    with progress_bar() as on_progress:
        if rule_set is None:
            with predict_errors():
                follow = predicting.follow(followed)
                result = audit_as_judged(archive, out, options, on_progress, attesting, follow)
        else:
            result = audit(archive, rule_set, out, options, on_progress, attesting, chain)
    note_without_risk(followed)
    return result


def _report(result: AuditResult, archive: Sequence[str], allow_rejected: int, *, allow_empty: bool) -> int:
    """Report on standard error what the audit could not read, and return the exit code for it.

    Raises CommandError (TRL603) if more was rejected than is allowed.
    """
    population = result.summary["population"]
    records = population["log_records"]
    rows = population["rows"] + population["spans"] + records["content"] + records["unlinked"]
    report_empty(rows + population["rejected"], archive)
    spans, events = result.population.census, population["events"]
    code = report_unread(spans, events, archive, allow_empty=allow_empty)
    report_rejected(result.population.rejects, population["rejected_by_reason"], archive, allow_rejected)
    return code


def _report_window(population: Mapping[str, Any], archive: Sequence[str]) -> None:
    """Report that no session of a source with events lies between `--since` and `--until`."""
    if population["rows"] and not population["sessions"]:
        hint = "sessions without times lie in no period after 1970"
        note(f"{named(archive)}: no session lies between --since and --until; {hint}")


def _report_chains(chains: Mapping[str | None, int]) -> None:
    """Report the learned chains that the archive names and that the audit did not follow."""
    named_chains = sorted((chain, count) for chain, count in chains.items() if chain is not None)
    counts = [f"{chain[:CHAIN_CHARS]} followed {count:,} events" for chain, count in named_chains]
    if chains.get(None):
        counts.append(f"no chain followed {chains[None]:,} events")
    if counts:
        hint = ": give the chain with --predict for its risks" if named_chains else ""
        note(clean(f"live, {', '.join(counts)}{hint}"))
