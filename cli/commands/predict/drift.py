"""`tracline predict drift`: the behaviour of an archive against that of a chain"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from ...options import Command, format_option
from ...terminal import clean
from .archive_source import archive_options, read_chain_and_archive
from .compare import changed_lines

if TYPE_CHECKING:
    from ....batch.prediction.drifted import DriftedRule


@click.command(cls=Command)
@archive_options()
@format_option("table", "json")
def command(chain: Path, archive: tuple[str, ...], timezone: str, allow_rejected: int, format: str) -> None:
    """Show whether ARCHIVE still behaves like CHAIN.

    For each rule and agent: the evidence that verdicts come more often than the intervals of the chain allow,
    every event a bet against them; the log score of the next symbols, beside that which the chain expects;
    and the contexts after which other events come. The exit code is 0.

    \b
        tracline predict drift desk.chain archive/
    """
    from ....batch.prediction.drifted import drifted_rule

    rules, counted = read_chain_and_archive(chain, archive, timezone, allow_rejected)
    error = (1 - rules.chain.confidence) / max(2 * len(rules.rules), 1)
    drifted = [
        drifted_rule(
            learned,
            rule.estimate(learned),
            rule.highs(learned, 1),
            rules.violating(place, error),
            found,
            error,
        )
        for place, (rule, learned, found) in enumerate(
            zip(rules.rules, rules.counted, counted.counted, strict=True)
        )
    ]
    if format == "json":
        document = {
            "chain": rules.chain.digest,
            "sessions": len(counted.ids),
            "rules": [_json(each) for each in drifted],
        }
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    for line in table_lines(drifted):
        click.echo(line)


def _json(each: DriftedRule) -> dict[str, Any]:
    from ...render.prediction import json_value

    return {
        "pack": each.over.counted.pack,
        "rule": each.over.counted.rule,
        "drift": each.has_drifted,
        "unseen_share": each.over.unseen_share,
        "agents": {
            name: {**json_value(evidence), "drift": evidence.has_drifted}
            for name, evidence in each.evidence.items()
        },
        "log_score": json_value(each.log_score),
        "change": json_value(each.change),
    }


def table_lines(drifted: Sequence[DriftedRule]) -> Iterator[str]:
    """Yield a table of rules and agents, and the contexts that changed."""
    from ...render.prediction import aligned_lines, figure

    heading = (
        "rule",
        "events",
        "against",
        "at most",
        "evidence",
        "log score",
        "expected",
        "contexts changed",
        "",
    )
    yield from aligned_lines(
        heading,
        (
            (
                each.name + (f" ({name})" if name else ""),
                f"{evidence.events:,}",
                f"{evidence.violated:,}",
                f"{evidence.expected:,.1f}",
                figure(evidence.evidence, ".1f"),
                figure(each.log_score.score, ".3f"),
                figure(each.log_score.expected, ".3f"),
                f"{len(each.change.changed)} of {each.change.contexts}",
                "drift" if evidence.has_drifted else "",
            )
            for each in drifted
            for name, evidence in each.evidence.items()
        ),
    )
    for each in drifted:
        yield from map(clean, changed_lines(each.over.counted.rule, each.change.changed))
