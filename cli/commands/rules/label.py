"""`tracline label`: show how often each proposition is true, with sample events."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import Command, RuleSelection, Several, format_option, grouped_options, selected_rules_options
from ...rejected import report_rejected
from ...source import allow_rejected_option, audit_options, chat_options, sources_argument, timezone_option

if TYPE_CHECKING:
    from ....batch.audit.proposition_counts import Census
    from ....rules.model.rule import RuleSet


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """The propositions that `tracline label` counts, and the events that it shows of each."""

    only: tuple[str, ...]
    samples: int
    seed: int | None
    show_matches: bool
    missed: str | None
    where: str | None

    def check(self) -> None:
        """Raise a usage error if the options contradict each other."""
        if self.where is not None and self.missed is None:
            raise click.UsageError("--where requires --missed.")
        if self.missed is not None and self.only:
            raise click.UsageError("--missed and --only exclude each other.")

    def census(self, rule_set: RuleSet) -> Census:
        """Return what to count. Raises a usage error for a name of no proposition, and RuleError."""
        from ....batch.audit.proposition_counts import Census
        from ....batch.audit.proposition_samples import Sampling
        from ....rules.language.parse import parse_predicate

        is_missed = self.missed is not None
        names = self.only if self.missed is None else [self.missed]
        return Census(
            only=_named(rule_set, "--missed" if is_missed else "--only", names) if names else None,
            sampling=Sampling(self.samples, 0 if self.seed is None and is_missed else self.seed),
            missed=is_missed,
            where=None if self.where is None else parse_predicate(self.where),
        )


def _sample_options() -> Callable[[F], F]:
    """Return the options from `--only` to `--where`: the SampleOptions `wanted`."""
    return grouped_options(
        "wanted",
        SampleOptions,
        click.option("--only", cls=Several, metavar="NAME", help="Count and show only these propositions."),
        click.option(
            "--samples",
            type=click.IntRange(min=0),
            default=3,
            show_default=True,
            metavar="N",
            help="The number of sample events of each proposition, each from another session.",
        ),
        click.option("--seed", type=int, metavar="S", help="Draw the samples at random, with this seed."),
        click.option(
            "--around-match",
            "show_matches",
            is_flag=True,
            help="Show what a search matches, marked, with text beside it.",
        ),
        click.option(
            "--missed",
            metavar="NAME",
            help="Show events at which this proposition is false, drawn at random.",
        ),
        click.option(
            "--where", metavar="PREDICATE", help="With --missed: only events that meet this condition."
        ),
    )


@click.command("label", cls=Command)
@sources_argument("archive", "ARCHIVE")
@selected_rules_options()
@_sample_options()
@timezone_option()
@chat_options()
@allow_rejected_option()
@format_option("table", "json")
def command(
    archive: tuple[str, ...],
    selection: RuleSelection,
    wanted: SampleOptions,
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Show how often each proposition is true, with sample events.

    ARCHIVE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps. A
    proposition is unknown at events that lack a field which it reads. Samples show the content of events, the
    first ones in ARCHIVE unless --seed draws them.

    --missed shows events at which a proposition is false, to find those that it should have recognised:
    by default those that meet its conditions on kind, tool and sub-agents.
    """
    wanted.check()
    from ....batch.audit.proposition_counts import census

    rule_set, options = selection.load(), audit_options(timezone)
    with tempfile.TemporaryDirectory() as scratch:
        counted = census(archive, rule_set, Path(scratch), options, wanted.census(rule_set))
    from ...render.propositions import census_data, print_census

    if format == "json":
        click.echo(
            json.dumps(census_data(counted, show_matches=wanted.show_matches), indent=2, ensure_ascii=False)
        )
    else:
        print_census(counted, show_matches=wanted.show_matches)
    population = counted.population
    report_rejected(population.rejects, population.rejected, archive, allow_rejected)


def _named(rule_set: RuleSet, option: str, names: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return the propositions with these names (`name` or `pack/name`)."""
    from difflib import get_close_matches

    known = {(rule.pack, name) for rule in rule_set.rules for name in rule.propositions}
    found: set[tuple[str, str]] = set()
    for wanted in names:
        chosen = {(pack, name) for pack, name in known if wanted in (name, f"{pack}/{name}")}
        if not chosen:
            near = get_close_matches(wanted, sorted(name for _, name in known), n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"{option}: no rule uses a proposition named {wanted!r}.{hint}")
        found |= chosen
    return frozenset(found)
