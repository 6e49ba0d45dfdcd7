"""`tracline predict score`: the risks of a chain against what the sessions of an archive did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from ...options import Command, NumberType, format_option, note
from ...terminal import clean, quoted
from .archive_source import archive_options, read_chain_and_archive

if TYPE_CHECKING:
    from ....batch.prediction.scored import ScoredRule


@click.command(cls=Command)
@archive_options()
@click.option(
    "--miss",
    type=NumberType(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="The share of violating sessions that thresholds may miss.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the risk at every event to DIR/risks.parquet.",
)
@click.option(
    "--forecasts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Score the lines of `predict sample --format json` beside the chain.",
)
@format_option("table", "json")
def command(
    chain: Path,
    archive: tuple[str, ...],
    miss: float,
    out: Path | None,
    forecasts: Path | None,
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Score the risks of CHAIN on the sessions of ARCHIVE, which it should not have learned from.

    For each rule and horizon: calibration (ECE), Brier score and its skill over the base rate, log score and
    AUC, with intervals over sessions; the threshold with a guaranteed miss rate; and the same of the chain
    over labels, which leaves the state of the rule out. The exit code is 0.

    With --forecasts the scores are those of sampled and asked risks of sessions of ARCHIVE: as they are,
    calibrated by the other sessions (isotonic regression), and those of the chain at the same events.

    \b
        tracline predict score desk.chain next-week/ --miss 0.05 --out scores/
    """
    from ....batch.prediction.risk_rows import write_risks
    from ....batch.prediction.scored import scored_rule
    from ....predict.validation.rule_scores import Promise

    rules, counted = read_chain_and_archive(chain, archive, timezone, allow_rejected)
    promise = Promise(miss, rules.chain.confidence)
    scored = [
        scored_rule(
            learned,
            rule.estimate(learned),
            rule.labels(learned),
            found,
            rules.chain.horizons,
            promise,
            partial(rule.unseen_risks, learned),
        )
        for rule, learned, found in zip(rules.rules, rules.counted, counted.counted, strict=True)
    ]
    if out is not None:
        write_risks(out, scored, counted.ids)
    for line in unseen(scored):
        note(quoted(line))
    if forecasts is not None:
        from .score_forecasts import print_forecast_scores

        print_forecast_scores(forecasts, rules, counted.ids, scored, archive, timezone, format)
        return
    if format == "json":
        document = {
            "chain": rules.chain.digest,
            "sessions": len(counted.ids),
            "rules": [_json(each) for each in scored],
        }
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    for line in table_lines(scored):
        click.echo(line)


def unseen(scored: Sequence[ScoredRule]) -> Iterator[str]:
    """Yield a warning for each rule with too many events that the chain never saw."""
    for each in scored:
        if each.is_unseen:
            share = f"{100 * each.over.unseen_share:.2g} % of the events have a symbol that it never saw"
            yield f"warning: TRL812 the chain of {each.name}: {share}; their risk is that of the state alone"


def _json(each: ScoredRule) -> dict[str, Any]:
    from ...render.prediction import json_value

    return {
        "pack": each.over.counted.pack,
        "rule": each.over.counted.rule,
        "unseen_share": each.over.unseen_share,
        "log_score": json_value(each.log_score),
        "horizons": [json_value(scores) for scores in each.horizons],
    }


def table_lines(scored: Sequence[ScoredRule]) -> Iterator[str]:
    """Yield a table for each horizon, and the thresholds."""
    from ....predict.explaining.words import horizon
    from ...render.prediction import aligned_lines, inside, score, threshold

    heading = ("rule", "events", "against", "ECE", "skill", "AUC", "inside", "labels: ECE", "skill", "inside")
    for place, first in enumerate(scored[0].horizons if scored else ()):
        yield f"{horizon(first.within)}"
        rows = [(each, each.horizons[place]) for each in scored]
        yield from aligned_lines(
            heading,
            (
                (
                    each.name,
                    f"{found.chain.visits:,}",
                    f"{found.chain.violating:,}",
                    score(found.chain.ece, ".4f"),
                    score(found.chain.skill, "+.3f"),
                    score(found.chain.auc, ".2f"),
                    inside(found.fit),
                    score(found.labels.ece, ".4f").split(" ")[0],
                    score(found.labels.skill, "+.3f").split(" ")[0],
                    inside(found.labels_fit),
                )
                for each, found in rows
            ),
        )
        for each, found in rows:
            if found.threshold.violating:
                yield clean(f"{each.name}: {threshold(found.threshold)}")
        yield ""
