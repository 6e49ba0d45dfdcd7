"""`tracline explain`: a session as a timeline, with the status of each part of the rules at every event."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from ...options import Command, Instant, RuleSelection, format_option, selected_rules_options
from ...rejected import report_rejected
from ...source import allow_rejected_option, audit_options, chat_options, sources_argument, timezone_option


@click.command("explain", cls=Command)
@sources_argument("source", "ARCHIVE")
@selected_rules_options()
@click.option("--session", required=True, metavar="ID", help="The session.")
@click.option(
    "--rule", metavar="RULE", help="Explain this rule, by id or pack/id, whether it applies or not."
)
@click.option("--at", type=int, metavar="T", help="Show the status of each part at step T only.")
@click.option("--all", "every", is_flag=True, help="Show every part of a rule, at every step.")
@click.option("--as-of", type=Instant(), metavar="TIME", help="Explain what an audit as of this time judges.")
@timezone_option()
@chat_options()
@allow_rejected_option()
@format_option("table", "json")
def command(
    source: tuple[str, ...],
    selection: RuleSelection,
    session: str,
    rule: str | None,
    at: int | None,
    every: bool,
    as_of: int | None,
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Explain the verdicts on a session: at each event the verdict, and the status of each part of a rule.

    ARCHIVE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps, or
    several of them, read as by `tracline audit`. Without --rule the output has every rule that applies to the
    session.

    A part is active, satisfied, inactive or violated from an event on, or open: the session goes on, and its
    coming events decide. A rule has a step for each event that it sees. The table has the parts that decide,
    at the steps that matter to them; `>` marks those that break the rule. With --all it has every part and
    step, and `>` marks the steps at which a part becomes active or violated.
    """
    from ....batch.sources.discover import Population
    from ....batch.survey.explained import check_step, explained_session, only_rule

    rule_set = selection.load() if rule is None else only_rule(selection.load(), rule)
    options, population = audit_options(timezone, as_of=as_of), Population()
    with tempfile.TemporaryDirectory() as scratch:
        found = explained_session(
            source, session, Path(scratch), population, options, rule_set, every_rule=rule is not None
        )
        occurrences = list(found)
    if at is not None:
        check_step(occurrences, at)
    if format == "json":
        from ...render.explanation import explanation_json

        for each in occurrences:
            click.echo(json.dumps(explanation_json(each, at)))
    else:
        from ...render.explanation import print_explanation

        print_explanation(occurrences, at, every=every)
    report_rejected(population.rejects, population.rejected, source, allow_rejected)
