"""The calibration of risks on held-out sessions, with intervals from resampled sessions.

Every score is a function of the visits and the verdicts by risk. Resampling sessions, not events, makes the
intervals: the events of one session are not independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..chain.contexts import I64
from ..chain.risks import F64
from ..chain.walks import Walks
from .outcomes import Outcomes
from .session_sums import SessionSums, risk_totals, session_sums

BINS = 10
RESAMPLES = 200
SCORES = ("brier", "skill", "log_score", "ece", "auc")


@dataclass(frozen=True, slots=True)
class ScoreInterval:
    """A score and its interval; NaN where it is not defined, as the skill where nothing was violated."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The visits of neighbouring risks: their mean risk, and the share that was violated."""

    visits: int
    risk: float
    violated: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The scores of risks within one horizon over all visits.

    `skill` is 1 - Brier score / that of the base rate; `log_score` is the mean of -log of the probability of
    the outcome in nats; `ece` is the mean distance of the two shares of the bins by weight; `auc` is the
    probability that a violated visit has the higher risk.
    """

    sessions: int
    visits: int
    violating: int
    base_rate: float
    brier: ScoreInterval
    skill: ScoreInterval
    log_score: ScoreInterval
    ece: ScoreInterval
    auc: ScoreInterval
    bins: tuple[ReliabilityBin, ...]


def calibration(
    walks: Walks,
    found: Outcomes,
    risks: F64,
    within: int | None,
    generator: np.random.Generator,
    *,
    confidence: float = 0.95,
) -> Calibration:
    """Return the scores of the contexts' risks at the places of the walks.

    Places without a risk, and those of open sequences that do not show the whole horizon, are left out.
    """
    sums = session_sums(walks, found, risks, within)
    visits, violated = sums.totals()
    bins = _bins(visits)
    values = _scores(sums.risks, visits[None, :], violated[None, :], bins)[:, 0]
    drawn = np.concatenate(
        [
            _scores(sums.risks, drawn_visits, drawn_violated, bins)
            for drawn_visits, drawn_violated in sums.resampled(generator, RESAMPLES)
        ],
        axis=1,
    )
    intervals = dict(zip(SCORES, _intervals(values, drawn, confidence), strict=True))
    total = float(visits.sum())
    return Calibration(
        sessions=sums.sessions,
        visits=int(total),
        violating=int(violated.sum()),
        base_rate=float(violated.sum()) / total if total else np.nan,
        bins=_reliability(sums, bins),
        **intervals,
    )


def point_scores(walks: Walks, found: Outcomes, risks: F64, within: int | None) -> dict[str, float]:
    """Return visits, violated ones and the scores of `calibration`, without intervals."""
    distinct, visits, violated = risk_totals(walks, found, risks, within)
    values = _scores(distinct, visits[None, :], violated[None, :], _bins(visits))[:, 0]
    counts = {"visits": float(visits.sum()), "violating": float(violated.sum())}
    return counts | dict(zip(SCORES, values.tolist(), strict=True))


def _bins(visits: F64) -> I64:
    """Return the bin of each risk: tenths of the visits, each risk where the middle of its visits lies."""
    middles = np.cumsum(visits) - visits / 2
    return np.minimum(middles * BINS // max(float(visits.sum()), 1.0), BINS - 1).astype(np.int64)


def _reliability(sums: SessionSums, bins: I64) -> tuple[ReliabilityBin, ...]:
    visits, violated = sums.totals()
    weights = np.bincount(bins, visits, BINS)
    risks, shares = np.bincount(bins, visits * sums.risks, BINS), np.bincount(bins, violated, BINS)
    return tuple(
        ReliabilityBin(int(weight), float(risk / weight), float(share / weight))
        for weight, risk, share in zip(weights, risks, shares, strict=True)
        if weight
    )


def _scores(risks: F64, visits: F64, violated: F64, bins: I64) -> F64:
    """Return the scores [score, sample] of samples with visits and violated visits by [sample, risk]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total = visits.sum(axis=1)
        base = violated.sum(axis=1) / total
        of_base = base * (1 - base)
        # sum (r - y)^2  =  sum n r^2 - 2 y r + y, since y is 0 or 1
        brier = ((visits * risks - 2 * violated) * risks + violated).sum(axis=1) / total
        return np.stack(
            [
                brier,
                np.where(of_base > 0, 1 - brier / of_base, np.nan),
                _log_score(risks, visits, violated) / total,
                _ece(risks, visits, violated, bins) / total,
                _auc(visits, violated),
            ]
        )


def _log_score(risks: F64, visits: F64, violated: F64) -> F64:
    """Return the sum of -log of the outcomes' probabilities; 0 of an outcome that never came."""
    costs = -violated * np.log(risks)
    costs[violated == 0] = 0.0
    others = (violated - visits) * np.log1p(-risks)
    others[visits == violated] = 0.0
    return (costs + others).sum(axis=1)


def _ece(risks: F64, visits: F64, violated: F64, bins: I64) -> F64:
    """Return the sum over bins of the distance of expected and seen verdicts."""
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    if not len(starts):
        return np.zeros(len(visits))
    return np.abs(np.add.reduceat(visits * risks - violated, starts, axis=1)).sum(axis=1)


def _auc(visits: F64, violated: F64) -> F64:
    """Return the probability that a violated visit has a higher risk than another one, ties by half."""
    others = visits - violated
    below = np.cumsum(others, axis=1) - others
    pairs = violated.sum(axis=1) * others.sum(axis=1)
    return (violated * (below + others / 2)).sum(axis=1) / pairs


def _intervals(values: F64, drawn: F64, confidence: float) -> list[ScoreInterval]:
    """Return the percentile intervals of the scores, over the samples in which they are defined."""
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    found: list[ScoreInterval] = []
    for value, row in zip(values.tolist(), drawn, strict=True):
        defined = row[~np.isnan(row)]
        # The method of order statistics: between two infinite ones interpolation has no value.
        ends = np.quantile(defined, tails, method="inverted_cdf") if len(defined) else [np.nan, np.nan]
        found.append(ScoreInterval(value, float(ends[0]), float(ends[1])))
    return found
