"""`tracline report`: draw the report of a bundle again."""

from __future__ import annotations

from pathlib import Path

import click

from ...options import Command


@click.command("report", cls=Command)
@click.argument("bundle", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(bundle: Path) -> None:
    """Draw report.html of BUNDLE again, from the other files of the bundle alone.

    The report is a single page without scripts that opens from disk: what was audited, the rate of each rule
    with its interval, the worst sessions and a sample of clean ones as timelines, and how to re-perform the
    audit. The same bundle and version of tracline give the same bytes.
    """
    from ....batch.report.page import REPORT, write_report

    write_report(bundle)
    click.echo(bundle / REPORT)
