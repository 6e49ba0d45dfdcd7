"""The compiled loops that bet on events and on closes, for the loops that step the sequences."""

from __future__ import annotations

from typing import Any

from ...schemas.compiled import compiled
from ..chain.steps import CUT_CLOSING, UNMET_CLOSING
from .event_bets import SEQUENCES, TRIALS, VIOLATED


@compiled
def add_bet(event: Any, context: Any, is_violated: Any, weight: Any, bets: Any) -> None:
    """Bet the shares of so many equal sequences on an event, by their context before it."""
    values, gains, counts = bets
    # A verdict against the agent gains wherever there is a bet.
    if values[context, 1, 0]:
        outcome = 1 if is_violated else 0
        counts[event, TRIALS] += weight
        counts[event, VIOLATED] += outcome * weight
        for ratio in range(gains.shape[1]):
            gains[event, ratio] += weight * values[context, outcome, ratio]


@compiled
def bet_on_ends(slots: Any, first: Any, closings: Any, memory: Any, bets: Any) -> None:
    """Bet on the close of each of these sessions; the first has the bet at `first`, the next one the next."""
    sessions = len(memory.cut)
    for place in range(len(slots)):
        s, event = slots[place], first + place
        bets.counts[event, SEQUENCES] = max(memory.sizes[s], 1)
        x = memory.heads[s]
        run = s if x < 0 else sessions + x
        while run >= 0 and not memory.cut[s]:
            closing, context = closings[memory.rows[run]], memory.contexts[run]
            if not memory.stopped[run] and closing != CUT_CLOSING and context >= 0:
                add_bet(event, context, closing == UNMET_CLOSING, memory.weights[run], bets)
            x = -1 if run < sessions else memory.links[run - sessions]
            run = -1 if x < 0 else sessions + x
