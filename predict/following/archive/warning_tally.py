"""The worth of a rule's warnings over the sessions of an archive: warned and missed ones, Brier score, drift.

All that is counted are whole numbers, so that the figures do not depend on the order of sessions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from operator import mul

import numpy as np

from ....rules.model.arrays import F64, I32, I64, Mask
from ...detector import DetectorState, DetectorTick, step_tick
from ...validation.drift import DRIFT_SETTINGS, log_bets, of_sessions, ranks_of
from ..followed_risks import FollowedRisks
from .session_loop import FAR, RATIOS, Tallies

LOG_UNIT = 1 << 30
"""Logarithms of the e-values of sessions are whole numbers of this part: rounded down, they add up in any
order."""
BET_UNIT = 1 << 40
"""Likewise those of bets. An archive has more of these, so their parts are smaller."""

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
        assert len(DRIFT_SETTINGS.ratios) == RATIOS, "the loop adds as many log e-values"
        size = len(risks.values)
        self._counted_outcomes, self._counted_bets = _zeros(2 * size), _zeros(2 * size)
        self._visits = _zeros(size)
        self._highs = risks.next_highs
        self._table = log_bets(self._highs, DRIFT_SETTINGS).reshape(2 * size, RATIOS)
        self._logs: I64 | None = None
        self._leads = Counter[int]()

    @cached_property
    def is_bet(self) -> Mask:
        """Return which risks are bet on."""
        return (self._highs > 0) & (self._highs < 1)

    def begin(self, slots: int) -> Tallies:
        """Return the counts, with those of a bucket's sessions before its sequences are followed."""
        violating, missed = np.zeros(slots, dtype=np.bool_), np.zeros(slots, dtype=np.bool_)
        leads = np.full(slots, FAR, dtype=np.int64)
        return Tallies(
            self._counted_outcomes,
            self._counted_bets,
            self._table,
            self._visits,
            violating,
            missed,
            leads,
        )

    def add_logs(self, logs: F64, slots: I32) -> None:
        """Add the log e-values of the slices of sessions.

        Their slots ascend; those of a session are all among them.
        """
        if not len(logs):
            return
        sessions = np.cumsum(np.append(False, slots[1:] != slots[:-1]))
        of_session = of_sessions(logs, sessions, ranks_of(slots))
        before = _zeros(RATIOS) if self._logs is None else self._logs
        self._logs = before + np.floor(of_session * LOG_UNIT).astype(np.int64).sum(axis=0)

    def end(self, tallies: Tallies) -> None:
        """Count the sessions of a bucket, whose sequences are followed."""
        self._leads.update(tallies.leads[tallies.violating & ~tallies.missed].tolist())

    def figures(self, warned: int, violating: int, missed: int) -> WarningFigures:
        """Return the figures of all sessions, given the numbers of those with crossings and verdicts."""
        violated = self._counted_outcomes[1::2]
        events = self._counted_outcomes[::2] + violated
        # A calm sequence has no verdict.
        events[~np.isnan(self._risks.values)] += self._visits[~np.isnan(self._risks.values)]
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
        won, lost = self._counted_bets[::2] + self._visits * self.is_bet, self._counted_bets[1::2]
        bets = won + lost
        trials = int(bets.sum())
        if not trials:
            return False
        expected = float(np.nansum(bets * self._highs))
        if self._logs is None:
            logs = _summed(np.stack([won, lost], axis=1).ravel(), self._table)
        else:
            logs = tuple((self._logs / LOG_UNIT).tolist())
        _, alarm = step_tick(
            DetectorState(), DetectorTick(int(lost.sum()), trials, expected / trials, logs), DRIFT_SETTINGS
        )
        return alarm is not None


def _summed(bets: I64, table: F64) -> tuple[float, ...]:
    """Return the log e-values of so many bets of each kind, given those of one of each."""
    made = np.flatnonzero(bets)
    units = np.floor(table[made] * BET_UNIT).astype(np.int64).T.tolist()
    counts: list[int] = bets[made].tolist()
    return tuple(sum(map(mul, counts, of_ratio)) / BET_UNIT for of_ratio in units)


def _zeros(size: int) -> I64:
    return np.zeros(size, dtype=np.int64)


def _median(counts: Counter[int]) -> float | None:
    """Return the median of counted numbers, None without any."""
    if not counts:
        return None
    numbers = np.repeat(sorted(counts), [counts[number] for number in sorted(counts)])
    return float(np.median(numbers))
