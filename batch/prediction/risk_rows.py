"""The risks at every event of an archive, as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from ...archive.disk import replacing_file
from ...predict.chain.contexts import START
from .scored import ScoredRule

FILE_NAME = "risks.parquet"


def write_risks(folder: Path, scored: Sequence[ScoredRule], ids: Sequence[str]) -> None:
    """Write the risks of the rules, one row a place of a sequence, to a file in the folder, whole or not."""
    folder.mkdir(parents=True, exist_ok=True)
    frames = [risk_rows(each, ids) for each in scored]
    with replacing_file(folder / FILE_NAME) as file:
        pl.concat(frames).write_parquet(file)


def risk_rows(scored: ScoredRule, ids: Sequence[str]) -> pl.DataFrame:
    """Return the rows of one rule: its sequences in order, with event 0 before any event.

    `ids` are those of the sessions by number. The symbol is null where the chain lacks it, and a risk is null
    where there is none.
    """
    over, counted = scored.over, scored.over.counted
    walks, contexts, steps = counted.walks, counted.contexts, counted.steps
    lengths = np.diff(walks.bounds)
    numbers = np.arange(len(lengths))
    firsts = np.concatenate([[True], walks.sessions[1:] != walks.sessions[:-1]])[: len(lengths)]
    sequence = numbers - np.maximum.accumulate(np.where(firsts, numbers, 0)) if len(numbers) else numbers
    symbols = pl.Series([*counted.symbols.symbols, START, None], dtype=pl.String)
    residuals = pl.Series([*steps.residuals, None], dtype=pl.String)
    unknown = len(counted.symbols.symbols) + 1, len(steps.residuals)
    states = np.concatenate([contexts.states, [unknown[1]], over.after_unseen.states])
    return pl.DataFrame(
        {
            "session_id": pl.Series(ids, dtype=pl.String)[np.repeat(walks.sessions, lengths)],
            "sequence": np.repeat(sequence, lengths),
            "event": np.arange(len(walks.contexts)) - np.repeat(walks.bounds[:-1], lengths),
            "symbol": symbols[over.padded(contexts.symbols, unknown[0])[walks.contexts]],
            "residual": residuals[states[walks.contexts]],
            "violated": walks.violated,
            **{
                f"risk_{'ever' if each.within is None else each.within}": pl.Series(
                    scored.risks[walks.contexts, column]
                ).fill_nan(None)
                for column, each in enumerate(scored.horizons)
            },
        }
    ).select(pl.lit(counted.pack).alias("pack"), pl.lit(counted.rule).alias("rule"), pl.all())
