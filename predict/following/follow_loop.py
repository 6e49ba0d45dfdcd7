"""The compiled loop that steps the sequences of one rule event by event, bets, and finds crossings.

A session has a run for its events without a slice's value, and one for each slice, which begins as a copy of
that run. The first run reports no crossing once a slice has begun; each slice reports its own from there on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...rules.engine.kernel_loop import NO_SLICE, UNKNOWN_SLICE
from ...rules.model.arrays import F64, I32, I64, U8, Mask
from ...schemas.compiled import compiled
from ..chain.steps import CUT_STEP, VIOLATED_STEP
from ..counting.sequence_loop import MAY_SKIP_COLUMN, NOT_SEEN, UNJUDGED_COLUMN
from ..drift.bet_loop import add_bet
from ..drift.event_bets import SEQUENCES

DOWN, UP = 0, 1
"""Levels of a crossing."""

DOWN_SHARE = 0.8
"""A risk has come down where it is below this share of the threshold."""

NO_SYMBOL_YET = -1
"""The symbol of a run before its first event."""

NO_THRESHOLD = float("inf")
"""The threshold of a run that reports nothing."""


class FollowMemory(NamedTuple):
    """The state of the sequences of sessions: each session's own run, and then the run of each slice.

    A run has a row of the step table, the symbol of its last event (twice the code of the event, plus one
    where it carries the slice's value; negative before the first one), the place of its context, negative
    without a risk, whether its risk is above the threshold, and whether it was cut. It stands for as many
    equal sequences as its weight. A session may be cut, too. The slices of a session are a list from `heads`
    on, and `sizes` counts them.
    """

    rows: I32
    symbols: I32
    contexts: I32
    weights: I64
    above: Mask
    stopped: Mask
    cut: Mask
    born: Mask
    heads: I32
    links: I32
    sizes: I32


class FollowTables(NamedTuple):
    """The effect of events on the sequences of a rule.

    `columns` and `own_columns` are by code of an event, as `marks` are by column. `following` and `verdicts`
    are of the step table. `places[2 * code]` has by row the place of the risk in `values`, and the next row
    of it that of an event with the slice's value.
    """

    columns: I32
    own_columns: I32
    marks: U8
    following: I32
    verdicts: U8
    places: I32
    values: F64


class Crossings(NamedTuple):
    """Crossings: the event, the session and the slice, the place of the risk, and the level, by session."""

    events: I32
    slots: I32
    slices: I32
    places: I32
    levels: U8


@compiled
def follow_events(
    spans: Any,
    events: Any,
    tables: Any,
    slices_max: Any,
    threshold: Any,
    memory: Any,
    bets: Any,
    out: Any,
) -> Any:
    """Step the events of each session in `spans`, and return the number of crossings.

    `spans` are the first events and the ends by session; `events` are the codes of events, whether each is
    over the limit, and their slices. `memory` changes. The bets on the events are added to `bets`, and the
    crossings fill `out` as far as it has room.
    """
    begins, ends = spans
    codes, over, slices = events
    count, sessions = 0, len(begins)
    for s in range(sessions):
        for i in range(begins[s], ends[s]):
            code, x = codes[i], slices[i]
            column = tables.columns[code]
            if memory.cut[s] or over[i] or (column != NOT_SEEN and x == UNKNOWN_SLICE):
                memory.cut[s] = True
                break
            if column == NOT_SEEN:
                continue
            if tables.marks[column] & UNJUDGED_COLUMN:
                memory.cut[s] = True
                break
            known, is_bet = memory.sizes[s], memory.heads[s] < 0
            if x >= 0:
                # The events before a later slice were no bets on it.
                is_bet = is_bet or memory.born[x]
                if not memory.born[x]:
                    if known == slices_max or tables.marks[column] & MAY_SKIP_COLUMN:
                        memory.cut[s] = True
                        break
                    _begin(s, x, sessions, memory)
                at, column = (i, s, x, sessions + x), tables.own_columns[code]
                bets.counts[i, SEQUENCES] = max(known, 1)
                count = _step(at, 2 * code + 1, column, is_bet, tables, threshold, memory, bets, out, count)
                continue
            bets.counts[i, SEQUENCES] = max(known, 1)
            x = memory.heads[s]
            level = threshold if x < 0 else NO_THRESHOLD
            at = i, s, NO_SLICE, s
            count = _step(at, 2 * code, column, is_bet, tables, level, memory, bets, out, count)
            while x >= 0:
                at = i, s, x, sessions + x
                count = _step(at, 2 * code, column, True, tables, threshold, memory, bets, out, count)
                x = memory.links[x]
    return count


@compiled
def _begin(s: Any, x: Any, sessions: Any, memory: Any) -> None:
    """Begin a slice of a session: its run is a copy of the session's, below the threshold."""
    run = sessions + x
    memory.rows[run], memory.stopped[run], memory.above[run] = memory.rows[s], memory.stopped[s], False
    memory.symbols[run], memory.contexts[run] = memory.symbols[s], memory.contexts[s]
    memory.born[x] = True
    memory.links[x] = memory.heads[s]
    memory.heads[s] = x
    memory.sizes[s] += 1
    # The session's own run reports nothing from here on.
    memory.above[s] = False


@compiled
def _step(
    at: Any,
    symbol: Any,
    column: Any,
    is_bet: Any,
    tables: Any,
    threshold: Any,
    memory: Any,
    bets: Any,
    out: Any,
    count: Any,
) -> Any:
    """Step one run on an event, and return the number of crossings with that of this run."""
    event, slot, member, run = at
    row, context = memory.rows[run], memory.contexts[run]
    if memory.stopped[run]:
        return count
    verdict = tables.verdicts[row, column]
    if verdict == CUT_STEP:
        memory.stopped[run] = True
        return count
    if is_bet and context >= 0:
        add_bet(event, context, verdict == VIOLATED_STEP, memory.weights[run], bets)
    memory.rows[run] = row = tables.following[row, column]
    memory.symbols[run] = symbol
    memory.contexts[run] = place = tables.places[symbol, row]
    risk, is_above = tables.values[place], memory.above[run]
    # A rule that stopped has no risk (NaN), and is not above.
    stays = risk >= (DOWN_SHARE * threshold if is_above else threshold)
    if stays == is_above:
        return count
    memory.above[run] = stays
    if count < len(out.events):
        out.events[count], out.slots[count], out.slices[count] = event, slot, member
        out.places[count], out.levels[count] = place, UP if stays else DOWN
    return count + 1
