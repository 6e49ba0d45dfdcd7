"""The occurrences of a batch that are followed, and the rows of their events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...rules.engine.sessions import numbers
from ...rules.model.arrays import I32, I64
from ...schemas.event import Kind
from .followed_session import FollowedSession

_END = [kind.value for kind in Kind].index(Kind.END.value)


@dataclass(frozen=True, slots=True)
class BatchSlots:
    """The followed occurrences by slot: session and occurrence, and the state before, None where they begin.

    `rows` are the rows of their events slot by slot, between `bounds`, and `slots` the slot of each. `open`
    are the slots whose occurrence has not closed.
    """

    places: tuple[tuple[str, int], ...]
    states: tuple[FollowedSession | None, ...]
    rows: I64
    bounds: I64
    slots: I32
    open: tuple[int, ...]


def batch_slots(
    labelled: pl.DataFrame, before: Mapping[str, FollowedSession], midway: Mapping[str, int]
) -> BatchSlots:
    """Return the slots of a batch, whose rows have each session's events and `end` rows in judged order.

    An occurrence of `midway` has none, and neither has one of which nothing but the end is known.
    """
    known: dict[tuple[str, int], int] = {}
    states: list[FollowedSession | None] = []
    last: dict[str, int] = {}
    ended: set[int] = set()
    rows: list[int] = []
    slots: list[int] = []
    names: list[str] = labelled["session_id"].to_list()
    occurrences: list[int] = numbers(labelled["occurrence"]).tolist()
    kinds: list[int] = labelled["kind"].to_physical().to_list()
    for row, (name, occurrence, kind) in enumerate(zip(names, occurrences, kinds, strict=True)):
        slot = known.get((name, occurrence))
        if slot is None:
            state = before.get(name)
            continues = state is not None and state.occurrence == occurrence
            if midway.get(name) == occurrence or (kind == _END and not continues):
                last.pop(name, None)
                continue
            slot = known[name, occurrence] = len(known)
            states.append(state if continues else None)
        last[name] = slot
        if kind == _END:
            ended.add(slot)
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
        open=tuple(sorted(set(last.values()) - ended)),
    )
