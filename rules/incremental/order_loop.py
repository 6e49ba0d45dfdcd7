"""The compiled loops that put the rows of batches into judged order and find their occurrences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.kernel_loop import njit

NONE_CARRIED = np.iinfo(np.int64).min
"""The carried occurrence of a session without one."""


@njit
def ascends(order: Any, codes: Any, occurrences: Any, ends: Any, seqs: Any) -> Any:
    """Return whether the rows in this order, session by session, are in judged order without repeats."""
    for i in range(1, order.shape[0]):
        left, right = order[i - 1], order[i]
        if codes[left] != codes[right]:
            continue
        if occurrences[left] != occurrences[right]:
            if occurrences[left] > occurrences[right]:
                return False
        elif ends[left] != ends[right]:
            if ends[left]:
                return False
        elif seqs[left] >= seqs[right]:
            return False
    return True


@njit
def occurrences_of(order: Any, codes: Any, occurrences: Any, ends: Any, batches: Any, carried: Any) -> Any:
    """Return the events of rows in judged order, and the occurrences that they are of or that are carried.

    `carried` has the carried occurrence of each session, or `NONE_CARRIED`; sessions are numbered by `codes`.
    The result is the rows of events, and of each occurrence its session, its time, the bounds of its events
    among these rows, and the batch in which it closes, -1 while it is open. An occurrence closes with its
    first `end` row, else with the first event of the next one. The carried occurrence of a session comes
    first if it has no event.
    """
    rows = np.empty(order.shape[0], dtype=np.int64)
    found = np.empty((order.shape[0] + carried.shape[0], 5), dtype=np.int64)
    used, count, at = 0, 0, 0
    for session in range(carried.shape[0]):
        begin, last = at, at
        while last < order.shape[0] and codes[order[last]] == session:
            last += 1
        if carried[session] != NONE_CARRIED:
            found[count] = session, carried[session], 0, 0, -1
            count += 1
            while at < last:
                if occurrences[order[at]] == carried[session]:
                    if not ends[order[at]]:
                        # It has events, and comes in its turn.
                        count -= 1
                        break
                    batch = found[count - 1, 4]
                    closes = batches[order[at]]
                    found[count - 1, 4] = closes if batch < 0 else min(batch, closes)
                at += 1
        at = begin
        while at < last:
            occurrence, first = occurrences[order[at]], used
            closes = -1
            while at < last and occurrences[order[at]] == occurrence:
                row = order[at]
                if not ends[row]:
                    rows[used] = row
                    used += 1
                elif closes < 0 or batches[row] < closes:
                    closes = batches[row]
                at += 1
            if used > first:
                if count and found[count - 1, 0] == session and found[count - 1, 4] < 0:
                    found[count - 1, 4] = batches[rows[first]]
                found[count] = session, occurrence, first, used, closes
                count += 1
    return rows[:used], found[:count]
