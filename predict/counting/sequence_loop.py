"""The compiled loop that makes a rule's sequences of the events of sessions, and steps them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...rules.engine.kernel_loop import NO_SLICE, UNKNOWN_SLICE
from ...schemas.compiled import compiled
from ..chain.steps import CUT_CLOSING, CUT_STEP, UNMET_CLOSING, VIOLATED_STEP
from ..chain.walks import CLOSED, CLOSED_UNMET, CUT

NO_SYMBOL = -1
"""As the symbol of a place: `start`; as the successor of a sequence's last place: none, it was cut."""

END_SYMBOL = -2
"""The successor of the last place of a sequence that closed."""

NOT_SEEN = -1
"""The column of an event that the rule does not see."""

UNJUDGED_COLUMN, MAY_SKIP_COLUMN = np.uint8(1), np.uint8(2)
"""Bits of the marks of a column: the rule cannot judge the event, or may not see it."""


@compiled
def walk_sequences(begin: Any, events: Any, sessions: Any, tables: Any, sizes: Any, out: Any) -> Any:
    """Make and step the sequences of the sessions from `begin` on, while they fit.

    Return the next session, and the numbers of places and of sequences. `events` are the place of each
    event's symbol and columns, whether it is over the limit, and its slice; `tables` are symbols, columns of
    other events and of the slice's own, marks of columns, and the step table.
    """
    bounds, counted, is_open, born, births = sessions
    slices_max, is_sliced = sizes
    places = sequences = 0
    for slot in range(begin, len(counted)):
        if not counted[slot]:
            continue
        first, last = bounds[slot], bounds[slot + 1]
        stop, count = scan_session(first, last, events, tables[1], tables[3], slices_max, born, births)
        chains = max(count, 1)
        if places + chains * (stop - first + 1) > len(out[0]) or sequences + chains > len(out[3]):
            return slot, places, sequences
        for i in range(chains):
            member = births[i] if count else NO_SLICE
            is_cut = is_open[slot] or stop < last
            places = _walk(first, stop, member, is_cut, is_sliced, events, tables, places, sequences, out)
            out[4][sequences] = slot
            out[5][sequences] = member
            sequences += 1
    return len(counted), places, sequences


@compiled
def scan_session(
    first: Any, last: Any, events: Any, columns: Any, marks: Any, slices_max: Any, born: Any, births: Any
) -> Any:
    """Return the event before which the session's sequences stop, and the number of slices that begin.

    An event that cuts every sequence of the session, and has a symbol in some of them, is before it. `births`
    has the slices that begin, in their order; `born` is zero before and after.
    """
    stop, count = _scan(first, last, events, columns, marks, slices_max, born, births)
    for i in range(count):
        born[births[i]] = 0
    return stop, count


@compiled
def _scan(
    first: Any, last: Any, events: Any, columns: Any, marks: Any, slices_max: Any, born: Any, births: Any
) -> Any:
    codes, over, slices = events
    count = 0
    for i in range(first, last):
        if over[i]:
            return i, count
        column = columns[codes[i]]
        if column == NOT_SEEN:
            continue
        x = slices[i]
        if x == UNKNOWN_SLICE:
            return i, count
        if marks[column] & UNJUDGED_COLUMN:
            is_new = x >= 0 and born[x] == 0
            return (i if is_new else i + 1), count
        if x >= 0 and born[x] == 0:
            if count == slices_max or marks[column] & MAY_SKIP_COLUMN:
                return i, count
            born[x] = 1
            births[count] = x
            count += 1
    return last, count


@compiled
def _walk(
    first: Any,
    stop: Any,
    member: Any,
    is_cut: Any,
    is_sliced: Any,
    events: Any,
    tables: Any,
    place: Any,
    sequence: Any,
    out: Any,
) -> Any:
    """Write the places of one sequence and its end, and return the next place."""
    codes, _, slices = events
    symbols, columns, own_columns, _, following, verdicts, closings = tables
    row, ending, successor = 0, CUT, NO_SYMBOL
    out[3][sequence] = place
    out[0][place], out[1][place], out[2][place] = NO_SYMBOL, 0, False
    out[7][place] = -1
    place += 1
    for i in range(first, stop):
        code, x = codes[i], slices[i]
        if columns[code] == NOT_SEEN or (x >= 0 and x != member):
            continue
        is_own = is_sliced and x >= 0
        column = own_columns[code] if is_own else columns[code]
        symbol = 2 * symbols[code] + (1 if is_own else 0)
        verdict = verdicts[row, column]
        if verdict == CUT_STEP:
            out[6][sequence] = CUT
            out[8][sequence] = symbol
            return place
        row = following[row, column]
        out[0][place], out[1][place] = symbol, row
        out[2][place] = verdict == VIOLATED_STEP
        out[7][place] = i
        place += 1
    if not is_cut:
        closing = closings[row]
        successor = END_SYMBOL
        ending = CLOSED_UNMET if closing == UNMET_CLOSING else (CUT if closing == CUT_CLOSING else CLOSED)
    out[6][sequence] = ending
    out[8][sequence] = successor
    return place
