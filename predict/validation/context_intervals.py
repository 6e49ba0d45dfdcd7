"""Intervals of contexts' risks from held-out sessions, whatever the chain believes.

A session is a trial of a context at its first visit of it; later visits and those of its other slices depend
on the first. The intervals need exchangeable sessions and nothing else: no chain, no Markov property.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy

from ..chain.contexts import I64
from ..chain.risks import F64
from ..chain.walks import Walks
from .outcomes import Mask, Outcomes, visit_counts


@dataclass(frozen=True, slots=True)
class ContextIntervals:
    """The intervals of all contexts, as arrays of [context, horizon].

    `sessions` came to the context and were seen for the whole horizon after their first visit, `violating` of
    them had a verdict against the agent within it, and `visits` are all their visits that were seen so.
    """

    low: F64
    high: F64
    sessions: I64
    violating: I64
    visits: I64


def context_intervals(
    walks: Walks,
    found: Outcomes,
    horizons: Sequence[int | None],
    learned: Mask,
    has_risk: Mask,
    confidence: float,
) -> ContextIntervals:
    """Return Clopper-Pearson intervals that hold for all learned contexts together with that confidence.

    `learned` are the contexts of the sessions that the chain learned from: a choice that does not depend on
    the walks. The error probability is shared among those that have a risk. Any other context has 0 to 1, and
    one without a risk NaN.
    """
    contexts = len(learned)
    intervals = ContextIntervals(
        low=np.zeros((contexts, len(horizons))),
        high=np.ones((contexts, len(horizons))),
        sessions=np.zeros((contexts, len(horizons)), dtype=np.int64),
        violating=np.zeros((contexts, len(horizons)), dtype=np.int64),
        visits=np.zeros((contexts, len(horizons)), dtype=np.int64),
    )
    bounded = learned & has_risk
    error = (1 - confidence) / max(int(bounded.sum()), 1)
    for column, within in enumerate(horizons):
        counts = visit_counts(walks, found, within, contexts)
        trials, hits = counts.firsts, counts.violated_firsts
        intervals.visits[:, column] = counts.visits
        intervals.sessions[:, column], intervals.violating[:, column] = trials, hits
        low, high = binomial_interval(hits[bounded], trials[bounded], error)
        intervals.low[bounded, column], intervals.high[bounded, column] = low, high
    intervals.low[~has_risk] = intervals.high[~has_risk] = np.nan
    return intervals


def binomial_interval(successes: I64, trials: I64, error: float | F64) -> tuple[F64, F64]:
    """Return the two-sided Clopper-Pearson interval of each rate, which misses it with at most `error`."""
    hits, misses = successes.astype(np.float64), (trials - successes).astype(np.float64)
    tail = np.broadcast_to(np.asarray(error) / 2, hits.shape)
    low, high = np.zeros(len(hits)), np.ones(len(hits))
    any_hit, any_miss = hits > 0, misses > 0
    low[any_hit] = cast("F64", scipy.special.betaincinv(hits[any_hit], misses[any_hit] + 1, tail[any_hit]))
    high[any_miss] = cast(
        "F64", scipy.special.betainccinv(hits[any_miss] + 1, misses[any_miss], tail[any_miss])
    )
    return low, high
