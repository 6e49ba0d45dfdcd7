"""The slices of one `for_each` in a batch: those with a value in it, and the classes of all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ....rules.engine.kernel_loop import NO_SLICE, UNKNOWN_SLICE
from ....rules.incremental.carried_slices import CarriedSlices, SteppedSlice, slice_name
from ....rules.labels.labelled_rows import Slices
from ....rules.model.arrays import I32
from .batch_slots import BatchSlots
from .slice_runs import StoredRuns, decoded_runs, encoded_runs, values_of


class SliceMember(NamedTuple):
    """A slice of a slot, or all slices of a class that have no member of their own (without a `value`).

    `number` is that of the class before the batch, None for a slice that the state lacks; `weight` counts
    the slices, and `runs` are those before the batch.
    """

    slot: int
    value: str | None
    number: int | None
    weight: int
    runs: StoredRuns | None


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
        self.members: list[SliceMember] = []
        self._decoded: dict[bytes, StoredRuns] = {}
        values, unknown = slices
        rows: list[int] = slots.rows.tolist()
        of_slots: list[int] = slots.slots.tolist()
        members = [
            UNKNOWN_SLICE
            if unknown[row]
            else NO_SLICE
            if (value := values[row]) is None
            else self._member(slot, value)
            for slot, row in zip(of_slots, rows, strict=True)
        ]
        self.event_slices: I32 = np.array(members, dtype=np.int32)
        self._add_classes()

    def values(self, member: int) -> Iterator[str]:
        """Yield the values of the slices that a member stands for."""
        slot, value, number, _, _ = self.members[member]
        if value is not None:
            yield value
        elif number is not None:
            for each in values_of(self._carried[slot], number):
                if (slot, each) not in self._known:
                    yield each

    def stepped(self, runs: Sequence[StoredRuns]) -> Iterator[tuple[int, SteppedSlice]]:
        """Yield slot and slice of each value of the batch that has begun; `runs` are those of the members."""
        for member, after in zip(self.members, runs, strict=True):
            if member.value is not None and any(after):
                name = slice_name(self._key, member.value)
                yield member.slot, SteppedSlice(name, member.number, self._key, encoded_runs(after), ())

    def classes(self, runs: Sequence[StoredRuns]) -> Iterator[tuple[int, int, bytes]]:
        """Yield slot, number and runs of each class after the batch; `runs` are those of the members."""
        for member, after in zip(self.members, runs, strict=True):
            if member.value is None and member.number is not None:
                yield member.slot, member.number, encoded_runs(after)

    def _member(self, slot: int, value: str) -> int:
        """Return the member of a slot with a value, which is there from now on."""
        member = self._known.get((slot, value))
        if member is None:
            member = self._known[slot, value] = len(self.members)
            carried = self._carried[slot]
            found = carried.find(slice_name(self._key, value)) if carried.classes else None
            number = None if found is None else found.number
            runs = None if number is None else self._runs(carried.classes[number].runs)
            self.members.append(SliceMember(slot, value, number, 1, runs))
        return member

    def _add_classes(self) -> None:
        """Add a member for each class that has slices without one."""
        single = Counter((member.slot, member.number) for member in self.members)
        for slot, carried in enumerate(self._carried):
            for number, each in carried.classes.items():
                if each.key == self._key and (rest := each.members - single[slot, number]):
                    self.members.append(SliceMember(slot, None, number, rest, self._runs(each.runs)))

    def _runs(self, data: bytes) -> StoredRuns:
        found = self._decoded.get(data)
        if found is None:
            found = self._decoded[data] = decoded_runs(data)
        return found
