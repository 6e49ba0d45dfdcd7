"""The results of `tracline audit` on standard output, in each format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import note
from ...rule_mistakes import rule_mistake_lines

if TYPE_CHECKING:
    from ....batch.audit.audit import AuditResult
    from ....batch.findings.baseline import Baseline
    from ....schemas.verdict import Severity


def write_results(
    result: AuditResult,
    packs: Sequence[str],
    out: Path,
    format: str,
    accepted: Mapping[str, str],
    min_severity: Severity,
    known: Baseline | None = None,
) -> None:
    """Write the results to standard output, and likely mistakes that these lack on standard error."""
    if format == "table":
        from ...render.table import print_table

        print_table(result, out)
        return
    for chunk in _chunks(result, packs, out, format, accepted, min_severity, known):
        click.echo(chunk)
    if format != "json":
        for line in rule_mistake_lines(result.summary, suggested=True):
            note(line)


def _chunks(
    result: AuditResult,
    packs: Sequence[str],
    out: Path,
    format: str,
    accepted: Mapping[str, str],
    min_severity: Severity,
    known: Baseline | None,
) -> Iterable[str]:
    """Return the text of the results in a format for programs, in chunks."""
    if format == "junit":
        from ...render.junit import junit

        return [junit(result.summary, result.examples, accepted, min_severity)]
    from ....batch.evidence.bundle import VERDICTS, read_verdicts

    if format == "sarif":
        from ....batch.findings.waiving import read_waived
        from ...render.rule_places import rule_places
        from ...render.sarif import ComparedBaseline, sarif

        places = rule_places(packs, out, result.summary)
        compared = None if known is None else ComparedBaseline(known.has, partial(known.vanished, out))
        waived = {each.id: each for each in read_waived(out)}
        verdicts = partial(read_verdicts, out / VERDICTS)
        return sarif(result.summary, verdicts, places, min_severity, waived, compared)
    from ...render.json import json_text, lines

    verdicts = read_verdicts(out / VERDICTS)
    return json_text(result.summary, verdicts) if format == "json" else lines(verdicts)
