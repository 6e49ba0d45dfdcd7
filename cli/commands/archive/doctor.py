"""`tracline doctor`: instrumentations that sent spans, what each lacks, and the setting that adds it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import Command, format_option, token_option
from ...rejected import report_rejected
from ...source import allow_rejected_option, audit_options, sources_argument
from ...terminal import clean, plain_console

if TYPE_CHECKING:
    from ....schemas.instrumentations.lacks import Diagnosed

ADDRESSES = ("http://", "https://")
SCOPE_WIDTH = 60
VERSION_WIDTH = 20


@click.command("doctor", cls=Command)
@sources_argument("source", "SOURCE")
@token_option("The bearer token of the running `tracline serve`.")
@allow_rejected_option()
@format_option("table", "json")
def command(source: tuple[str, ...], token: str | None, allow_rejected: int, format: str) -> None:
    """List the instrumentations that sent spans, what each lacks, and the settings that add it.

    SOURCE is a file, a folder or a quoted glob of OpenTelemetry span dumps, or several of them, or the
    address of a running `tracline serve`, such as http://127.0.0.1:4318, which reports the spans since its
    start. Exits 1 if an instrumentation lacks something. docs/spans.md explains each lack.
    """
    addresses = [each for each in source if each.startswith(ADDRESSES)]
    if addresses:
        if len(source) > 1:
            raise click.UsageError("The address of a running `tracline serve` is asked alone.")
        from ...doctor_client import ask_doctor

        found = ask_doctor(addresses[0], token)
        _write(found, format)
    else:
        found = _of_files(source, format, allow_rejected)
    if any(scope.lacks for scope in found):
        click.get_current_context().exit(1)


def _of_files(source: tuple[str, ...], format: str, allow_rejected: int) -> list[Diagnosed]:
    """Write and return the instrumentations of dumps. Raises CommandError if there are too many rejects."""
    from ....batch.sources.discover import Population
    from ....batch.survey.doctor import diagnose

    population = Population()
    with tempfile.TemporaryDirectory(prefix="tracline-doctor-") as scratch:
        found = diagnose(source, Path(scratch), population, audit_options())
    _write(found, format)
    report_rejected(population.rejects, dict(sorted(population.rejected.items())), source, allow_rejected)
    return found


def _write(found: Sequence[Diagnosed], format: str) -> None:
    """Write the instrumentations to standard output."""
    if format == "json":
        from ....schemas.instrumentations.lacks import as_json

        click.echo(json.dumps([as_json(scope) for scope in found], indent=2))
    else:
        _print(found)


def _print(found: Sequence[Diagnosed]) -> None:
    """Print the instrumentations as a table, and below it the settings that add what they lack."""
    from rich.table import Table

    console = plain_console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("instrumentation", "version"):
        table.add_column(name, no_wrap=True)
    for name in ("spans", "events"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("lacks")
    for scope in found:
        lacks = ", ".join(scope.lacks) or "nothing"
        version = clean(scope.version, VERSION_WIDTH) or "·"
        table.add_row(_name(scope.scope), version, f"{scope.spans:,}", f"{scope.events:,}", lacks)
    console.print(table)
    for scope in found:
        if scope.lacks:
            click.echo(f"\n{_name(scope.scope)} {clean(scope.version, VERSION_WIDTH)}".rstrip())
            for line in scope.setting.splitlines():
                click.echo(f"  {clean(line)}")


def _name(scope: str) -> str:
    """Return the name of a scope for display."""
    return clean(scope, SCOPE_WIDTH) or "(no name)"
