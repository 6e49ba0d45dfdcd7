"""The worth of a rule's warnings over the sessions of an archive: warned and missed ones, Brier score, drift.

All that is counted are whole numbers, so that the figures do not depend on the order of sessions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...rules.model.arrays import F64, I32, I64, Mask
from ..counting.sequences import Sequences
from ..detector import DetectorState, DetectorTick, Tolerated, log_e, step_tick
from ..validation.drift import DRIFT_SETTINGS
from .followed_risks import FollowedRisks
from .warning_loop import FAR, ContextOutcomes, FollowedPlaces, SessionWarnings, count_warnings

DECIMALS = 9
"""Decimals of a figure at most."""


@dataclass(frozen=True, slots=True)
class WarningFigures:
    """The worth of a rule's warnings, as `summary.json` has it.

    `sessions_warned` have a crossing; of the violating ones `warned_before` had one before their first
    verdict, and `missed` had none. `lead_events_median` are the events of a sequence between both, of the
    sequences that were not cut before. `brier` is the mean square of risk minus outcome over events, and
    `base_rate` their mean outcome; all are None without any.
    `drift` states that verdicts come more often than the intervals of the chain allow.
    """

    within: int | None
    threshold: float
    sessions_warned: int
    warned_before: int
    missed: int
    lead_events_median: float | None
    brier: float | None
    base_rate: float | None
    drift: bool


class WarningTally:
    """The counts of one rule so far. Sessions may come in any order, each with all its sequences at once."""

    def __init__(self, risks: FollowedRisks) -> None:
        self._risks = risks
        zeros: list[Any] = [np.zeros(len(risks.values), dtype=np.int64) for _ in range(4)]
        self._contexts = ContextOutcomes(*zeros)
        self._leads = Counter[int]()

    def begin(self, slots: int) -> SessionWarnings:
        """Return the warnings of a bucket's sessions before its sequences are counted."""
        empty: list[Any] = [np.zeros(slots, dtype=np.bool_) for _ in range(2)]
        return SessionWarnings(*empty, np.full(slots, FAR, dtype=np.int64))

    def count(self, found: Sequences, risks: I32, counted: Mask, sessions: SessionWarnings) -> None:
        """Count sequences with the places of their risks; `counted` are the events whose verdicts count."""
        bounds, values = found.bounds.astype(np.int64), self._risks.values
        is_counted = counted[found.events]
        places = FollowedPlaces(bounds, found.slots, found.endings, found.violated, is_counted, risks, values)
        within = FAR if self._risks.within is None else self._risks.within
        count_warnings(places, within, self._risks.threshold, sessions, self._contexts)

    def end(self, sessions: SessionWarnings) -> None:
        """Count the sessions of a bucket, whose sequences are counted."""
        self._leads.update(sessions.leads[sessions.violating & ~sessions.missed].tolist())

    def figures(self, warned: int, violating: int, missed: int) -> WarningFigures:
        """Return the figures of all sessions, given the numbers of those with crossings and verdicts."""
        events, violated = self._contexts.events, self._contexts.violated
        total, hits = int(events.sum()), int(violated.sum())
        known = events > 0
        risks: F64 = self._risks.values[known]
        # sum (r - y)^2  =  sum n r^2 - 2 y r + y, since y is 0 or 1
        squares = (events[known] * risks - 2 * violated[known]) * risks + violated[known]
        return WarningFigures(
            within=self._risks.within,
            threshold=round(self._risks.threshold, DECIMALS),
            sessions_warned=warned,
            warned_before=violating - missed,
            missed=missed,
            lead_events_median=_median(self._leads),
            brier=round(float(squares.sum()) / total, DECIMALS) if total else None,
            base_rate=round(hits / total, DECIMALS) if total else None,
            drift=_has_drifted(self._risks, self._contexts.next_events, self._contexts.next_violated),
        )


def _median(counts: Counter[int]) -> float | None:
    """Return the median of counted numbers, None without any."""
    if not counts:
        return None
    numbers = np.repeat(sorted(counts), [counts[number] for number in sorted(counts)])
    return float(np.median(numbers))


def _has_drifted(risks: FollowedRisks, events: I64, violated: I64) -> bool:
    """Return whether the sessions, as one tick of the detector, are evidence against the intervals.

    Each event is a bet against "a verdict comes next with at most the upper end of the context's interval".
    E-values of bets multiply in any order, so counts by context are enough.
    """
    logs = np.zeros(len(DRIFT_SETTINGS.ratios))
    trials, hits, expected = 0, 0, 0.0
    for context, count, found in zip(risks.contexts, events.tolist(), violated.tolist(), strict=False):
        if count and 0 < context.next_high < 1:
            tolerated = Tolerated(context.next_high)
            logs += [log_e(found, count, tolerated, ratio) for ratio in DRIFT_SETTINGS.ratios]
            trials, hits, expected = trials + count, hits + found, expected + count * context.next_high
    if not trials:
        return False
    tick = DetectorTick(hits, trials, expected / trials, tuple(logs.tolist()))
    _, alarm = step_tick(DetectorState(), tick, DRIFT_SETTINGS)
    return alarm is not None
