"""The runs of one rule in a batch's sessions: from the states before it to those after it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....rules.model.arrays import I32, U8, Mask
from ..follow_loop import FollowMemory
from ..follower import begun
from ..rule_tables import RuleTables
from .batch_slots import BatchSlots, CarriedRuns
from .followed_session import ABOVE, CUT, STOPPED
from .key_slices import SliceMember
from .slice_runs import StoredRun
from .sliced_rules import RuleSlices


class RuleRuns:
    """The runs of a rule by slot, and those of the members of a rule with `for_each`.

    `place` is the rule's among the followed ones. `members` are the slices and the classes of slices in the
    batch, and `event_slices` the members of its rows.
    """

    def __init__(
        self,
        place: int,
        slots: BatchSlots,
        carried: CarriedRuns,
        tables: RuleTables,
        sliced: RuleSlices,
    ) -> None:
        slices, column = sliced
        self._tables, self._carried = tables, carried
        self._count = len(slots.places)
        self.members: Sequence[SliceMember] = () if slices is None else slices.members
        self.event_slices: I32 = slots.no_slices if slices is None else slices.event_slices
        self.memory: FollowMemory = begun(self._count, len(self.members))
        if len(carried.slots):
            self._restore(place)
        runs = [None if each.runs is None else each.runs[column] for each in self.members]
        self._before = [(member, run) for member, run in enumerate(runs) if run is not None]
        if self._before:
            self._restore_slices()

    @property
    def names(self) -> list[str]:
        """Return the name of the row of each slot's own run."""
        return self._names(0, self._count)

    @property
    def symbols(self) -> list[str | None]:
        """Return the last symbol of each slot's own run."""
        return self._symbols(0, self._count)

    def slice_runs(self) -> list[StoredRun | None]:
        """Return the runs of the members after the batch."""
        if not self.members:
            return []
        first, end = self._count, self._count + len(self.members)
        names, symbols = self._names(first, end), self._symbols(first, end)
        above, stopped = self.memory.above[first:end], self.memory.stopped[first:end]
        flags: list[int] = run_flags(above, stopped).tolist()
        born: list[bool] = self.memory.born.tolist()
        runs = map(StoredRun, names, symbols, flags)
        return [run if is_born else None for is_born, run in zip(born, runs, strict=True)]

    def _restore(self, place: int) -> None:
        """Fill the memory of the slots that go on."""
        carried, memory = self._carried, self.memory
        rows, contexts = self._tables.runs(carried.texts[place], carried.rows[place])
        memory.rows[carried.slots], memory.contexts[carried.slots] = rows, contexts
        memory.symbols[carried.slots] = carried.symbols[:, place]
        for array, flags in ((memory.above, carried.above), (memory.stopped, carried.stopped)):
            array[carried.slots] = flags[place]
        memory.cut[carried.slots] = carried.cut[place]

    def _restore_slices(self) -> None:
        """Fill the memory of the members that go on."""
        memory, first, number = self.memory, self._count, self._carried.number
        for member, run in self._before:
            slot, at = self.members[member].slot, first + member
            memory.rows[at], memory.contexts[at] = self._tables.run(run.symbol, run.row)
            memory.symbols[at] = number(run.symbol)
            memory.weights[at] = self.members[member].weight
            memory.above[at], memory.stopped[at] = run.flags & ABOVE != 0, run.flags & STOPPED != 0
            memory.born[member] = True
            memory.links[member], memory.heads[slot] = memory.heads[slot], member
            memory.sizes[slot] += self.members[member].weight

    def _names(self, first: int, end: int) -> list[str]:
        names = self._tables.names()
        rows: list[int] = self.memory.rows[first:end].tolist()
        return [names[row] for row in rows]

    def _symbols(self, first: int, end: int) -> list[str | None]:
        texts, restored = self._tables.texts, self._carried.text
        numbers: list[int] = self.memory.symbols[first:end].tolist()
        return [texts[number] if number >= 0 else restored(number) for number in numbers]


def run_flags(above: Mask, stopped: Mask) -> U8:
    """Return the flags of runs."""
    return above.astype(np.uint8) * np.uint8(ABOVE) | stopped.astype(np.uint8) * np.uint8(STOPPED)


def slot_flags(runs: Sequence[RuleRuns], slots: int) -> U8:
    """Return the flags of the rules' own runs, by slot and then by rule."""
    arrays = [(run.memory.above[:slots], run.memory.stopped[:slots], run.memory.cut) for run in runs]
    above, stopped, cut = (np.stack(each, axis=1) for each in zip(*arrays, strict=True))
    return run_flags(above, stopped) | cut.astype(np.uint8) * np.uint8(CUT)
