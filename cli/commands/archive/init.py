"""`tracline init`: a rule pack to begin with, from the tools and agents that a source shows."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import click

from ...error import command_error
from ...options import Command, note
from ...source import allow_rejected_option, report_rejected, timezone_option
from ...terminal import clean

PARENT = "customer-service"
"""The shipped pack that is extended: the one whose propositions name tools."""


@click.command("init", cls=Command)
@click.argument("source")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="PACK",
    help="The file to write; the pack is named after it.",
)
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@timezone_option()
@allow_rejected_option()
def command(source: str, out: Path, force: bool, timezone: str, allow_rejected: int) -> None:
    """Write a rule pack to begin with, from what the sessions of a source show.

    SOURCE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps. The
    pack extends customer-service: where that names tools, the source's own are suggested, by their names and
    arguments. Rules that need tools which were not seen are left out. Comments say what was seen, why
    each tool is suggested, and how many sessions each rule would flag today. Everything is to be confirmed.

    \b
        tracline init logs/ --out rules/desk.yaml
        tracline check rules/desk.yaml
    """
    from ....batch.importing.run import zone_of
    from ....batch.prepare.options import AuditOptions
    from ....batch.survey.starter import counted_today, draft, found_today, judge_draft, pack_text_of
    from ....batch.survey.usage import usage
    from ...settings import session_settings

    if out.exists() and not force:
        raise command_error(
            "TRL607", str(out), "is there already", "name another file, or replace it: --force"
        )
    sessions = session_settings()
    terms = AuditOptions(zone=zone_of(timezone), idle_s=sessions.idle_s, scope=sessions.scope)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "usage").mkdir()
        note("looking at the sessions")
        found = usage(source, scratch / "usage", terms)
        report_rejected(found.population.rejects, found.population.rejected, source, allow_rejected)
        if not found.events:
            hint = (
                "name chat logs, spans or an archive with conversations; tracline doctor says what spans lack"
            )
            raise command_error("TRL608", source, "holds no event", hint)
        made = draft(_name(out), PARENT, found)
        note("judging them by the rules that apply")
        counted, outcome, rules = judge_draft(source, pack_text_of(made, found, {}, {}), scratch, terms)
    text = pack_text_of(made, found, counted_today(counted), found_today(outcome, rules, found))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    guessed = sum(bool(one.guessed) for one in made.suggestions)
    click.echo(f"{clean(str(out))} extends {PARENT}: {len(made.rules)} rules, {len(made.dropped)} left out")
    click.echo(
        f"{len(made.suggestions)} propositions name your tools, {guessed} of them by a guess: confirm each"
    )


def _name(out: Path) -> str:
    """Return the pack's name: the file's, as far as it can be one."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", out.name.partition(".")[0]).strip("-._")
    return name[:100] or "desk"
