"""The bets on the events of sessions as they come: "it violates with at most the probability of its context".

Each sequence that is known before the event has the same share of the stake, and bets it where the event
steps the sequence; a sequence that the event does not step is left as it is. So the e-value of the event is
the mean over the sequences, whatever slices they have, and its expectation is at most 1 given all before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...rules.model.arrays import F64, I32, I64, Mask
from ..detector import DetectorSettings
from ..validation.drift import log_bets

SETTINGS = DetectorSettings()
"""The settings of a live detector: those of alerts, with ticks of five minutes."""

ONE = 1 << 40
"""An e-value of 1: e-values are whole numbers of its part, so that their sums need no order."""
LOG_ONE = 1 << 20
"""A logarithm of 1, likewise."""


NO_BET = -1
"""The place of an event's bet without one."""
NO_RANK = -1
"""The rank of a rule without slices."""

SEQUENCES, TRIALS, VIOLATED = range(3)
"""The counts of an event: sequences before it, those of them that bet, and those that were found against."""


class EventBets(NamedTuple):
    """The tables of rules' bets, and the bets on the events of a batch.

    `values` has the gains by context, outcome and ratio, 0 where a context has no bet. An event is one bet of
    a rule without slices at most: `places` has twice its context, plus one where it is found against, and
    `NO_BET` without one. A rule with slices has a rank in `ranks`, by which the gains of an event's sequences
    add up in `gains`, and `counts` has its counts; other rules have the rank `NO_RANK`.
    """

    values: I64
    ranks: I32
    places: I32
    gains: I64
    counts: I32


class BetTables:
    """The bets of rules by context; `highs` are the limits, and `are_sliced` states which have slices."""

    def __init__(self, highs: F64, are_sliced: Sequence[bool]) -> None:
        self._values = bet_values(highs)
        # A bet on one sequence.
        self.logs: I64 = bet_logs(self._values, np.ones(len(highs), dtype=np.int32)[:, None, None])
        self.logs = self.logs.reshape(2 * len(highs), -1)
        self.sliced: I64 = np.flatnonzero(are_sliced)
        self._ranks: I32 = np.full(len(are_sliced), NO_RANK, dtype=np.int32)
        self._ranks[self.sliced] = np.arange(len(self.sliced))

    def begin(self, events: int) -> EventBets:
        """Return the bets on so many events and ends before the first."""
        places = np.full((len(self._ranks), events), NO_BET, dtype=np.int32)
        shape = len(self.sliced), events
        gains = np.zeros((*shape, len(SETTINGS.ratios)), dtype=np.int64)
        return EventBets(self._values, self._ranks, places, gains, np.zeros((*shape, 3), dtype=np.int32))


def bet_values(highs: F64) -> I64:
    """Return the gains of a rule; `highs` are its limits by context."""
    with np.errstate(invalid="ignore"):
        is_bet: Mask = (highs > 0) & (highs < 1)
    values = np.floor(np.exp(log_bets(highs, SETTINGS)) * ONE).astype(np.int64) - ONE
    values[~is_bet] = 0
    return values


def bet_logs(gains: I64, sequences: I32) -> I64:
    """Return the log e-values of gains that are shared by so many sequences, in parts of `LOG_ONE`."""
    return np.floor(np.log1p(gains / (sequences * float(ONE))) * LOG_ONE).astype(np.int64)
