"""`tracline show BUNDLE`: the findings of a bundle with their events."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import RuleSelection, grouped_options, note

if TYPE_CHECKING:
    from ....batch.prepare.options import AuditOptions

UNCHECKED_NOTE = "an early release wrote the bundle: it has no digests to compare the archive with"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FindingOptions:
    """The findings of a bundle that `tracline show` shows; `archive` is the audited archive."""

    rule: str | None
    verdict: str | None
    sample: int | None
    seed: int
    archive: str | None

    @property
    def is_given(self) -> bool:
        """Return whether any option but `--seed` is given."""
        return any(value is not None for value in (self.rule, self.verdict, self.sample, self.archive))


def finding_options() -> Callable[[F], F]:
    """Return the options from `--rule` to `--archive`: the FindingOptions `wanted`."""
    return grouped_options(
        "wanted",
        FindingOptions,
        click.option(
            "--rule", metavar="RULE", help="Of a bundle: show the findings of this rule, by id or pack/id."
        ),
        click.option("--verdict", metavar="ID", help="Of a bundle: show this verdict."),
        click.option(
            "--sample",
            type=click.IntRange(min=1),
            metavar="N",
            help="Of a bundle: show N findings, drawn at random.",
        ),
        click.option(
            "--seed", type=int, default=0, show_default=True, metavar="S", help="The random seed of --sample."
        ),
        click.option(
            "--archive",
            metavar="ARCHIVE",
            help="Of a bundle: the audited archive, if it is not where the bundle names it.",
        ),
    )


def show_findings(
    bundle: Path, wanted: FindingOptions, selection: RuleSelection, options: AuditOptions, format: str
) -> None:
    """Write findings of a bundle with their events."""
    from ....batch.findings.audited_archive import bundle_input
    from ....batch.findings.findings import Wanted, choose, findings

    words = selection.select, selection.ignore
    chosen = choose(bundle, Wanted(wanted.rule, wanted.verdict, wanted.sample, wanted.seed, *words))
    source = bundle_input(bundle, wanted.archive, options)
    if not source.is_checked:
        note(UNCHECKED_NOTE)
    with tempfile.TemporaryDirectory() as scratch:
        found = findings(bundle, source, chosen.records, Path(scratch))
        if format == "json":
            from ...render.finding import finding_data

            for finding in found:
                click.echo(json.dumps(finding_data(finding), ensure_ascii=False))
        else:
            from ...render.finding import print_findings

            print_findings(found)
    note(f"{len(chosen.records):,} of {chosen.of:,} findings")
    if wanted.sample is None and len(chosen.records) < chosen.of:
        note("choose others with --rule, --select, --verdict or --sample")
