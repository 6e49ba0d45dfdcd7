"""`tracline report`: draw a bundle's report again or as PDF, list its findings, or compare two bundles."""

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
@click.option(
    "--pdf",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report as PDF to this file instead, outside of the bundle; requires the extra `pdf`.",
)
def command(bundle: Path, as_csv: bool, earlier: Path | None, pdf: Path | None) -> None:
    """Draw report.html of BUNDLE again, from the other files of the bundle alone.

    The report is a single page without scripts that opens from disk: what was audited, the rate of each rule
    with its interval, the worst sessions and a sample of clean ones as timelines, and how to re-perform the
    audit. The same bundle and version of tracline give the same bytes. Where the attestation states other
    bytes, as for a bundle of another version, nothing is written.
    """
    given = [name for name, value in (("csv", as_csv), ("compare", earlier), ("pdf", pdf)) if value]
    if len(given) > 1:
        raise click.UsageError(f"--{given[0]} and --{given[1]} exclude each other.")
    if as_csv:
        from ....batch.report.findings_table import write_findings

        write_findings(bundle, sys.stdout)
    elif earlier is not None:
        from ....batch.report.comparison import compare_bundles
        from ...render.comparison import comparison_lines

        for line in comparison_lines(compare_bundles(earlier, bundle)):
            click.echo(line)
    elif pdf is not None:
        from ....batch.report.pdf import write_pdf

        write_pdf(bundle, pdf)
        click.echo(pdf)
    else:
        from ....batch.report.page import REPORT
        from ....batch.verification.redrawn import redraw_report

        redraw_report(bundle)
        click.echo(bundle / REPORT)
