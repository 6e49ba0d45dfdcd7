"""The scores of forecasts, which `tracline predict score --forecasts` prints."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from ...options import note
from ...source import audit_options

if TYPE_CHECKING:
    from ....batch.prediction.scored import ScoredRule
    from ....predict.folder.chain_rules import ChainRules
    from ....predict.sampling.forecasts import ForecastScores
    from ....predict.validation.calibration import Calibration


def print_forecast_scores(
    file: Path,
    rules: ChainRules,
    ids: Sequence[str],
    scored: Sequence[ScoredRule],
    archive: tuple[str, ...],
    timezone: str,
    format: str,
) -> None:
    """Print the scores of the forecasts in a file, beside those of the chain at the same events."""
    from ....batch.prediction.forecasts import ChainPlaces, scored_forecasts
    from ....batch.sources.discover import Population
    from ....predict.sampling.forecasts import read_forecasts

    names = [(each.over.counted.pack, each.over.counted.rule) for each in scored]
    places = ChainPlaces(
        over=dict(zip(names, (each.over for each in scored), strict=True)),
        risks=dict(zip(names, (each.risks for each in scored), strict=True)),
        horizons=rules.chain.horizons,
        ids=ids,
    )
    forecasts = list(read_forecasts(file.read_bytes(), str(file)))
    for within in sorted({each.within for each in forecasts} - set(places.horizons)):
        lacks = f"the chain has no risk within {within:,} to put beside forecasts"
        note(f"{lacks}: learn it with --within {within}")
    with tempfile.TemporaryDirectory() as scratch:
        found = scored_forecasts(
            forecasts,
            rules.watched,
            places,
            archive,
            Path(scratch),
            audit_options(timezone),
            Population(),
            rules.chain.confidence,
        )
    if format == "json":
        from ...render.prediction import json_value

        document = {"chain": rules.chain.digest, "forecasts": [json_value(each) for each in found]}
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    for line in table_lines(found):
        click.echo(line)


def table_lines(found: Sequence[ForecastScores]) -> Iterator[str]:
    """Yield a table of the rules, with the scores as given, calibrated, and of the chain."""
    from ...render.prediction import aligned_lines

    heading = ("rule", "how", "within", "forecasts", "against", "left out", "ECE", "skill")
    more = ("calibrated: ECE", "skill", "chain: ECE", "skill")
    yield from aligned_lines(
        (*heading, *more),
        (
            (
                f"{each.pack}/{each.rule}",
                each.how,
                f"{each.within:,}",
                f"{each.given.visits:,}",
                f"{each.given.violating:,}",
                f"{each.left_out:,}",
                *_scores(each.given),
                *_scores(each.calibrated),
                *_scores(each.chain),
            )
            for each in found
        ),
        left=(0, 1),
    )


def _scores(found: Calibration) -> tuple[str, str]:
    """Return ECE and skill without their intervals."""
    from ...render.prediction import score

    return score(found.ece, ".4f").split(" ")[0], score(found.skill, "+.3f").split(" ")[0]
