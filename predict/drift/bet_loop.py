"""The compiled loop that bets on the events of sessions, step by step as `follow_loop` has them.

It is a loop of its own, which steps the sequences once more: both together take five times as long, since the
arrays of the tuples are then counted as references at each step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...rules.engine.kernel_loop import UNKNOWN_SLICE, njit
from ...rules.model.arrays import I32, I64, Mask
from ..chain.steps import CUT_CLOSING, CUT_STEP, UNMET_CLOSING, VIOLATED_STEP
from ..counting.sequence_loop import MAY_SKIP_COLUMN, NOT_SEEN, UNJUDGED_COLUMN
from .event_bets import SEQUENCES, TRIALS, VIOLATED


class BetMemory(NamedTuple):
    """The state of the sequences of sessions, as `FollowMemory` has it; it changes.

    `contexts` are the places of their contexts, negative without a risk. `weights` are the numbers of
    slices that the runs of slices stand for.
    """

    rows: I32
    contexts: I32
    stopped: Mask
    cut: Mask
    born: Mask
    heads: I32
    links: I32
    sizes: I32
    weights: I64


@njit
def bet_events(spans: Any, events: Any, tables: Any, slices_max: Any, memory: Any, bets: Any) -> None:
    """Bet on the events of each session in `spans`; the arguments are those of `follow_events`."""
    begins, ends = spans
    codes, over, slices = events
    columns, own_columns, marks, following, verdicts, places, _ = tables
    rows, contexts, stopped, cut, born, heads, links, sizes, weights = memory
    values, gains, counts = bets
    sessions = len(begins)
    for s in range(sessions):
        for i in range(begins[s], ends[s]):
            code, x = codes[i], slices[i]
            column = columns[code]
            is_seen = column != NOT_SEEN
            is_cut = is_seen and (x == UNKNOWN_SLICE or marks[column] & UNJUDGED_COLUMN)
            if cut[s] or over[i] or is_cut:
                cut[s] = True
                break
            if not is_seen:
                continue
            run, symbol, is_bet, known = s, 2 * code, heads[s] < 0, sizes[s]
            if x >= 0:
                # The events before a later slice were no bets on it.
                run, symbol, is_bet = sessions + x, symbol + 1, known == 0 or born[x]
                if not born[x]:
                    if known == slices_max or marks[column] & MAY_SKIP_COLUMN:
                        cut[s] = True
                        break
                    rows[run], contexts[run], stopped[run] = rows[s], contexts[s], stopped[s]
                    born[x], links[x], heads[s], sizes[s] = True, heads[s], x, known + 1
                column = own_columns[code]
            counts[i, SEQUENCES] = max(known, 1)
            while run >= 0:
                row, context = rows[run], contexts[run]
                verdict = verdicts[row, column]
                if verdict == CUT_STEP:
                    stopped[run] = True
                if not stopped[run]:
                    if is_bet and context >= 0:
                        weight = 1 if run < sessions else weights[run - sessions]
                        _bet(i, context, verdict == VIOLATED_STEP, weight, values, gains, counts)
                    row = following[row, column]
                    rows[run], contexts[run] = row, places[symbol, row]
                # An event without a value steps the session's own run, and then that of each slice.
                following_x = heads[s] if run < sessions else links[run - sessions]
                run, is_bet = -1 if x >= 0 or following_x < 0 else sessions + following_x, True


@njit
def _bet(
    event: Any, context: Any, is_violated: Any, weight: Any, values: Any, gains: Any, counts: Any
) -> None:
    """Bet the shares of so many equal sequences on an event, by their context before it."""
    # A verdict against the agent gains wherever there is a bet.
    if values[context, 1, 0]:
        outcome = 1 if is_violated else 0
        counts[event, TRIALS] += weight
        counts[event, VIOLATED] += outcome * weight
        for ratio in range(gains.shape[1]):
            gains[event, ratio] += weight * values[context, outcome, ratio]


@njit
def bet_on_ends(slots: Any, first: Any, closings: Any, memory: Any, bets: Any) -> None:
    """Bet on the close of each of these sessions; the first has the bet at `first`, the next one the next."""
    rows, contexts, stopped, cut, _, heads, links, sizes, weights = memory
    values, gains, counts = bets
    sessions = len(cut)
    for place in range(len(slots)):
        s, event = slots[place], first + place
        counts[event, SEQUENCES] = max(sizes[s], 1)
        x = heads[s]
        run = s if x < 0 else sessions + x
        while run >= 0 and not cut[s]:
            closing = closings[rows[run]]
            if not stopped[run] and closing != CUT_CLOSING and contexts[run] >= 0:
                weight = 1 if run < sessions else weights[run - sessions]
                _bet(event, contexts[run], closing == UNMET_CLOSING, weight, values, gains, counts)
            x = -1 if run < sessions else links[run - sessions]
            run = -1 if x < 0 else sessions + x
