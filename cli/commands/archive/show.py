"""`tracline show`: the sessions and events of a source, as an audit judges them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import Command, format_option, load_selected, note, rules_option, selection_options
from ...source import allow_rejected_option, audit_options, chat_options, report_rejected, timezone_option
from ..audit.audit import Instant

if TYPE_CHECKING:
    from ....batch.prepare.options import AuditOptions
    from ....batch.sources.discover import Population
    from ....batch.survey.sessions import SessionView
    from ....rules.model.rule import RuleSet

JUDGED_NOTE = "these events were judged before they were archived; claims dropped at that time are not listed"


@click.command("show", cls=Command)
@click.argument("source")
@click.option("--session", metavar="ID", help="Show the events of this session.")
@rules_option(required=False)
@selection_options()
@click.option("--repeats", is_flag=True, help="With --session: also show dropped claims, and the reason.")
@click.option("--as-of", type=Instant(), metavar="TIME", help="Show what an audit as of this time judges.")
@timezone_option()
@chat_options()
@allow_rejected_option()
@format_option("table", "json")
def command(
    source: str,
    session: str | None,
    rules: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    repeats: bool,
    as_of: int | None,
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Show the sessions of a source, or the events of one, as an audit judges them.

    SOURCE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps, read
    as by `tracline audit`. With --rules the output includes the verdicts of an audit by these rules.

    With --session the output has a line for each event, in judged order, with its spans and its content.
    """
    if repeats and session is None:
        raise click.UsageError("--repeats requires --session.")
    from ....batch.sources.discover import Population

    rule_set = load_selected(rules, select, ignore) if rules else None
    options = audit_options(timezone, as_of=as_of)
    population = Population()
    with tempfile.TemporaryDirectory() as scratch:
        if session is None:
            _list(source, Path(scratch), population, options, rule_set, format)
        else:
            from ....batch.survey.sessions import session as session_of

            view = session_of(source, session, Path(scratch), population, options, rule_set, repeats=repeats)
            _show(view, format)
            if repeats and view.was_judged:
                note(JUDGED_NOTE)
    report_rejected(population.rejects, population.rejected, source, allow_rejected)


def _list(
    source: str,
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
            shown = asdict(line)
            if rule_set is None:
                del shown["verdicts"]
            click.echo(json.dumps(shown))
        return
    from ...render.session import print_sessions

    print_sessions(found)


def _show(view: SessionView, format: str) -> None:
    """Write the events of a session, then its dropped claims."""
    if format == "json":
        for row in (*view.events, *view.dropped):
            click.echo(json.dumps(row))
        return
    from ...render.session import print_session

    print_session(view)
