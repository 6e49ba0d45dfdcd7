"""`tracline init`: a first rule pack for the tools and agents of a source."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import click

from ...error import command_error
from ...options import Command, note
from ...output_file import require_new
from ...rejected import report_rejected
from ...source import (
    allow_rejected_option,
    audit_options,
    chat_options,
    named,
    sources_argument,
    timezone_option,
)
from ...terminal import clean

PARENT = "customer-service"
"""The shipped pack to extend: its propositions name tools."""


@click.command("init", cls=Command)
@sources_argument("source", "SOURCE")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="PACK",
    help="The file to write; the pack is named after it.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@timezone_option()
@chat_options()
@allow_rejected_option()
def command(source: tuple[str, ...], out: Path, force: bool, timezone: str, allow_rejected: int) -> None:
    """Write a first rule pack for the tools and agents of a source.

    SOURCE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps, or
    several of them. The pack extends customer-service and replaces its tools by tools of the source with
    similar names and arguments. It drops rules whose tools the source does not use. Comments list the tools
    of the source, the reason for each suggestion, and the sessions that each rule flags today. Confirm every
    line.

    \b
        tracline init logs/ --out rules/desk.yaml
        tracline check rules/desk.yaml
    """
    from ....batch.survey.starter import counted_today, draft, found_today, judge_draft, pack_text_of
    from ....batch.survey.usage import usage

    if not force:
        require_new(out, what="file exists", hint="choose another file, or use --force to replace it")
    options = audit_options(timezone)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "usage").mkdir()
        note("reading the sessions")
        found = usage(source, scratch / "usage", options)
        report_rejected(found.population.rejects, found.population.rejected, source, allow_rejected)
        if not found.events:
            hint = "choose a source with conversations; `tracline doctor` lists what spans lack"
            raise command_error("TRL608", named(source), "no events", hint)
        made = draft(_name(out), PARENT, found)
        note("judging them by the rules")
        counted, result, rules = judge_draft(source, pack_text_of(made, found, {}, {}), scratch, options)
    text = pack_text_of(made, found, counted_today(counted), found_today(result, rules, found))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    guessed = sum(bool(suggestion.guessed) for suggestion in made.suggestions)
    click.echo(f"{clean(str(out))} extends {PARENT}: {len(made.rules)} rules, {len(made.dropped)} dropped")
    click.echo(
        f"{len(made.suggestions)} propositions name your tools, {guessed} of them guessed: confirm each"
    )


def _name(out: Path) -> str:
    """Return the pack's name: the file's name without invalid characters."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", out.name.partition(".")[0]).strip("-._")
    return name[:100] or "desk"
