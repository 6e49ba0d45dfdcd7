"""The occurrences of a batch that are followed, the rows of their events, and the runs before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from ....rules.labels.labelled_rows import LabelledRows
from ....rules.model.arrays import I32, I64, Mask
from .followed_session import FollowedSession

NO_SLOT = -1
"""The slot of a row that is not followed."""


@dataclass(frozen=True, slots=True)
class BatchSlots:
    """The followed occurrences by slot: session and occurrence, and the state before, None where they begin.

    `rows` are the rows of their events slot by slot, between `bounds`, and `slots` the slot of each. `ended`
    are the slots whose occurrence has closed, with the rows of their ends, and `open` the others that a
    later batch may continue.
    """

    places: tuple[tuple[str, int], ...]
    states: tuple[FollowedSession | None, ...]
    rows: I64
    bounds: I64
    slots: I32
    ended: I64
    open: tuple[int, ...]


def batch_slots(
    labelled: LabelledRows, before: Mapping[str, FollowedSession], midway: Mapping[str, int]
) -> BatchSlots:
    """Return the slots of a batch, whose rows have each session's events and `end` rows in judged order.

    An occurrence of `midway` has none, and neither has one of which nothing but the end is known.
    """
    known: dict[tuple[str, int], int] = {}
    states: list[FollowedSession | None] = []
    last: dict[str, int] = {}
    ended: dict[int, int] = {}
    found: list[int] = []
    (codes, names), ends = labelled.sessions, labelled.ends
    runs = _runs(codes, labelled.occurrences, ends)
    columns = (runs, codes[runs], labelled.occurrences[runs], ends[runs])
    for row, code, occurrence, is_end in cast("list[list[int]]", np.stack(columns, axis=1).tolist()):
        name = names[code]
        slot = known.get((name, occurrence))
        if slot is None:
            state = before.get(name)
            continues = state is not None and state.occurrence == occurrence
            if midway.get(name) == occurrence or (is_end and not continues):
                last.pop(name, None)
                found.append(NO_SLOT)
                continue
            slot = known[name, occurrence] = len(known)
            states.append(state if continues else None)
        last[name] = slot
        found.append(slot)
        if is_end:
            ended[slot] = row
    slots = np.repeat(np.array(found, dtype=np.int32), np.diff(np.append(runs, len(codes))))
    rows = np.flatnonzero((slots != NO_SLOT) & ~ends)
    rows = rows[np.argsort(slots[rows], kind="stable")]
    return BatchSlots(
        places=tuple(known),
        states=tuple(states),
        rows=rows,
        bounds=np.searchsorted(slots[rows], np.arange(len(known) + 1)).astype(np.int64),
        slots=slots[rows],
        ended=np.array(sorted(ended.items()), dtype=np.int64).reshape(-1, 2),
        open=tuple(sorted(set(last.values()) - ended.keys())),
    )


def _runs(sessions: I64, occurrences: I64, ends: Mask) -> I64:
    """Return the first row of each run of events of one occurrence; each end is a run of its own."""
    is_first = np.ones(len(ends), dtype=np.bool_)
    is_first[1:] = (sessions[1:] != sessions[:-1]) | (occurrences[1:] != occurrences[:-1])
    is_first[1:] |= ends[1:] | ends[:-1]
    return np.flatnonzero(is_first)
