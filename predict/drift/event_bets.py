"""The bets on the events of sessions as they come: "it violates with at most the probability of its context".

Each sequence that is known before the event has the same share of the stake, and bets it where the event
steps the sequence; a sequence that the event does not step is left as it is. So the e-value of the event is
the mean over the sequences, whatever slices they have, and its expectation is at most 1 given all before it.
"""

from __future__ import annotations

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


SEQUENCES, TRIALS, VIOLATED = range(3)
"""The counts of an event: sequences before it, those of them that bet, and those that were found against."""


class EventBets(NamedTuple):
    """The table of a rule's bets, and the bets on the events of a batch.

    `values` has the gains by context, outcome and ratio, 0 where a context has no bet. Those of an event's
    sequences add up in `gains`, and `counts` has its counts.
    """

    values: I64
    gains: I64
    counts: I32


class BatchBets(NamedTuple):
    """The bets of rules on the events of a batch and then on its ends, whose rows are `rows`, by rule."""

    rows: I64
    gains: I64
    counts: I32

    def logs(self) -> I64:
        """Return the log e-values by rule, event and ratio, in parts of `LOG_ONE`, rounded down."""
        sequences = np.maximum(self.counts[:, :, SEQUENCES, None], 1)
        # One array of this size is enough, and a new one for each operation takes longer than most of these.
        values = self.gains / (sequences * float(ONE))
        np.log1p(values, out=values)
        values *= LOG_ONE
        return np.floor(values, out=values).astype(np.int64)


def bet_values(highs: F64) -> I64:
    """Return the gains of a rule; `highs` are its limits by context."""
    with np.errstate(invalid="ignore"):
        is_bet: Mask = (highs > 0) & (highs < 1)
    values = np.floor(np.exp(log_bets(highs, SETTINGS)) * ONE).astype(np.int64) - ONE
    values[~is_bet] = 0
    return values


def no_bets(rules: int, rows: I64) -> BatchBets:
    """Return the bets of so many rules on events and ends before the first."""
    shape = rules, len(rows)
    gains = np.zeros((*shape, len(SETTINGS.ratios)), dtype=np.int64)
    return BatchBets(rows, gains, np.zeros((*shape, 3), dtype=np.int32))
