"""The worth of a rule's warnings over the sessions of an archive: warned and missed ones, Brier score, drift.

All that is counted are whole numbers, so that the figures do not depend on the order of sessions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I32, I64, Mask
from ..counting.sequences import Sequences
from ..detector import DetectorState, DetectorTick, step_tick
from ..validation.drift import DRIFT_SETTINGS, log_bets, of_sessions, ranks_of
from .followed_risks import FollowedRisks
from .warning_loop import FAR, ContextOutcomes, DriftBets, FollowedPlaces, SessionWarnings, count_warnings

DECIMALS = 9
"""Decimals of a figure at most."""

LOG_UNIT = 1 << 30
"""Logarithms of e-values are whole numbers of this part: rounded down, they add up in any order."""


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

    def __init__(self, risks: FollowedRisks, *, is_sliced: bool) -> None:
        self._risks, self._is_sliced = risks, is_sliced
        size = len(risks.values)
        self._contexts = ContextOutcomes(_zeros(size), _zeros(size))
        self._highs = risks.next_highs
        self._table = log_bets(self._highs, DRIFT_SETTINGS)
        self._bets, self._lost = _zeros(size), _zeros(size)
        self._logs = _zeros(len(DRIFT_SETTINGS.ratios))
        self._leads = Counter[int]()

    def begin(self, slots: int) -> SessionWarnings:
        """Return the warnings of a bucket's sessions before its sequences are counted."""
        violating, missed = np.zeros(slots, dtype=np.bool_), np.zeros(slots, dtype=np.bool_)
        return SessionWarnings(violating, missed, np.full(slots, FAR, dtype=np.int64))

    def count(self, found: Sequences, risks: I32, counted: Mask, sessions: SessionWarnings) -> None:
        """Count sequences with the places of their risks; `counted` are the events whose verdicts count."""
        places = FollowedPlaces(
            bounds=found.bounds.astype(np.int64),
            slots=found.slots,
            endings=found.endings,
            violated=found.violated,
            counted=counted[found.events],
            risks=risks,
            values=self._risks.values,
            has_own=(found.symbols >= 0) & (found.symbols % 2 == 1),
            ranks=ranks_of(found.slots),
        )
        within = FAR if self._risks.within is None else self._risks.within
        logs = np.zeros((len(found.slots), len(DRIFT_SETTINGS.ratios)))
        is_bet = (self._highs > 0) & (self._highs < 1)
        bets = DriftBets(self._bets, self._lost, is_bet, self._table, logs)
        count_warnings(places, within, self._risks.threshold, sessions, self._contexts, bets)
        _, numbers = np.unique(found.slots, return_inverse=True)
        of_session = of_sessions(logs, numbers, places.ranks if self._is_sliced else None)
        self._logs += np.floor(of_session * LOG_UNIT).astype(np.int64).sum(axis=0)

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
            drift=self.has_drifted(),
        )

    def has_drifted(self) -> bool:
        """Return whether the sessions, as one tick of the detector, are evidence against the intervals."""
        trials, lost = int(self._bets.sum()), int(self._lost.sum())
        if not trials:
            return False
        expected = float(np.nansum(self._bets * self._highs))
        logs = tuple((self._logs / LOG_UNIT).tolist())
        _, alarm = step_tick(
            DetectorState(), DetectorTick(lost, trials, expected / trials, logs), DRIFT_SETTINGS
        )
        return alarm is not None


def _zeros(size: int) -> I64:
    return np.zeros(size, dtype=np.int64)


def _median(counts: Counter[int]) -> float | None:
    """Return the median of counted numbers, None without any."""
    if not counts:
        return None
    numbers = np.repeat(sorted(counts), [counts[number] for number in sorted(counts)])
    return float(np.median(numbers))
