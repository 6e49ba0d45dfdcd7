"""`tracline show`: the sessions and events of a source, or the findings of a bundle with their events."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import Command, Instant, RuleSelection, format_option, note, selected_rules_options
from ...rejected import report_rejected
from ...source import (
    allow_rejected_option,
    audit_options,
    chat_options,
    named,
    sources_argument,
    timezone_option,
)
from .show_findings import FindingOptions, finding_options, show_findings

if TYPE_CHECKING:
    from ....batch.prepare.options import AuditOptions
    from ....batch.sources.discover import Population
    from ....batch.survey.sessions import SessionView
    from ....rules.model.rule import RuleSet
    from ....schemas.records.verdict_record import VerdictRecord

VERDICT_FIELDS = ("pack", "rule", "verdict", "seq", "event_id", "slice", "history")
"""The fields of a verdict beside a session or an event."""
JUDGED_NOTE = "these events were judged before they were archived; claims dropped at that time are not listed"


@click.command("show", cls=Command)
@sources_argument("source", "SOURCE")
@click.option("--session", metavar="ID", help="Show the events of this session.")
@selected_rules_options(required=False)
@finding_options()
@click.option("--repeats", is_flag=True, help="With --session: also show dropped claims, and the reason.")
@click.option("--as-of", type=Instant(), metavar="TIME", help="Show what an audit as of this time judges.")
@timezone_option()
@chat_options()
@allow_rejected_option()
@format_option("table", "json")
def command(
    source: tuple[str, ...],
    session: str | None,
    selection: RuleSelection,
    wanted: FindingOptions,
    repeats: bool,
    as_of: int | None,
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Show the sessions of a source, or the events of one, as an audit judges them; or findings of a bundle.

    SOURCE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps, or
    several of them, read as by `tracline audit`. With --rules the output includes the verdicts of an audit by
    these rules.

    With --session the output has a line for each event, in judged order, with its spans and its content.

    If SOURCE is a bundle of `tracline audit`, the output has findings, the most severe first: a sentence on
    what broke the rule, and the events of the witness (marked `>`) and those near them, with the propositions
    that were true there. The events come from the audited archive, which must be unchanged.
    """
    from ....batch.findings.audited_archive import is_bundle

    bundles = [Path(each) for each in source if is_bundle(each)]
    if bundles:
        if len(source) > 1:
            raise click.UsageError("A bundle is shown alone.")
        if session is not None or selection.rules or repeats or as_of is not None:
            taken = "--rule, --verdict, --select, --ignore, --sample, --seed and --archive"
            raise click.UsageError(f"A bundle takes {taken}.")
        show_findings(bundles[0], wanted, selection, audit_options(timezone), format)
        return
    if wanted.is_given:
        raise click.UsageError(
            f"--rule, --verdict, --sample and --archive require a bundle of `tracline audit`: {named(source)}"
        )
    if repeats and session is None:
        raise click.UsageError("--repeats requires --session.")
    rule_set = selection.load() if selection.rules else None
    options = audit_options(timezone, as_of=as_of)
    population = _show_source(source, session, options, rule_set, format, repeats=repeats)
    report_rejected(population.rejects, population.rejected, source, allow_rejected)


def _show_source(
    source: tuple[str, ...],
    session: str | None,
    options: AuditOptions,
    rule_set: RuleSet | None,
    format: str,
    *,
    repeats: bool,
) -> Population:
    """Write the sessions of the source, or the events of this session, and return the population."""
    from ....batch.sources.discover import Population

    population = Population()
    with tempfile.TemporaryDirectory() as scratch:
        if session is None:
            _list(source, Path(scratch), population, options, rule_set, format)
            return population
        from ....batch.survey.sessions import session as session_of

        view = session_of(source, session, Path(scratch), population, options, rule_set, repeats=repeats)
        _show(view, format)
    if repeats and view.was_judged:
        note(JUDGED_NOTE)
    return population


def _list(
    source: tuple[str, ...],
    scratch: Path,
    population: Population,
    options: AuditOptions,
    rule_set: RuleSet | None,
    format: str,
) -> None:
    """Write a line for each session."""
    from ....batch.survey.sessions import sessions

    found = sessions(source, scratch, population, options, rule_set)
    if format == "json":
        for line in found:
            shown: dict[str, object] = {**asdict(replace(line, verdicts=None))}
            del shown["verdicts"]
            if line.verdicts is not None:
                shown["verdicts"] = list(map(_shown, line.verdicts))
            click.echo(json.dumps(shown))
        return
    from ...render.session import print_sessions

    print_sessions(found)


def _shown(verdict: VerdictRecord) -> dict[str, object]:
    """Return the fields of a verdict that the JSON has."""
    return {name: getattr(verdict, name) for name in VERDICT_FIELDS}


def _show(view: SessionView, format: str) -> None:
    """Write the events of a session, then its dropped claims."""
    if format == "json":
        for row in (*view.events, *view.dropped):
            click.echo(json.dumps(row, default=_shown))
        return
    from ...render.session import print_session

    print_session(view)
