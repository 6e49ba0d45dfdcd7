"""The compiled loop that lists the runs of a batch whose trails are stepped."""

from __future__ import annotations

from typing import Any

from ...schemas.compiled import compiled
from ..engine.kernel_loop import UNBORN


@compiled
def list_runs(alive: Any, slices: Any, layout: Any, spans: Any, asked: Any, members: Any, out: Any) -> Any:
    """List the runs by slot, column and slice slot, those without a slice first; return their number.

    `alive` states which column of which slot is not dead, and `slices` has the owners and keys of slice
    slots, their states and where their trails begin. `spans` are the bounds of the rows of each slot.
    `asked` are slots, columns and slice slots in that order, and `bounds` gets where those of each run begin.
    `members` is room for the slice slots by owner.
    """
    owners, keys, slice_state, slice_offsets = slices
    groups, offsets, slot_size = layout
    firsts, by_owner = members
    begins, ends, columns, slice_slots, starts, bounds = out
    _group(owners, firsts, by_owner)
    used = at = 0
    for s in range(alive.shape[0]):
        key = -1
        for c in range(alive.shape[1]):
            while key + 1 < groups.shape[0] and groups[key + 1] <= c:
                key += 1
            if not alive[s, c]:
                continue
            for place in range(firsts[s] - 1, firsts[s + 1] if key >= 0 else firsts[s]):
                x = by_owner[place] if place >= firsts[s] else -1
                if x < 0:
                    starts[used] = s * slot_size + offsets[c]
                elif keys[x] != key or slice_state[x, c - groups[key]] == UNBORN:
                    continue
                else:
                    starts[used] = slice_offsets[x] + offsets[c] - offsets[groups[key]]
                while at < asked[0].shape[0] and _is_before(asked, at, s, c, x):
                    at += 1
                begins[used], ends[used] = spans[0][s], spans[1][s]
                columns[used], slice_slots[used], bounds[used] = c, x, at
                used += 1
    bounds[used] = asked[0].shape[0]
    return used


@compiled
def _group(owners: Any, firsts: Any, by_owner: Any) -> Any:
    """Put the slice slots in the order of their owners; `firsts` gets where those of each begin."""
    firsts[:] = 0
    for s in owners:
        firsts[s + 1] += 1
    for s in range(1, firsts.shape[0]):
        firsts[s] += firsts[s - 1]
    for x in range(owners.shape[0] - 1, -1, -1):
        firsts[owners[x] + 1] -= 1
        by_owner[firsts[owners[x] + 1]] = x
    # Each place now has the beginning of the owner before it.
    for s in range(firsts.shape[0] - 1):
        firsts[s] = firsts[s + 1]
    firsts[firsts.shape[0] - 1] = owners.shape[0]


@compiled
def _is_before(asked: Any, at: Any, s: Any, c: Any, x: Any) -> Any:
    """Return whether a place that is asked for is of an earlier run."""
    slots, columns, slices = asked
    if slots[at] != s:
        return slots[at] < s
    if columns[at] != c:
        return columns[at] < c
    return slices[at] < x
