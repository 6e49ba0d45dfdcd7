"""The compiled loop that follows one rule over whole sessions, and counts the worth of its warnings.

A session is read once for each sequence of the rule in it. The crossings are those of `follow_loop`: a
session's run for its events without a slice's value reports its own until the first slice begins, which the
sequence of that slice has at its beginning; each slice reports those from its first own event on.

Most sequences of rules without slices are *calm*: closed, without a verdict, and never at the threshold. Of
them only the contexts are counted. All others are read again, entry by entry.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....rules.engine.kernel_loop import NO_SLICE
from ....rules.model.arrays import F64, I32, I64, U8, Mask
from ....schemas.compiled import compiled
from ...chain.steps import CUT_CLOSING, UNMET_CLOSING
from ...chain.walks import CLOSED, CLOSED_UNMET, CUT
from ...counting.sequence_loop import NOT_SEEN, scan_session
from ..follow_loop import DOWN, UP

CUTS, VIOLATES, IS_HIGH, STAYS_HIGH, HAS_RISK, IS_BET = (np.int64(1) << bit for bit in range(6))
"""Bits of an entry: the step cuts the sequence, or violates; the risk after it is at or above the threshold,
or not below the share at which it comes down; there is a risk; and it is bet on."""

STIRS = CUTS | VIOLATES | IS_HIGH
"""The bits of an entry after which a sequence is not calm."""

ROW_SHIFT, PLACE_SHIFT = 8, 40
"""The places in an entry of the first entry of the next row, and of the place of the risk."""

ROW_MASK = (np.int64(1) << (PLACE_SHIFT - ROW_SHIFT)) - 1

RATIOS = 4
"""Log e-values of a bet."""

_FIRST, _SECOND, _THIRD, _FOURTH = (np.uint64(ratio) for ratio in range(RATIOS))
"""Indices are unsigned: Numba tests signed ones for being negative."""

FAR = np.int64(1) << 40
"""A number of events that no session has."""


class BucketSpans(NamedTuple):
    """The sessions of a bucket: bounds of their events, the end of what is followed, and their state."""

    bounds: I64
    ends: I64
    counted: Mask
    open: Mask


class ArchiveTables(NamedTuple):
    """The effect of events on the sequences of a rule.

    `kinds` and `own_kinds` number by code what the rule makes of an event, and of one with the slice's value;
    `marks` are by kind. `entries[row * width + kind]` is an entry, and `closings[row]` the code of a close.
    An entry has `row * width` for the next row.
    """

    kinds: I32
    own_kinds: I32
    marks: U8
    entries: I64
    width: int
    closings: U8


class RuleLimits(NamedTuple):
    """Properties of a rule: whether it has slices and how many a session may have, its horizon, its bets."""

    is_sliced: bool
    is_betting: bool
    slices_max: int
    within: int


class Tallies(NamedTuple):
    """Counts of a rule, which grow, and those of a bucket's sessions by slot.

    `outcomes` counts the events after which each risk was looked up and whose sequence shows the whole
    horizon: twice the place of a risk has those without a verdict within it, and the next place those with
    one. `bets` counts likewise the bets of drift, and `table` has the log e-values of a bet by ratio.

    `visits` counts the events of calm sequences by the place of their risk.

    A session is `missed` where one of its sequences has no warning before its first verdict against the
    agent. `leads` are the least numbers of events between both, `FAR` without any.
    """

    outcomes: I64
    bets: I64
    table: F64
    visits: I64
    violating: Mask
    missed: Mask
    leads: I64


class Scratch(NamedTuple):
    """Room for the entries of a sequence, for marks of slices, and for the slices of a session."""

    entries: I64
    born: U8
    births: I32


class FollowedOut(NamedTuple):
    """Room for results: crossings as rows of event, slot, slice, risk and level; logs and slots of sequences.

    `logs` have `RATIOS` columns, and no rows where the rule bets on nothing, or has no slices: the bets of
    such a rule multiply, whatever session they are of.
    """

    crossings: I32
    logs: F64
    slots: I32


@compiled
def follow_sessions(
    begin: Any, sessions: Any, events: Any, tables: Any, limits: Any, tallies: Any, scratch: Any, out: Any
) -> Any:
    """Follow the sessions from `begin` on while the results fit.

    `events` are codes, whether they are over the limit, slices, and whether a verdict there counts. Return
    the next session, the room that it needs, and the numbers of crossings and of sequences.
    """
    used = sequences = np.int64(0)
    codes, over, slices, rated = events
    for slot in range(begin, len(sessions.counted)):
        if not sessions.counted[slot]:
            continue
        first, stop, count = sessions.bounds[slot], sessions.ends[slot], 0
        if limits.is_sliced:
            stop, count = scan_session(
                first,
                stop,
                (codes, over, slices),
                tables.kinds,
                tables.marks,
                limits.slices_max,
                scratch.born,
                scratch.births,
            )
        is_cut = sessions.open[slot] or stop < sessions.bounds[slot + 1]
        if not (limits.is_sliced or is_cut) and _is_calm(first, stop, codes, tables, tallies.visits):
            continue
        chains = max(count, 1)
        room = chains * (stop - first)
        if used + room > len(out.crossings) or sequences + chains > len(out.slots):
            return slot, max(room, chains), used, sequences
        for rank in range(chains):
            member = scratch.births[rank] if count else np.int32(NO_SLICE)
            span = first, stop, slot, member, rank == 0, is_cut
            used = _follow_sequence(
                span, codes, slices, rated, tables, limits, tallies, scratch.entries, out, used, sequences
            )
            out.slots[sequences] = slot
            sequences += 1
    return np.int64(len(sessions.counted)), np.int64(0), used, sequences


@compiled
def _is_calm(first: Any, stop: Any, codes: Any, tables: Any, visits: Any) -> Any:
    """Return whether a sequence without slices is calm when it closes, and count the visits if it is."""
    kinds, entries = tables.kinds, tables.entries
    row, calm = np.int64(0), stop
    for i in range(first, stop):
        kind = kinds[np.uint64(codes[i])]
        if kind == NOT_SEEN:
            continue
        entry = entries[np.uint64(row + kind)]
        if entry & STIRS:
            calm = i
            break
        row = entry >> ROW_SHIFT & ROW_MASK
        visits[np.uint64(entry >> PLACE_SHIFT)] += 1
    if calm == stop and _ending(False, _closing(row, tables)) == CLOSED:
        return True
    row = np.int64(0)
    for i in range(first, calm):
        kind = kinds[np.uint64(codes[i])]
        if kind != NOT_SEEN:
            entry = entries[np.uint64(row + kind)]
            row = entry >> ROW_SHIFT & ROW_MASK
            visits[np.uint64(entry >> PLACE_SHIFT)] -= 1
    return False


@compiled
def _closing(row: Any, tables: Any) -> Any:
    """Return the code of a close in the row whose first entry that is."""
    return tables.closings[row // max(tables.width, 1)]


@compiled
def _follow_sequence(
    span: Any,
    codes: Any,
    slices: Any,
    rated: Any,
    tables: Any,
    limits: Any,
    tallies: Any,
    read: Any,
    out: Any,
    used: Any,
    sequence: Any,
) -> Any:
    """Follow one sequence, count it, and return the number of crossings; `read` is room for its entries."""
    first, stop, slot, member, is_first, is_cut = span
    kinds, entries, is_sliced = tables.kinds, tables.entries, limits.is_sliced
    row = count = begun = last = np.int64(0)
    warned = verdict = np.int64(-1)
    reports, named = is_first, np.int32(NO_SLICE)
    above = False
    bits = np.int64(0)
    for i in range(first, stop):
        code = codes[i]
        kind = kinds[np.uint64(code)]
        if kind == NOT_SEEN:
            continue
        if is_sliced and slices[i] >= 0:
            if slices[i] != member:
                continue
            kind = tables.own_kinds[code]
            if not begun:
                reports, named, above, begun = True, member, False, count + 1
        entry = entries[np.uint64(row + kind)]
        if entry & CUTS:
            is_cut = True
            break
        row, last = entry >> ROW_SHIFT & ROW_MASK, i
        count += 1
        read[np.uint64(count)] = entry
        bits |= entry
        if verdict < 0:
            if entry & VIOLATES and rated[i]:
                verdict = count
            elif warned < 0 and entry & IS_HIGH:
                warned = count
        is_high = entry & (STAYS_HIGH if above else IS_HIGH) != 0
        if is_high != above and reports:
            above = is_high
            crossing = out.crossings[used]
            crossing[0], crossing[1], crossing[2] = i, slot, named
            crossing[3], crossing[4] = entry >> PLACE_SHIFT, UP if is_high else DOWN
            used += 1
    ending = _ending(is_cut, _closing(row, tables))
    if verdict < 0 and ending == CLOSED_UNMET and count and rated[last]:
        verdict = count + 1
    if verdict >= 0:
        tallies.violating[slot] = True
        if warned < 0:
            tallies.missed[slot] = True
        else:
            tallies.leads[slot] = min(tallies.leads[slot], verdict - warned)
    begun = 1 if is_first else begun
    if bits & VIOLATES or ending == CLOSED_UNMET:
        _count_outcomes(read, count, ending, limits.within, tallies.outcomes)
        logs = _bet(read, begun, count, ending, tallies)
    else:
        logs = _count_clean(read, begun, count, ending == CUT, limits.within, tallies)
    if is_sliced and limits.is_betting:
        for ratio in range(RATIOS):
            out.logs[sequence, ratio] = logs[ratio]
    return used


@compiled
def _ending(is_cut: Any, closing: Any) -> Any:
    """Return the ending of a sequence, which a close ends in a row with that code if nothing cut it."""
    if is_cut or closing == CUT_CLOSING:
        return CUT
    return CLOSED_UNMET if closing == UNMET_CLOSING else CLOSED


@compiled
def _count_outcomes(read: Any, count: Any, ending: Any, within: Any, outcomes: Any) -> None:
    """Count the outcome after each event of a sequence; the end of a cut one is not known."""
    is_cut = ending == CUT
    verdict = count + 1 if ending == CLOSED_UNMET else count + 1 + FAR
    for place in range(count, 0, -1):
        entry = read[np.uint64(place)]
        if entry & HAS_RISK and (not is_cut or count - place >= within):
            outcomes[np.uint64(2 * (entry >> PLACE_SHIFT) + (1 if verdict - place <= within else 0))] += 1
        if entry & VIOLATES:
            verdict = np.int64(place)


@compiled
def _added(at: Any, logs: Any, tallies: Any) -> Any:
    """Count a bet, whose place is `at`, and return the log e-values with its own."""
    tallies.bets[at] += 1
    table, (first, second, third, fourth) = tallies.table, logs
    return (
        first + table[at, _FIRST],
        second + table[at, _SECOND],
        third + table[at, _THIRD],
        fourth + table[at, _FOURTH],
    )


@compiled
def _bet(read: Any, begun: Any, count: Any, ending: Any, tallies: Any) -> Any:
    """Bet on the events of a sequence from the place `begun` on, and on none if that is 0.

    Return its log e-value by ratio.
    """
    logs = 0.0, 0.0, 0.0, 0.0
    for place in range(begun if begun else count + 1, count + 1):
        entry = read[np.uint64(place)]
        if not entry & IS_BET or (place == count and ending == CUT):
            continue
        is_lost = ending == CLOSED_UNMET if place == count else read[np.uint64(place + 1)] & VIOLATES != 0
        at = np.uint64(2 * (entry >> PLACE_SHIFT) + (1 if is_lost else 0))
        logs = _added(at, logs, tallies)
    return logs


@compiled
def _count_clean(read: Any, begun: Any, count: Any, is_cut: Any, within: Any, tallies: Any) -> Any:
    """Count the outcomes of a sequence without a verdict, and bet on its events, as both functions do."""
    outcomes, logs = tallies.outcomes, (0.0, 0.0, 0.0, 0.0)
    shown = count - within if is_cut else count
    begun, last = begun if begun else count + 1, count - 1 if is_cut else count
    for place in range(1, count + 1):
        entry = read[np.uint64(place)]
        at = np.uint64(2 * (entry >> PLACE_SHIFT))
        if entry & HAS_RISK and place <= shown:
            outcomes[at] += 1
        if entry & IS_BET and begun <= place <= last:
            logs = _added(at, logs, tallies)
    return logs
