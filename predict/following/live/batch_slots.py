"""The occurrences of a batch that are followed, the rows of their events, and the runs before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ....rules.labels.labelled_rows import LabelledRows
from ....rules.model.arrays import I32, I64
from .followed_session import FollowedSession


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
    rows: list[int] = []
    slots: list[int] = []
    occurrences: list[int] = labelled.columns.column("occurrence")
    ends: list[bool] = labelled.ends.tolist()
    previous, slot = None, None
    for row, place in enumerate(zip(labelled.session_ids, occurrences, strict=True)):
        name, occurrence = place
        # A session's events mostly follow one another.
        if place != previous or ends[row]:
            previous, slot = place, known.get(place)
            if slot is None:
                state = before.get(name)
                continues = state is not None and state.occurrence == occurrence
                if midway.get(name) == occurrence or (ends[row] and not continues):
                    last.pop(name, None)
                    previous = None
                    previous = None
                    continue
                slot = known[place] = len(known)
                states.append(state if continues else None)
            last[name] = slot
        if slot is None:
            continue
        if ends[row]:
            ended[slot] = row
        else:
            rows.append(row)
            slots.append(slot)
    order = np.argsort(np.array(slots, dtype=np.int64), kind="stable")
    of_rows = np.array(slots, dtype=np.int32)[order]
    return BatchSlots(
        places=tuple(known),
        states=tuple(states),
        rows=np.array(rows, dtype=np.int64)[order],
        bounds=np.searchsorted(of_rows, np.arange(len(known) + 1)).astype(np.int64),
        slots=of_rows,
        ended=np.array(sorted(ended.items()), dtype=np.int64).reshape(-1, 2),
        open=tuple(sorted(set(last.values()) - ended.keys())),
    )
