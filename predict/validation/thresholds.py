"""Thresholds of risk that miss at most a share of the violating sessions, with a confidence.

The thresholds are tested from 0 upwards, each by the binomial tail of the violating sessions that it misses,
until the first test fails (fixed-sequence testing; Angelopoulos and others: Learn then Test, 2021). So the
confidence holds for the last one that passed without any correction for their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from ..chain.contexts import I64
from ..chain.risks import F64
from ..chain.walks import CUT, Walks
from .outcomes import Mask, Outcomes
from .place_loops import NEVER, find_greatest, find_warnings


@dataclass(frozen=True, slots=True)
class LeadQuartiles:
    """The events from the first warning to the verdict, over the warned violating sessions."""

    lower: float
    median: float
    upper: float


@dataclass(frozen=True, slots=True)
class RiskThreshold:
    """The greatest threshold with a guarantee, and its effect on the held-out sessions.

    `threshold` is None where no threshold passes. `violating_min` is the number of violating sessions from
    which on one can: below it even a threshold that misses none proves nothing. `left_out` are sessions of
    which a sequence was cut. `warned_others` of `others` sessions without a verdict against the agent were
    warned of.
    """

    miss: float
    confidence: float
    threshold: float | None
    violating: int
    violating_min: int
    missed: int
    others: int
    warned_others: int
    left_out: int
    lead: LeadQuartiles | None


@dataclass(frozen=True, slots=True)
class _Sequences:
    """The sequences of walks with the first place of a verdict against the agent, and the contexts' risks.

    The start of a sequence is no event, and a verdict's event comes too late for its own warning.
    """

    walks: Walks
    sessions: I64
    is_violating: Mask
    verdicts: I64
    risks: F64

    def scores(self) -> F64:
        """Return the greatest risk before the verdict of each sequence."""
        greatest = np.empty(len(self.verdicts))
        find_greatest(self.walks.contexts, self.walks.bounds, self.verdicts, self.risks, greatest)
        return greatest

    def leads(self, threshold: float) -> I64:
        """Return the events from the first warning to the verdict; meaningless without either."""
        places = np.empty(len(self.verdicts), dtype=np.int64)
        walks = self.walks
        find_warnings(walks.contexts, walks.bounds, self.verdicts, self.risks, threshold, places)
        return self.verdicts - places


def risk_threshold(
    walks: Walks, found: Outcomes, risks: F64, miss: float, confidence: float
) -> RiskThreshold:
    """Return the threshold for the contexts' risks, of any one horizon.

    A session violates where one of its sequences has a verdict against the agent, and it is missed where one
    of these had no event with a risk of at least the threshold before its first such verdict. Sessions with a
    sequence that was cut are left out, whatever they show.
    """
    sequences = _sequences(walks, found, risks)
    scores, count = sequences.scores(), len(np.unique(walks.sessions))
    cut = _by_session(sequences.sessions, walks.endings == CUT, count)
    violating = _by_session(sequences.sessions, sequences.is_violating, count) & ~cut
    others = ~violating & ~cut
    least = np.full(count, np.inf)
    np.minimum.at(least, sequences.sessions[sequences.is_violating], scores[sequences.is_violating])
    greatest = np.full(count, -np.inf)
    np.maximum.at(greatest, sequences.sessions, scores)
    warned_at = np.sort(least[violating])
    threshold = _last_passing(warned_at, miss, confidence)
    limit = np.inf if threshold is None else threshold
    return RiskThreshold(
        miss=miss,
        confidence=confidence,
        threshold=threshold,
        violating=int(violating.sum()),
        violating_min=_violating_min(miss, confidence),
        missed=int((warned_at < limit).sum()),
        others=int(others.sum()),
        warned_others=int((greatest[others] >= limit).sum()),
        left_out=int(cut.sum()),
        lead=_lead(sequences, violating & (least >= limit), limit),
    )


def _violating_min(miss: float, confidence: float) -> int:
    """Return the least number of violating sessions of which none missed is less likely than the error."""
    return math.ceil(min(math.log1p(-confidence) / math.log1p(-miss), 2.0**62))


def _last_passing(warned_at: F64, miss: float, confidence: float) -> float | None:
    """Return the last threshold that passes; `warned_at` are the sessions' greatest risks, ascending.

    A threshold misses the sessions below it, and the more the greater it is: it passes as long as so few are
    less likely than the error if the true share were `miss`.
    """
    number = len(warned_at)
    passing = scipy.special.bdtr(np.arange(number), number, miss) <= 1 - confidence
    allowed = int(np.argmin(passing)) if not passing.all() else number
    # With `allowed` = m + 1 misses the test fails first, so the session at m bounds the threshold.
    if not allowed or warned_at[allowed - 1] < 0:
        return None
    return float(warned_at[allowed - 1])


def _sequences(walks: Walks, found: Outcomes, risks: F64) -> _Sequences:
    starts = walks.bounds[:-1]
    distances = found.distances[starts]
    is_violating = distances < NEVER
    verdicts = np.where(is_violating, starts + np.where(is_violating, distances, 0), NEVER)
    _, sessions = np.unique(walks.sessions, return_inverse=True)
    known = np.nan_to_num(risks, nan=-np.inf)
    return _Sequences(walks, sessions.astype(np.int64), is_violating, verdicts, known)


def _by_session(sessions: I64, sequences: Mask, count: int) -> Mask:
    """Return the sessions with such a sequence."""
    return np.bincount(sessions[sequences], minlength=count) > 0


def _lead(sequences: _Sequences, warned: Mask, threshold: float) -> LeadQuartiles | None:
    """Return the quartiles of the sessions' leads, each the least of its violating sequences."""
    if not warned.any():
        return None
    used = sequences.is_violating & warned[sequences.sessions]
    leads = np.full(len(warned), NEVER)
    np.minimum.at(leads, sequences.sessions[used], sequences.leads(threshold)[used])
    lower, median, upper = np.quantile(leads[warned], [0.25, 0.5, 0.75]).tolist()
    return LeadQuartiles(lower, median, upper)
