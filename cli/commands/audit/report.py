"""`tracline report`: draw the report of a bundle again, list its findings, or compare it with another."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...options import Command

_BUNDLE = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("report", cls=Command)
@click.argument("bundle", type=_BUNDLE)
@click.option("--csv", "as_csv", is_flag=True, help="Write the findings as CSV to standard output instead.")
@click.option(
    "--compare",
    "earlier",
    type=_BUNDLE,
    metavar="OTHER",
    help="Show instead what changed since the bundle OTHER: population, rates, violations.",
)
def command(bundle: Path, as_csv: bool, earlier: Path | None) -> None:
    """Draw report.html of BUNDLE again, from the other files of the bundle alone.

    The report is a single page without scripts that opens from disk: what was audited, the rate of each rule
    with its interval, the worst sessions and a sample of clean ones as timelines, and how to re-perform the
    audit. The same bundle and version of tracline give the same bytes. Where the attestation states other
    bytes, as for a bundle of another version, nothing is written.
    """
    if as_csv and earlier is not None:
        raise click.UsageError("--csv and --compare exclude each other.")
    if as_csv:
        from ....batch.report.findings_table import write_findings

        write_findings(bundle, sys.stdout)
    elif earlier is not None:
        from ....batch.report.comparison import compare_bundles
        from ...render.comparison import comparison_lines

        for line in comparison_lines(compare_bundles(earlier, bundle)):
            click.echo(line)
    else:
        from ....batch.report.page import REPORT
        from ....batch.verification.redrawn import redraw_report

        redraw_report(bundle)
        click.echo(bundle / REPORT)
