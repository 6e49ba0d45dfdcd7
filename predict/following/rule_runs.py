"""The runs of one rule in a batch's sessions: from the states before it to those after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...rules.engine.kernel_loop import NO_SLICE, UNKNOWN_SLICE
from ...rules.model.arrays import I32, U8
from ..drift.bet_loop import BetMemory
from .batch_slots import BatchSlots, CarriedRuns
from .follow_loop import FollowMemory
from .followed_risks import NO_RISK
from .followed_session import ABOVE, CUT, STOPPED
from .follower import begun
from .rule_tables import RuleTables


class RowSlices(NamedTuple):
    """The slice of each row of a batch's slots: the value, None without one, and whether it is unknown."""

    values: Sequence[str | None]
    unknown: Sequence[bool]


class SliceState(NamedTuple):
    """A slice after a batch: its slot and value, the name of its row, its last symbol, and its flags."""

    slot: int
    value: str
    row: str
    symbol: str | None
    flags: int


class RuleRuns:
    """The runs of a rule by slot, and those of their slices.

    `place` is the rule's among the followed ones, and `slices` has the slices of the rows of a rule with
    `for_each`. `event_slices` are the slice slots of the rows, and `values` the values of slice slots.
    """

    def __init__(
        self,
        place: int,
        slots: BatchSlots,
        carried: CarriedRuns,
        tables: RuleTables,
        slices: RowSlices | None,
    ) -> None:
        self._place, self._tables, self._carried = place, tables, carried
        self._count = len(slots.places)
        self._members: dict[tuple[int, str], int] = {}
        before = self._before = [] if slices is None else carried.slices(place)
        for slot, value, *_ in before:
            self._members[slot, value] = len(self._members)
        self.event_slices: I32 = np.full(len(slots.rows), NO_SLICE, dtype=np.int32)
        if slices is not None:
            self.event_slices[:] = list(self._of_rows(slots, slices))
        self.values: list[str] = [value for _, value in self._members]
        self.memory: FollowMemory = begun(self._count, len(self._members))
        if len(carried.slots):
            self._restore(place)
        if before:
            self._restore_slices(before)

    @property
    def names(self) -> list[str]:
        """Return the name of the row of each slot's own run."""
        return self._names(0, self._count)

    @property
    def symbols(self) -> list[str | None]:
        """Return the last symbol of each slot's own run."""
        return self._symbols(0, self._count)

    @property
    def flags(self) -> U8:
        """Return the flags of each slot's own run."""
        return self._flags(0, self._count) | self.memory.cut.astype(np.uint8) * np.uint8(CUT)

    def bet_memory(self) -> BetMemory:
        """Return the memory before the batch as betting reads it, with the contexts of runs that go on."""
        memory, carried = self.memory, self._carried
        contexts = np.full(len(memory.rows), NO_RISK, dtype=np.int32)
        if len(carried.slots):
            contexts[carried.slots] = self._tables.contexts(
                carried.texts[self._place], carried.rows[self._place]
            )
        if self._before:
            names, symbols = zip(*((name, symbol) for _, _, name, symbol, _ in self._before), strict=True)
            found = self._tables.contexts(map(carried.text, symbols), names)
            contexts[self._count : self._count + len(names)] = found
        return BetMemory(
            rows=memory.rows.copy(),
            contexts=contexts,
            stopped=memory.stopped.copy(),
            cut=memory.cut.copy(),
            born=memory.born.copy(),
            heads=memory.heads.copy(),
            links=memory.links.copy(),
            sizes=memory.sizes.copy(),
        )

    def slices(self) -> Iterator[SliceState]:
        """Yield the slices that have begun."""
        first, end = self._count, self._count + len(self._members)
        names, symbols = self._names(first, end), self._symbols(first, end)
        flags: list[int] = self._flags(first, end).tolist()
        born: list[bool] = self.memory.born.tolist()
        for place, (slot, value) in enumerate(self._members):
            if born[place]:
                yield SliceState(slot, value, names[place], symbols[place], flags[place])

    def _of_rows(self, slots: BatchSlots, slices: RowSlices) -> Iterator[int]:
        """Yield the slice slot of each row."""
        rows = zip(slots.slots.tolist(), slices.values, slices.unknown, strict=True)
        for slot, value, is_unknown in rows:
            if is_unknown:
                yield UNKNOWN_SLICE
            elif value is None:
                yield NO_SLICE
            else:
                yield self._members.setdefault((slot, value), len(self._members))

    def _restore(self, place: int) -> None:
        """Fill the memory of the slots that go on."""
        carried, memory, row = self._carried, self.memory, self._tables.row
        flags = carried.flags[:, place]
        memory.rows[carried.slots] = [row(name) for name in carried.rows[place]]
        memory.symbols[carried.slots] = carried.symbols[:, place]
        memory.above[carried.slots] = flags & ABOVE != 0
        memory.stopped[carried.slots] = flags & STOPPED != 0
        memory.cut[carried.slots] = flags & CUT != 0

    def _restore_slices(self, before: Sequence[tuple[int, str, str, int, int]]) -> None:
        """Fill the memory of the slices that go on, which have the first slice slots."""
        memory, first, end = self.memory, self._count, self._count + len(before)
        owners, _, names, symbols, found = zip(*before, strict=True)
        flags = np.array(found, dtype=np.uint8)
        memory.rows[first:end] = [self._tables.row(name) for name in names]
        memory.symbols[first:end] = symbols
        memory.above[first:end] = flags & ABOVE != 0
        memory.stopped[first:end] = flags & STOPPED != 0
        memory.born[: len(before)] = True
        heads: dict[int, int] = {}
        links: list[int] = []
        for member, slot in enumerate(owners):
            links.append(heads.get(slot, NO_SLICE))
            heads[slot] = member
        memory.links[: len(before)] = links
        memory.heads[list(heads)] = list(heads.values())
        memory.sizes[:] = np.bincount(owners, minlength=self._count)

    def _names(self, first: int, end: int) -> list[str]:
        names = self._tables.names()
        rows: list[int] = self.memory.rows[first:end].tolist()
        return [names[row] for row in rows]

    def _symbols(self, first: int, end: int) -> list[str | None]:
        texts, restored = self._tables.texts, self._carried.text
        numbers: list[int] = self.memory.symbols[first:end].tolist()
        return [texts[number] if number >= 0 else restored(number) for number in numbers]

    def _flags(self, first: int, end: int) -> U8:
        """Return the flags of the runs from `first` to `end`."""
        above, stopped = self.memory.above[first:end], self.memory.stopped[first:end]
        return above.astype(np.uint8) * np.uint8(ABOVE) | stopped.astype(np.uint8) * np.uint8(STOPPED)
