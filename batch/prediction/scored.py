"""The scores of a chain's risks on an archive: rule by rule, beside the chain over labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...predict.chain.contexts import Contexts
from ...predict.chain.learned import Counted
from ...predict.chain.over_archive import OverArchive, over_archive
from ...predict.estimation.expectation import NextSymbolChain
from ...predict.estimation.nested import NestedEstimate
from ...predict.risk.rule_risks import risk_table
from ...predict.validation.drift import LogScoreDrift, log_score_drift
from ...predict.validation.next_symbol_costs import next_symbol_costs
from ...predict.validation.rule_scores import SEED, HorizonScores, Promise, rule_scores
from ...rules.model.arrays import F64

UNSEEN_MAX = 0.05
"""The share of events with a symbol that the chain lacks, above which a warning is due (TRL812)."""


@dataclass(frozen=True, slots=True)
class ScoredRule:
    """The scores of one rule on an archive.

    `risks` are the chain's by [context, horizon] of `over`, with its further numbers. `log_score` is that of
    the next symbols.
    """

    over: OverArchive
    risks: F64
    horizons: tuple[HorizonScores, ...]
    log_score: LogScoreDrift

    @property
    def name(self) -> str:
        """Return the rule's name with its pack."""
        return f"{self.over.counted.pack}/{self.over.counted.rule}"

    @property
    def is_unseen(self) -> bool:
        """Return whether too many events have a symbol that the chain lacks."""
        return self.over.unseen_share > UNSEEN_MAX


def scored_rule(
    chain: Counted,
    estimate: NestedEstimate,
    labels: NestedEstimate,
    archive: Counted,
    horizons: Sequence[int | None],
    promise: Promise,
    after_unseen: Callable[[Contexts], F64] | None = None,
) -> ScoredRule:
    """Return the scores of a rule; `labels` is the estimate of the chain over labels from the same counts.

    `after_unseen` returns the risks by horizon after symbols that the chain lacks; without it there are none.
    """
    over = over_archive(chain, archive)
    next_symbols = NextSymbolChain(over.counted, estimate)
    table = risk_table(over.counted, next_symbols, horizons)
    without = risk_table(over.counted, NextSymbolChain(over.counted, labels), horizons)
    unseen = None if after_unseen is None else after_unseen(over.after_unseen)
    risks = over.with_unknown(table.values, unseen)
    learned = np.append(over.learned, np.zeros(1 + len(over.after_unseen), dtype=np.bool_))
    costs = next_symbol_costs(over, next_symbols.probabilities(over.counted.contexts))
    return ScoredRule(
        over=over,
        risks=risks,
        horizons=rule_scores(
            over.counted.walks,
            table.horizons,
            risks,
            over.with_unknown(without.values),
            learned,
            promise,
        ),
        log_score=log_score_drift(
            costs.costs, costs.expected, costs.sessions, np.random.default_rng(SEED), promise.confidence
        ),
    )
