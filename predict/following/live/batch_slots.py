"""The occurrences of a batch that are followed, the rows of their events, and the runs before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....rules.engine.kernel_loop import NO_SLICE
from ....rules.labels.labelled_rows import LabelledRows
from ....rules.model.arrays import I32, I64, U8
from ..follow_loop import NO_SYMBOL_YET
from .followed_session import ABOVE, BETWEEN, CUT, STOPPED, FollowedSession


@dataclass(frozen=True, slots=True)
class BatchSlots:
    """The followed occurrences by slot: session and occurrence, and the state before, None where they begin.

    `rows` are the rows of their events slot by slot, between `bounds`, and `slots` the slot of each. `ended`
    are the slots whose occurrence has closed, with the rows of their ends, and `open` the others that a
    later batch may continue. `no_slices` has `NO_SLICE` for each row.
    """

    places: tuple[tuple[str, int], ...]
    states: tuple[FollowedSession | None, ...]
    rows: I64
    bounds: I64
    slots: I32
    ended: I64
    open: tuple[int, ...]
    no_slices: I32


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
    for row, (name, occurrence, is_end) in enumerate(
        zip(labelled.session_ids, occurrences, ends, strict=True)
    ):
        slot = known.get((name, occurrence))
        if slot is None:
            state = before.get(name)
            continues = state is not None and state.occurrence == occurrence
            if midway.get(name) == occurrence or (is_end and not continues):
                last.pop(name, None)
                continue
            slot = known[name, occurrence] = len(known)
            states.append(state if continues else None)
        last[name] = slot
        if is_end:
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
        no_slices=np.full(len(rows), NO_SLICE, dtype=np.int32),
    )


class CarriedRuns:
    """The runs of the slots that go on: `slots` are these, and the other arrays have a row for each.

    `rows` and `texts` have by rule the names of their rows and their last symbols, and `above`, `stopped` and
    `cut` the bits of their flags.

    Their symbols have numbers below `NO_SYMBOL_YET`, since events of the batch have numbers from 0 on.
    """

    def __init__(self, states: Sequence[FollowedSession | None], rules: int) -> None:
        self._states = [(slot, state) for slot, state in enumerate(states) if state is not None]
        self.slots: I64 = np.array([slot for slot, _ in self._states], dtype=np.int64)
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        bases: list[int] = []
        for _, state in self._states:
            bases.append(len(self._texts))
            self._texts += state.symbols
        texts = [
            [None if place < 0 else state.symbols[place] for place in state.lasts]
            for _, state in self._states
        ]
        self.texts: list[tuple[str | None, ...]] = list(zip(*texts, strict=True)) if texts else [()] * rules
        shape = len(self._states), rules
        data = b"".join([state.flags for _, state in self._states])
        self.flags: U8 = np.frombuffer(data, dtype=np.uint8).reshape(shape)
        self.above, self.stopped, self.cut = (self.flags.T & bit != 0 for bit in (ABOVE, STOPPED, CUT))
        places: I64 = np.array([state.lasts for _, state in self._states], dtype=np.int64).reshape(shape)
        numbers = NO_SYMBOL_YET - 1 - np.array(bases, dtype=np.int64)[:, None] - places
        self.symbols: I32 = np.where(places < 0, NO_SYMBOL_YET, numbers).astype(np.int32)
        named = [state.rows.split(BETWEEN) for _, state in self._states]
        self.rows: list[tuple[str, ...]] = list(zip(*named, strict=True)) if named else [()] * rules

    def number(self, text: str | None) -> int:
        """Return the number of a symbol in a slice's run."""
        if text is None:
            return NO_SYMBOL_YET
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = NO_SYMBOL_YET - 1 - len(self._texts)
            self._texts.append(text)
        return found

    def text(self, number: int) -> str | None:
        """Return the symbol with a number below 0, None where there is none yet."""
        return None if number == NO_SYMBOL_YET else self._texts[NO_SYMBOL_YET - 1 - number]
