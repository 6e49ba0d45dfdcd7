"""`tracline doctor`: which instrumentations sent spans, what each lacks, and the setting that mends it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import Command, format_option, token_option
from ...source import allow_rejected_option, report_rejected
from ...terminal import clean, plain_console

if TYPE_CHECKING:
    from ....schemas.instrumentations.lacks import Diagnosed

ADDRESSES = ("http://", "https://")
SCOPE_WIDTH = 60
VERSION_WIDTH = 20


@click.command("doctor", cls=Command)
@click.argument("source")
@token_option("What a running `tracline serve` asks its readers for.")
@allow_rejected_option()
@format_option("table", "json")
def command(source: str, token: str | None, allow_rejected: int, format: str) -> None:
    """Say which instrumentations sent spans, what each lacks, and what mends it.

    SOURCE is a file, a folder or a quoted glob of OpenTelemetry span dumps, or the address of a running
    `tracline serve`, such as http://127.0.0.1:4318, which says what has come since it started. Exits 1 where
    something lacks. docs/spans.md explains what lacks may be called.
    """
    if source.startswith(ADDRESSES):
        from ...doctor_client import ask_doctor

        found = ask_doctor(source, token)
        _write(found, format)
    else:
        found = _of_files(source, format, allow_rejected)
    if any(one.lacks for one in found):
        click.get_current_context().exit(1)


def _of_files(source: str, format: str, allow_rejected: int) -> list[Diagnosed]:
    """Write and return the instrumentations of dumps. Raises CommandError where too much cannot be read."""
    from ....batch.prepare.options import AuditOptions
    from ....batch.sources.discover import Population
    from ....batch.survey.doctor import diagnose
    from ...settings import session_settings

    sessions, population = session_settings(), Population()
    with tempfile.TemporaryDirectory(prefix="tracline-doctor-") as scratch:
        terms = AuditOptions(idle_s=sessions.idle_s, scope=sessions.scope)
        found = diagnose(source, Path(scratch), population, terms)
    _write(found, format)
    report_rejected(population.rejects, dict(sorted(population.rejected.items())), source, allow_rejected)
    return found


def _write(found: Sequence[Diagnosed], format: str) -> None:
    """Write the instrumentations to standard output."""
    if format == "json":
        from ....schemas.instrumentations.lacks import as_json

        click.echo(json.dumps([as_json(one) for one in found], indent=2))
    else:
        _print(found)


def _print(found: Sequence[Diagnosed]) -> None:
    """Print a table of the instrumentations, and below it what mends what they lack."""
    from rich.table import Table

    console = plain_console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("instrumentation", "version"):
        table.add_column(name, no_wrap=True)
    for name in ("spans", "events"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("lacks")
    for one in found:
        lacks = ", ".join(one.lacks) or "nothing"
        version = clean(one.version, VERSION_WIDTH) or "·"
        table.add_row(_name(one.scope), version, f"{one.spans:,}", f"{one.events:,}", lacks)
    console.print(table)
    for one in found:
        if one.lacks:
            click.echo(f"\n{_name(one.scope)} {clean(one.version, VERSION_WIDTH)}".rstrip())
            for line in one.setting.splitlines():
                click.echo(f"  {clean(line)}")


def _name(scope: str) -> str:
    """Return a scope's name as tables show it."""
    return clean(scope, SCOPE_WIDTH) or "(no name)"
