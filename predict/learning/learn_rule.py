"""The risks of one rule from its counts, and what may be believed of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..chain.learned import Counted
from ..risk.rule_risks import RuleRisks, rule_risks
from ..validation.behaviour import violating_sessions
from ..validation.calibration import point_scores
from ..validation.context_intervals import ContextIntervals, context_intervals
from ..validation.fit import ChainFit, chain_fit
from ..validation.outcomes import outcomes
from ..validation.thresholds import RiskThreshold, risk_threshold
from .options import MISS, LearnOptions
from .sample_sizes import SampleSizes, sample_sizes


@dataclass(frozen=True, slots=True)
class LearnedFrom:
    """The number of sessions, of those learned from, and of events of all.

    `files` counts the files that were read, and `digest` is the SHA-256 of their SHA-256 in ascending order.
    """

    sessions: int
    learned: int
    events: int
    files: int
    digest: str


@dataclass(frozen=True, slots=True)
class RuleLearned:
    """A rule of a learned chain; `fits`, `scores` and `thresholds` are by horizon.

    Of the `sessions` of its walks that were seen whole, `violating` had a verdict against the agent.
    """

    counted: Counted
    risks: RuleRisks
    intervals: ContextIntervals
    fits: tuple[ChainFit, ...]
    scores: tuple[Mapping[str, float], ...]
    thresholds: tuple[RiskThreshold, ...]
    sizes: SampleSizes
    violating: int
    sessions: int


def learn_rule(counted: Counted, options: LearnOptions) -> RuleLearned:
    """Return the risks of a rule, with the evidence that its walks give."""
    risks = rule_risks(counted, options.risks)
    horizons, values = risks.table.horizons, risks.table.values
    walks, found = counted.walks, outcomes(counted.walks)
    has_risk = ~np.isnan(values[:, 0])
    intervals = context_intervals(walks, found, horizons, risks.learned, has_risk, options.confidence)
    violating, sessions = violating_sessions(walks)
    columns = range(len(horizons))
    return RuleLearned(
        counted=counted,
        risks=risks,
        intervals=intervals,
        fits=tuple(chain_fit(values[:, column], intervals, column) for column in columns),
        scores=tuple(
            point_scores(walks, found, values[:, column], within) for column, within in enumerate(horizons)
        ),
        thresholds=tuple(
            risk_threshold(walks, found, values[:, column], MISS, options.confidence) for column in columns
        ),
        sizes=sample_sizes(counted, options.eps, options.delta),
        violating=violating,
        sessions=sessions,
    )


def fit_warnings(learned: RuleLearned) -> list[str]:
    """Return a warning (TRL811) for each horizon at which too few contexts are inside their intervals."""
    name = f"{learned.counted.pack}/{learned.counted.rule}"
    return [
        f"{name}: TRL811 the chain does not fit within {'ever' if within is None else within}: "
        f"{fit.contexts - len(fit.outside)} of {fit.contexts} contexts have their risk in their interval"
        for within, fit in zip(learned.risks.table.horizons, learned.fits, strict=True)
        if not fit.fits
    ]
