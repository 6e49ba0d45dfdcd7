"""The compiled loops over rows in the order of their files: they number occurrences and check the order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...rules.engine.kernel_loop import njit

CLOSED = np.uint8(1)
COUNTED = np.uint8(2)
"""Flags of an occurrence: an `end` row or a later occurrence follows, and an event is in the window."""


@njit
def arrive(rows: Any, number: Any, table: Any, sessions: Any, occurrences: Any, counts: Any, out: Any) -> Any:
    """Number the occurrences of the rows of pass `number`; return the numbers of sessions and occurrences.

    A session whose rows are not in judged order, or repeat a place, is marked as disordered. `out` has the
    number of each row's occurrence, of an `end` row its complement.
    """
    firsts, seconds, begins, times, seqs, is_end, inside = rows
    current, disordered = sessions[2], sessions[3]
    session_of, begin_of, seq_of, last_of, flags, first_pass, last_pass, row_counts = occurrences
    session_count, count = counts
    for i in range(firsts.shape[0]):
        session, session_count = _session(firsts[i], seconds[i], table, sessions, session_count)
        now = current[session]
        if now < 0 or (begins[i] > begin_of[now] and not is_end[i]):
            if now >= 0:
                flags[now] |= CLOSED
            disordered[session] |= is_end[i]
            current[session] = now = count
            session_of[now], begin_of[now], seq_of[now], last_of[now] = session, begins[i], 0, times[i]
            flags[now], first_pass[now], row_counts[now] = 0, number, 0
            count += 1
        last_pass[now] = number
        row_counts[now] += 1
        if begins[i] != begin_of[now] or flags[now] & CLOSED or (seqs[i] <= seq_of[now] and not is_end[i]):
            disordered[session] = True
        if is_end[i]:
            flags[now] |= CLOSED
            out[i] = ~now
            continue
        seq_of[now] = seqs[i]
        last_of[now] = max(last_of[now], times[i])
        if inside[i]:
            flags[now] |= COUNTED
        out[i] = now
    return session_count, count


@njit
def _session(first: Any, second: Any, table: Any, sessions: Any, count: Any) -> Any:
    """Return the number of the session with these hashes, and how many sessions there are then.

    Two sessions whose first hashes are equal share a number and are marked as disordered.
    """
    keys, checks, current, disordered = sessions
    mask = np.uint64(table.shape[0] - 1)
    place = first & mask
    while table[place] >= 0 and keys[table[place]] != first:
        place = (place + np.uint64(1)) & mask
    session = table[place]
    if session >= 0:
        disordered[session] |= checks[session] != second
        return session, count
    table[place] = count
    keys[count], checks[count], current[count], disordered[count] = first, second, -1, False
    return count, count + 1


@njit
def fill_table(table: Any, keys: Any) -> Any:
    """Enter the sessions with these hashes into an empty table, whose size is a power of 2."""
    mask = np.uint64(table.shape[0] - 1)
    for session in range(keys.shape[0]):
        place = keys[session] & mask
        while table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        table[place] = session


@njit
def grouped(slots: Any, local: Any) -> Any:
    """Group rows by their occurrences, in the order of first rows, without changing the order within each.

    Return the places of the rows, the bounds of the groups, and the occurrence of each. `local` has -1 for
    every occurrence, also afterwards.
    """
    found = np.empty(slots.shape[0], dtype=np.int32)
    sizes = np.zeros(slots.shape[0] + 1, dtype=np.int64)
    count = 0
    for slot in slots:
        if local[slot] < 0:
            local[slot] = count
            found[count] = slot
            count += 1
        sizes[local[slot] + 1] += 1
    bounds = np.cumsum(sizes[: count + 1])
    following = bounds[:count].copy()
    places = np.empty(slots.shape[0], dtype=np.int64)
    for i in range(slots.shape[0]):
        group = local[slots[i]]
        places[following[group]] = i
        following[group] += 1
    for slot in found[:count]:
        local[slot] = -1
    return places, bounds, found[:count].copy()


@njit
def first_marked(marked: Any, rows: Any, bounds: Any) -> Any:
    """Return for each group of rows the first that is marked, or the first row where none is.

    The rows of group `g` are `rows[bounds[g]]` to `rows[bounds[g + 1] - 1]`.
    """
    found = np.empty(bounds.shape[0] - 1, dtype=np.int64)
    for group in range(bounds.shape[0] - 1):
        found[group] = rows[bounds[group]]
        for place in range(bounds[group], bounds[group + 1]):
            if marked[rows[place]]:
                found[group] = rows[place]
                break
    return found
