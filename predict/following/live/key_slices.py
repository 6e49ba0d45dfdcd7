"""The slices of one `for_each` in a batch: those with a value in it, and the classes of all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec
import numpy as np

from ....rules.engine.kernel_loop import NO_SLICE, UNKNOWN_SLICE
from ....rules.incremental.carried_slices import CarriedSlices, SteppedSlice, slice_name
from ....rules.labels.labelled_rows import Slices
from ....rules.model.arrays import I32
from .batch_slots import BatchSlots
from .slice_runs import values_of


class SliceMember(msgspec.Struct, frozen=True, gc=False):
    """A slice of a slot, or all slices of a class that have no member of their own (without a `value`).

    `number` is that of the class before the batch, None for a slice that the state lacks; `weight` counts
    the slices, and `runs` are those before the batch, as they are stored.
    """

    slot: int
    value: str | None
    number: int | None
    weight: int
    runs: bytes | None


class KeySlices:
    """The members of a batch for one `for_each`, whose number is `key`.

    `carried` are the slices of each slot before the batch; `slices` are those of the rows of the batch.
    `event_slices` are the members of the rows of slots.
    """

    def __init__(
        self,
        key: int,
        slots: BatchSlots,
        carried: Sequence[CarriedSlices],
        slices: Slices,
    ) -> None:
        self._key, self._carried = key, carried
        self._known: dict[tuple[int, str], int] = {}
        self._single = Counter[tuple[int, int]]()
        self.members: list[SliceMember] = []
        self.event_slices: I32 = self._of_rows(slots, slices)
        self._add_classes()

    def values(self, member: int) -> Iterator[str]:
        """Yield the values of the slices that a member stands for."""
        found = self.members[member]
        if found.value is not None:
            yield found.value
        elif found.number is not None:
            for each in values_of(self._carried[found.slot], found.number):
                if (found.slot, each) not in self._known:
                    yield each

    def add_after(
        self,
        runs: Sequence[bytes],
        classes: Sequence[dict[int, bytes]],
        stepped: Sequence[list[SteppedSlice]],
    ) -> None:
        """Add the slices after a batch by slot, given the runs of the members, empty before the first one.

        `classes` get the runs of each class, and `stepped` the slices with a value in the batch.
        """
        for member, after in zip(self.members, runs, strict=True):
            if member.value is not None:
                if after:
                    name = slice_name(self._key, member.value)
                    stepped[member.slot].append(SteppedSlice(name, member.number, self._key, after, ()))
            elif member.number is not None:
                classes[member.slot][member.number] = after

    def _of_rows(self, slots: BatchSlots, slices: Slices) -> I32:
        """Return the members of the rows of slots, and add those that there are not yet."""
        values, unknown = slices
        rows: list[int] = slots.rows.tolist()
        found: I32 = np.full(len(rows), NO_SLICE, dtype=np.int32)
        if any(unknown):
            found[[place for place, row in enumerate(rows) if unknown[row]]] = UNKNOWN_SLICE
        places = [place for place, row in enumerate(rows) if values[row] is not None and not unknown[row]]
        known, of_slots = self._known.get, slots.slots
        members: list[int] = []
        for slot, place in zip(cast("list[int]", of_slots[places].tolist()), places, strict=True):
            value = values[rows[place]]
            assert value is not None
            member = known((slot, value))
            members.append(self._member(slot, value) if member is None else member)
        found[places] = members
        return found

    def _member(self, slot: int, value: str) -> int:
        """Add the member of a slot with a value, and return it."""
        member = self._known[slot, value] = len(self.members)
        carried = self._carried[slot]
        found = carried.find(slice_name(self._key, value)) if carried.classes else None
        number = None if found is None else found.number
        runs = None
        if number is not None:
            runs = carried.classes[number].runs
            self._single[slot, number] += 1
        self.members.append(SliceMember(slot, value, number, 1, runs))
        return member

    def _add_classes(self) -> None:
        """Add a member for each class that has slices without one."""
        for slot, carried in enumerate(self._carried):
            for number, each in carried.classes.items():
                if each.key == self._key and (rest := each.members - self._single[slot, number]):
                    self.members.append(SliceMember(slot, None, number, rest, each.runs))
