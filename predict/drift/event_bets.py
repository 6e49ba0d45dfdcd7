"""The bets on the events of sessions as they come: "it violates with at most the probability of its context".

Each sequence that is known before the event has the same share of the stake, and bets it where the event
steps the sequence; a sequence that the event does not step is left as it is. So the e-value of the event is
the mean over the sequences, whatever slices they have, and its expectation is at most 1 given all before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...rules.engine.kernel_loop import njit
from ...rules.model.arrays import F64, I32, I64, Mask
from ..chain.steps import CUT_CLOSING, UNMET_CLOSING
from ..detector import DetectorSettings
from ..validation.drift import log_bets

SETTINGS = DetectorSettings()
"""The settings of a live detector: those of alerts, with ticks of five minutes."""

ONE = 1 << 40
"""An e-value of 1: e-values are whole numbers of its part, so that their sums need no order."""
LOG_ONE = 1 << 20
"""A logarithm of 1, likewise."""


class EventBets(NamedTuple):
    """The table of a rule's bets, and the bets on the events of a batch.

    `values` has the e-values by context, outcome and ratio; `is_bet` is false of contexts without a bet.
    The gains of the sequences add up in `gains`, `sequences` is their number before the event, `trials` are
    those that bet, and `violated` those of them that were found against.
    """

    values: I64
    is_bet: Mask
    gains: I64
    sequences: I32
    trials: I32
    violated: I32

    def clear(self) -> None:
        """Forget the bets on events."""
        for array in (self.gains, self.trials, self.violated):
            array[:] = 0

    def logs(self, events: I64) -> I64:
        """Return the log e-values of events by ratio, in parts of `LOG_ONE`, rounded down."""
        shares = self.gains[events] / (self.sequences[events, None] * float(ONE))
        return np.floor(np.log1p(shares) * LOG_ONE).astype(np.int64)


def event_bets(highs: F64, events: int) -> EventBets:
    """Return a rule's bets on so many events before the first; `highs` are by context, the last one NaN."""
    with np.errstate(invalid="ignore"):
        is_bet: Mask = (highs > 0) & (highs < 1)
    values = np.floor(np.exp(log_bets(highs, SETTINGS)) * ONE).astype(np.int64)
    return for_events(EventBets(values, is_bet, *_none(0)), events)


def for_events(bets: EventBets, events: int) -> EventBets:
    """Return bets of the same table on so many events."""
    return EventBets(bets.values, bets.is_bet, *_none(events))


def _none(events: int) -> tuple[I64, I32, I32, I32]:
    sequences, trials, violated = (np.zeros(events, dtype=np.int32) for _ in range(3))
    return np.zeros((events, len(SETTINGS.ratios)), dtype=np.int64), sequences, trials, violated


NO_BETS = event_bets(np.full(1, np.nan), 0)
"""The bets where none are counted."""


@njit
def bet(event: Any, context: Any, is_violated: Any, bets: Any) -> None:
    """Bet a sequence's share on an event; `context` is that of the sequence before it, negative without."""
    if not len(bets.trials) or context < 0 or not bets.is_bet[context]:
        return
    outcome = 1 if is_violated else 0
    bets.trials[event] += 1
    bets.violated[event] += outcome
    for ratio in range(bets.gains.shape[1]):
        bets.gains[event, ratio] += bets.values[context, outcome, ratio] - ONE


@njit
def bet_on_ends(slots: Any, first: Any, closings: Any, memory: Any, bets: Any) -> None:
    """Bet on the close of each of these sessions; the first has the bet at `first`, the next one the next."""
    sessions = len(memory.cut)
    for place in range(len(slots)):
        s = slots[place]
        bets.sequences[first + place] = max(memory.sizes[s], 1)
        if memory.cut[s]:
            continue
        x = memory.heads[s]
        if x < 0:
            _bet_on_end(s, first + place, closings, memory, bets)
        while x >= 0:
            _bet_on_end(sessions + x, first + place, closings, memory, bets)
            x = memory.links[x]


@njit
def _bet_on_end(run: Any, event: Any, closings: Any, memory: Any, bets: Any) -> None:
    closing = closings[memory.rows[run]]
    if not memory.stopped[run] and closing != CUT_CLOSING:
        bet(event, memory.contexts[run], closing == UNMET_CLOSING, bets)
