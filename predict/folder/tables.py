"""The contents of a chain's files: its counts, the risks of every context, and all that describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import rfc8785

from ...rules.model.arrays import F64
from ..chain.contexts import END, START, UNSEEN, Contexts
from ..chain.learned import Counted
from ..chain.risks import DIGITS
from ..estimation.nested import NestedEstimate

if TYPE_CHECKING:
    from ..risk.rule_risks import RuleRisks
    from ..validation.context_intervals import ContextIntervals

SCHEMA = "tracline-chain/1"
"""The version of the files."""

CHAIN, COUNTS, RISK = "chain.json", "counts.parquet", "risk.parquet"
"""The names of the files."""

_COUNT_KEYS = ("pack", "rule", "agent", "symbol", "memory", "state", "residual", "next")
_RISK_KEYS = ("pack", "rule", "agent", "symbol", "memory", "state", "within")


@dataclass(frozen=True, slots=True)
class RuleToWrite:
    """One rule of a chain: its risks, the intervals of its contexts, and further facts for `chain.json`."""

    risks: RuleRisks
    intervals: ContextIntervals
    fingerprint: str
    more: Mapping[str, object]


def chain_tables(rules: Sequence[RuleToWrite]) -> dict[str, pl.DataFrame]:
    """Return the tables of a chain by the names of their files, with sorted rows.

    A chain that distinguishes agents has risks of others: their agent is null.
    """
    counts = pl.concat([_counts(each.risks.counted) for each in rules]).sort(_COUNT_KEYS)
    risks = pl.concat([_risks(each) for each in rules]).sort(_RISK_KEYS, nulls_last=True)
    return {COUNTS: counts, RISK: risks}


def chain_json(
    rules: Sequence[RuleToWrite], document: Mapping[str, object], digests: Mapping[str, str]
) -> bytes:
    """Return the bytes of `chain.json`, whose SHA-256 is the digest of the chain.

    `document` has what all rules share, and `digests` the SHA-256 of the other files by name.
    """
    ordered = sorted(rules, key=lambda each: (each.risks.counted.pack, each.risks.counted.rule))
    content = {
        **document,
        "schema": SCHEMA,
        "rules": [_rule(each) for each in ordered],
        "files": dict(digests),
    }
    return rfc8785.dumps(content) + b"\n"  # pyright: ignore[reportArgumentType]


def _rule(rule: RuleToWrite) -> dict[str, object]:
    risks, counted = rule.risks, rule.risks.counted
    return {
        **rule.more,
        "pack": counted.pack,
        "rule": counted.rule,
        "digest": counted.rule_digest,
        "fingerprint": rule.fingerprint,
        "agents": list(risks.agents),
        "symbols": list(counted.symbols.symbols),
        "horizons": list(risks.table.horizons),
        "estimate": {
            "alpha": risks.options.estimate.alpha,
            "history": risks.options.estimate.has_history,
            "impossible": sorted(list(pair) for pair in risks.options.estimate.impossible),
            "levels": _levels(risks.estimate),
            "unseen": _levels(risks.unseen),
            "labels": _levels(risks.labels),
        },
    }


def _levels(estimate: NestedEstimate) -> list[dict[str, object]]:
    levels: list[dict[str, object]] = list(map(asdict, estimate.levels))
    return levels


def _counts(counted: Counted) -> pl.DataFrame:
    """Return the counts of all folds together."""
    counts = counted.counts
    names = np.array([*counted.symbols.symbols, END], dtype=np.object_)
    learned = counted.contexts.of(counts.contexts)
    keys = _contexts(counted, learned, counted.agents)
    frame = keys.with_columns(
        next=pl.Series(names[counts.nexts].tolist(), dtype=pl.String),
        count=pl.Series(counts.counts, dtype=pl.Int64),
    )
    return frame.group_by(_COUNT_KEYS, maintain_order=True).agg(pl.col("count").sum())


def _risks(rule: RuleToWrite) -> pl.DataFrame:
    """Return the risks of all contexts by horizon; those that the counts lack have no sessions."""
    risks, counted, found = rule.risks, rule.risks.counted, rule.intervals
    agents = (*risks.agents, None)
    of_table = _contexts(counted, counted.contexts, agents)
    of_others = _contexts(counted, risks.others, agents)
    bases, other_bases = risks.bases()
    frames: list[pl.DataFrame] = []
    for column, within in enumerate(risks.table.horizons):
        # Bounds are rounded outwards.
        low = np.floor(found.low[:, column] * 10**DIGITS) / 10**DIGITS
        high = np.ceil(found.high[:, column] * 10**DIGITS) / 10**DIGITS
        known = of_table.with_columns(
            **_values(within, risks.table.values[:, column], low, high),
            sessions=pl.Series(found.sessions[:, column], dtype=pl.Int64),
            violating=pl.Series(found.violating[:, column], dtype=pl.Int64),
            visits=pl.Series(found.visits[:, column], dtype=pl.Int64),
            basis=pl.Series(bases, dtype=pl.String),
        )
        values = risks.other_risks[:, column]
        has_risk = np.where(np.isnan(values), np.nan, 1.0)
        none = pl.lit(0, dtype=pl.Int64)
        others = of_others.with_columns(
            **_values(within, values, has_risk * 0.0, has_risk),
            sessions=none,
            violating=none,
            visits=none,
            basis=pl.Series(other_bases, dtype=pl.String),
        )
        frames += [known, others]
    return pl.concat(frames)


def _contexts(counted: Counted, contexts: Contexts, agents: Sequence[str | None]) -> pl.DataFrame:
    """Return the columns that name contexts."""
    steps, symbols = counted.steps, (*counted.symbols.symbols, START, UNSEEN)
    rows: list[int] = contexts.states.tolist()
    size = len(rows)
    columns: dict[str, object] = {
        "pack": [counted.pack] * size,
        "rule": [counted.rule] * size,
        "agent": [agents[number] for number in contexts.agents.tolist()],
        "symbol": [symbols[number] for number in contexts.symbols.tolist()],
        "memory": [steps.memory[row] for row in rows],
        "state": steps.states[contexts.states],
        "residual": [steps.residuals[row] for row in rows],
    }
    texts = {name: pl.String for name in columns if name != "state"}
    return pl.DataFrame(columns, schema_overrides=texts)


def _values(within: int | None, risk: F64, low: F64, high: F64) -> dict[str, pl.Series | pl.Expr]:
    columns = {"risk": risk, "low": low, "high": high}
    series = {name: pl.Series(name, column).fill_nan(None) for name, column in columns.items()}
    return {"within": pl.lit(within, dtype=pl.Int32), **series}
