"""The scores of one rule's risks on the sessions of an archive, beside those of the chain over labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, Mask
from ..chain.walks import Walks
from .calibration import Calibration, calibration
from .context_intervals import context_intervals
from .fit import ChainFit, chain_fit
from .outcomes import outcomes
from .thresholds import RiskThreshold, risk_threshold

SEED = 1
"""The seed of the resampled sessions: the same archive has the same intervals."""


@dataclass(frozen=True, slots=True)
class HorizonScores:
    """The scores of the risks within one horizon, of the chain and of the chain over labels.

    The latter leaves the machine's state and the memory out of what the next symbol depends on. It is a
    warning, not an offer. `fit` and `labels_fit` compare both with the intervals that the sessions give the
    contexts.
    """

    within: int | None
    chain: Calibration
    labels: Calibration
    fit: ChainFit
    labels_fit: ChainFit
    threshold: RiskThreshold


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise of thresholds: the share of violating sessions that may be missed, and its confidence."""

    miss: float = 0.1
    confidence: float = 0.95


def rule_scores(
    walks: Walks,
    horizons: Sequence[int | None],
    chain: F64,
    labels: F64,
    learned: Mask,
    promise: Promise,
) -> tuple[HorizonScores, ...]:
    """Return the scores by horizon; `chain` and `labels` are the contexts' risks by horizon.

    `learned` are the contexts that the chain learned from: those that share the error of the intervals.
    """
    found = outcomes(walks)
    without: Mask = np.isnan(chain)
    intervals = context_intervals(walks, found, horizons, learned, ~without[:, 0], promise.confidence)

    def scores(column: int, risks: F64) -> Calibration:
        return calibration(
            walks,
            found,
            risks[:, column],
            horizons[column],
            np.random.default_rng(SEED),
            confidence=promise.confidence,
        )

    return tuple(
        HorizonScores(
            within=within,
            chain=scores(column, chain),
            labels=scores(column, labels),
            fit=chain_fit(chain[:, column], intervals, column),
            labels_fit=chain_fit(labels[:, column], intervals, column),
            threshold=risk_threshold(walks, found, chain[:, column], promise.miss, promise.confidence),
        )
        for column, within in enumerate(horizons)
    )
