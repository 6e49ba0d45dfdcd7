"""The slices of a batch: those with a value in it, and the classes that stand for all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import compress
from typing import TypeAlias, cast

import numpy as np

from ..engine import kernel_loop
from ..engine.judge import CompiledRules
from ..labels.labelled_rows import Slices
from ..model.arrays import I32, I64
from .carried_slices import CarriedEvent, CarriedSlice, CarriedSlices, slice_name, slice_value
from .carry_layout import SliceSlots
from .placed_events import OccurrenceSlot, PlacedRows

ClassPlace: TypeAlias = tuple[int, int]
"""The slot of a session, and the number of a class of its slices."""
_SliceSlot: TypeAlias = tuple[int, int, str, int, int, bytes | None, int, int | None]
"""Owner, key, value, class, weight and runs of a slice slot, the number of its events, its class before."""


class BatchSlices:
    """The slice slots of a batch in the making, and the slices of each new row.

    `placed` are the new rows and `slices` those of their slices by key. The members of the `expanded` classes
    have a slot each. `rows` has the slice slot of each row and key, as `kernel.Rows`, and `bounds` those of
    the slices in each session's stream. `owned` has the own events of the carried slices by session, and
    `numbers` the class of each slice slot before the batch.
    """

    def __init__(
        self,
        compiled: CompiledRules,
        slots: Sequence[OccurrenceSlot],
        placed: PlacedRows,
        slices: Sequence[Slices],
        expanded: Set[ClassPlace],
    ) -> None:
        self._slots, self._keys = slots, compiled.program.keys
        none = CarriedSlices()
        self._sliced = [none if slot.carried is None else slot.carried.sliced for slot in slots]
        self._made: list[_SliceSlot] = []
        self.owned: list[list[CarriedEvent]] = [[] for _ in slots]
        self.bounds: I64 = np.zeros(len(slots) + 1, dtype=np.int64)
        self._known: list[dict[tuple[int, str], int]] = [{} for _ in range(self._keys)]
        for i, slot in enumerate(slots):
            for key, values in enumerate([] if slot.carried is None else slot.carried.slices):
                for value in values:
                    self._add(i, key, value, None)
            self.bounds[i + 1] = len(self._made)
        self._expand(expanded)
        self.rows: I32 = self._of_rows(placed, slices)
        self._add_classes()
        self.numbers: list[int | None] = [each[7] for each in self._made]

    def slice_slots(self) -> SliceSlots:
        """Return the slice slots."""
        owners, keys, values, classes, weights, runs, events, _ = (
            zip(*self._made, strict=True) if self._made else [()] * 8
        )
        return SliceSlots(
            np.array(owners, dtype=np.int32),
            np.array(keys, dtype=np.int32),
            values,
            np.array(classes, dtype=np.int32),
            np.array(weights, dtype=np.int32),
            runs,
            self._own_starts(owners, events, classes),
        )

    def _own_starts(self, owners: Sequence[int], events: Sequence[int], classes: Sequence[int]) -> I64:
        """Return the index of each slice's first event among the carried events and then the slices' own."""
        carried = sum(len(slot.carried.events) for slot in self._slots if slot.carried is not None)
        counts = np.array(events, dtype=np.int64)
        order = np.argsort(np.array(owners, dtype=np.int64), kind="stable")
        starts = np.empty(len(counts), dtype=np.int64)
        starts[order] = carried + np.cumsum(counts[order]) - counts[order]
        return np.where(np.array(classes, dtype=np.int64) > 0, -1, starts)

    def _expand(self, expanded: Set[ClassPlace]) -> None:
        for slot in sorted({slot for slot, _ in expanded}):
            carried = self._sliced[slot]
            numbers = {number for owner, number in expanded if owner == slot}
            for name, found in carried.members(numbers):
                self._add(slot, carried.classes[found.number].key, slice_value(name), found)

    def _of_rows(self, placed: PlacedRows, slices: Sequence[Slices]) -> I32:
        """Return the slice slots of the rows, and add those that there are not yet."""
        rows = np.full((len(placed.rows), self._keys), kernel_loop.NO_SLICE, dtype=np.int32)
        places, slots = cast("list[int]", placed.rows.tolist()), cast("list[int]", placed.slots.tolist())
        for key, (values, unknown) in enumerate(slices):
            texts = [values[place] for place in places]
            if any(unknown):
                lost = np.array([unknown[place] for place in places], dtype=np.bool_)
                rows[lost, key] = kernel_loop.UNKNOWN_SLICE
                texts = [None if is_lost else text for text, is_lost in zip(texts, lost, strict=True)]
            has_slice = [text is not None for text in texts]
            pairs = zip(compress(slots, has_slice), compress(texts, has_slice), strict=True)
            known, members = self._known[key], list[int]()
            for pair in cast("Iterator[tuple[int, str]]", pairs):
                member = known.get(pair)
                if member is None:
                    slot, value = pair
                    found = (
                        self._sliced[slot].find(slice_name(key, value))
                        if self._sliced[slot].classes
                        else None
                    )
                    member = self._add(slot, key, value, found)
                members.append(member)
            rows[np.array(has_slice, dtype=np.bool_), key] = members
        return rows

    def _add(self, slot: int, key: int, value: str, found: CarriedSlice | None) -> int:
        """Add the slot of a single slice, and return it."""
        member = self._known[key][slot, value] = len(self._made)
        if found is None:
            self._made.append((slot, key, value, 0, 1, None, 0, None))
            return member
        self.owned[slot] += found.events
        runs = self._sliced[slot].classes[found.number].runs
        self._made.append((slot, key, value, 0, 1, runs, len(found.events), found.number))
        return member

    def _add_classes(self) -> None:
        """Add a slot for each class that has slices without a slot."""
        single = Counter([(each[0], each[7]) for each in self._made])
        for slot, sliced in enumerate(self._sliced):
            for number, each in sliced.classes.items():
                rest = each.members - single[slot, number]
                if rest:
                    self._made.append((slot, each.key, "", number, rest, each.runs, 0, number))
