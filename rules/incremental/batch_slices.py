"""The slices of a batch: those with a value in it, and the classes that stand for all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import TypeAlias

import numpy as np
import polars as pl

from ..engine import kernel_loop
from ..engine.judge import CompiledRules
from ..model.arrays import I32, I64
from .carried_slices import CarriedEvent, CarriedSlice, CarriedSlices, slice_name, slice_value
from .carry_layout import SliceSlots
from .placed_events import OccurrenceSlot

ClassPlace: TypeAlias = tuple[int, int]
"""The slot of a session, and the number of a class of its slices."""


class BatchSlices:
    """The slice slots of a batch in the making, and the slices of each new row.

    `labels` has the labels of the new rows at `places`. The members of the `expanded` classes have a slot
    each. `rows` has the slice slot of each row and key, as `kernel.Rows`, and `bounds` those of the slices in
    each session's stream. `owned` has the own events of the carried slices by session.
    """

    def __init__(
        self,
        compiled: CompiledRules,
        slots: Sequence[OccurrenceSlot],
        row_slots: I32,
        labels: pl.DataFrame,
        places: I64,
        expanded: Set[ClassPlace],
    ) -> None:
        self._slots, self._keys = slots, compiled.program.keys
        self._known: dict[tuple[int, int, str], int] = {}
        self._owners, self._key_of, self._values = list[int](), list[int](), list[str]()
        self._classes, self._weights, self._runs = list[int](), list[int](), list[bytes | None]()
        self._own_counts: list[int] = []
        self.numbers: list[int | None] = []
        self.owned: list[list[CarriedEvent]] = [[] for _ in slots]
        self.bounds: I64 = np.zeros(len(slots) + 1, dtype=np.int64)
        for i, slot in enumerate(slots):
            for key, values in enumerate([] if slot.carried is None else slot.carried.slices):
                for value in values:
                    self._add(i, key, value)
            self.bounds[i + 1] = len(self._values)
        self._expand(expanded)
        self.rows: I32 = self._of_rows(row_slots.tolist(), labels, places.tolist())
        self._add_classes()

    def slice_slots(self) -> SliceSlots:
        """Return the slice slots."""
        return SliceSlots(
            np.array(self._owners, dtype=np.int32),
            np.array(self._key_of, dtype=np.int32),
            self._values,
            np.array(self._classes, dtype=np.int32),
            np.array(self._weights, dtype=np.int32),
            self._runs,
            self._own_starts(),
        )

    def _own_starts(self) -> I64:
        """Return the index of each slice's first event among the carried events and then the slices' own."""
        carried = sum(len(slot.carried.events) for slot in self._slots if slot.carried is not None)
        owners = np.array(self._owners, dtype=np.int64)
        counts = np.array(self._own_counts, dtype=np.int64)
        order = np.argsort(owners, kind="stable")
        starts = np.empty(len(counts), dtype=np.int64)
        starts[order] = carried + np.cumsum(counts[order]) - counts[order]
        return np.where(np.array(self._classes, dtype=np.int64) > 0, -1, starts)

    def _carried(self, slot: int) -> CarriedSlices:
        carried = self._slots[slot].carried
        return CarriedSlices() if carried is None else carried.sliced

    def _expand(self, expanded: Set[ClassPlace]) -> None:
        for slot in sorted({slot for slot, _ in expanded}):
            carried = self._carried(slot)
            numbers = {number for owner, number in expanded if owner == slot}
            for name, found in carried.members(numbers):
                self._add(slot, carried.classes[found.number].key, slice_value(name), found)

    def _of_rows(self, slots: list[int], labels: pl.DataFrame, places: list[int]) -> I32:
        """Return the slice slots of the rows, and add those that there are not yet."""
        rows = np.full((len(slots), self._keys), kernel_loop.NO_SLICE, dtype=np.int32)
        for key in range(self._keys):
            unknown: list[bool] = labels[f"su{key}"].to_list()
            values: list[str | None] = labels[f"s{key}"].to_list()
            if any(unknown):
                lost = [row for row, place in enumerate(places) if unknown[place]]
                rows[lost, key] = kernel_loop.UNKNOWN_SLICE
                values = [None if is_lost else value for value, is_lost in zip(values, unknown, strict=True)]
            sliced = [pair for pair in enumerate(map(values.__getitem__, places)) if pair[1] is not None]
            rows[[row for row, _ in sliced], key] = [
                self._member(slots[row], key, value) for row, value in sliced if value is not None
            ]
        return rows

    def _member(self, slot: int, key: int, value: str) -> int:
        """Return the slot of a single slice, which is added if there is none yet."""
        member = self._known.get((slot, key, value))
        if member is None:
            member = self._add(slot, key, value, self._carried(slot).find(slice_name(key, value)))
        return member

    def _add(self, slot: int, key: int, value: str, found: CarriedSlice | None = None) -> int:
        """Add the slot of a single slice, and return it."""
        member = self._known[slot, key, value] = len(self._values)
        events = () if found is None else found.events
        runs = None if found is None else self._carried(slot).classes[found.number].runs
        self.owned[slot] += events
        self._append(slot, key, value, 0, 1, runs, len(events))
        self.numbers.append(None if found is None else found.number)
        return member

    def _append(
        self, slot: int, key: int, value: str, number: int, weight: int, runs: bytes | None, owned: int
    ) -> None:
        self._owners.append(slot)
        self._key_of.append(key)
        self._values.append(value)
        self._classes.append(number)
        self._weights.append(weight)
        self._runs.append(runs)
        self._own_counts.append(owned)

    def _add_classes(self) -> None:
        """Add a slot for each class that has slices without a slot."""
        single = Counter(zip(self._owners, self.numbers, strict=True))
        for slot in range(len(self._slots)):
            for number, each in self._carried(slot).classes.items():
                rest = each.members - single[slot, number]
                if rest:
                    self._append(slot, each.key, "", number, rest, each.runs, 0)
                    self.numbers.append(number)
