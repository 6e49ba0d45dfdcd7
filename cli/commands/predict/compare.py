"""`tracline predict compare`: what changed in behaviour between two chains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from ....schemas.verdict import Severity
from ...options import Command, format_option, note
from ...terminal import clean, quoted
from .archive_source import chain_argument

if TYPE_CHECKING:
    from ....batch.prediction.compared import ComparedChains
    from ....predict.validation.behaviour import BehaviourChange, ChangedContext

CONTEXTS_SHOWN = 3
"""Changed contexts of a rule that a table names."""


@click.command(cls=Command)
@chain_argument()
@chain_argument("successor", "OTHER")
@click.option(
    "--fail-on",
    type=click.Choice([severity.value for severity in Severity]),
    help="Exit 1 only for rules of at least this severity.",
)
@format_option("table", "json")
def command(chain: Path, successor: Path, fail_on: str | None, format: str) -> None:
    """Compare the behaviour of OTHER with that of CHAIN, rule by rule.

    Both are chains of the same rules, as of two versions of an agent. For each rule: the sessions that
    violate it, with intervals, and the contexts after which other events come than before. The exit code is 1
    where OTHER's interval lies above CHAIN's, so that the command can be a gate before a release.

    \b
        tracline predict compare before.chain after.chain --fail-on high
    """
    from ....batch.prediction.compared import compared_chains

    compared = compared_chains(chain, successor)
    for name in compared.left_out:
        note(quoted(f"{name}: not compared, because only one chain has this version of the rule"))
    lines = json_lines(compared) if format == "json" else table_lines(compared)
    for line in lines:
        click.echo(line)
    least = Severity(fail_on).rank if fail_on is not None else 0
    if any(
        change.is_worse and severity.rank >= least
        for change, severity in zip(compared.changes, compared.severities, strict=True)
    ):
        click.get_current_context().exit(1)


def json_lines(compared: ComparedChains) -> Iterator[str]:
    """Yield the changes as one JSON document."""
    from ...render.prediction import json_value

    rules = [
        {
            **json_value(change),
            "severity": severity.value,
            "is_worse": change.is_worse,
            "is_better": change.is_better,
        }
        for change, severity in zip(compared.changes, compared.severities, strict=True)
    ]
    document = {
        "chain": compared.chain,
        "other": compared.successor,
        "confidence": compared.confidence,
        "left_out": list(compared.left_out),
        "rules": rules,
    }
    yield orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def table_lines(compared: ComparedChains) -> Iterator[str]:
    """Yield a table of the rules, and the contexts that changed."""
    from ...render.prediction import aligned_lines, share

    heading = ("rule", "violating before", "after", "", "contexts changed")
    yield from aligned_lines(
        heading,
        (
            (
                f"{change.pack}/{change.rule}",
                share(change.before),
                share(change.after),
                word(change),
                f"{len(change.changed)} of {change.contexts}",
            )
            for change in compared.changes
        ),
    )
    for change in compared.changes:
        yield from changed_lines(change.rule, change.changed)


def word(change: BehaviourChange) -> str:
    """Return the change of the sessions in a word."""
    return "worse" if change.is_worse else ("better" if change.is_better else "")


def changed_lines(rule: str, changed: Sequence[ChangedContext]) -> Iterator[str]:
    """Yield the contexts that changed most."""
    from ....predict.explaining.words import percent

    for each in changed[:CONTEXTS_SHOWN]:
        due = f" (due: {each.residual})" if each.residual else ""
        moved = ", ".join(
            f"{found.symbol} {percent(found.before)} to {percent(found.after)}" for found in each.nexts
        )
        yield clean(f"{rule}: after {each.symbol}{due}: {moved}")
    if len(changed) > CONTEXTS_SHOWN:
        yield f"{clean(rule)}: and {len(changed) - CONTEXTS_SHOWN} more contexts"
