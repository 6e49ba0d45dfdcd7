"""The runs of one rule in a batch's sessions: from the states before it to those after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...rules.engine.kernel_loop import NO_SLICE, UNKNOWN_SLICE
from ...rules.model.arrays import I32, I64
from .batch_slots import BatchSlots
from .follow_loop import NO_SYMBOL_YET, FollowMemory
from .followed_session import ABOVE, CUT, STOPPED
from .follower import begun
from .rule_tables import RuleTables


class RowSlices(NamedTuple):
    """The slice of each row of a batch's slots: the value, None without one, and whether it is unknown."""

    values: Sequence[str | None]
    unknown: Sequence[bool]


class RunState(NamedTuple):
    """A run after a batch: the name of its row, its last symbol, and its flags."""

    row: str
    symbol: str | None
    flags: int


class RuleRuns:
    """The runs of a rule by slot, and those of their slices.

    `place` is the rule's among the followed ones, and `slices` has the slices of the rows of a rule with
    `for_each`. `event_slices` are the slice slots of the rows, and `values` the values of slice slots.
    """

    def __init__(self, place: int, slots: BatchSlots, tables: RuleTables, slices: RowSlices | None) -> None:
        self._place, self._tables, self._slots = place, tables, slots
        self._restored: list[str] = []
        self._members: dict[tuple[int, str], int] = {}
        self._carry_members()
        self.event_slices: I32 = np.full(len(slots.rows), NO_SLICE, dtype=np.int32)
        if slices is not None:
            self.event_slices[:] = list(self._of_rows(slices))
        self.values: list[str] = [value for _, value in self._members]
        self.memory: FollowMemory = begun(len(slots.places), len(self._members))
        self._restore()

    def states(self) -> list[RunState]:
        """Return the state of each slot's own run."""
        count = len(self._slots.places)
        flags = self._flags(0, count) | self.memory.cut.astype(np.int64) * CUT
        return self._run_states(0, flags.tolist())

    def slices(self) -> list[dict[str, RunState]]:
        """Return the states of each slot's slices that have begun, by value."""
        found: list[dict[str, RunState]] = [{} for _ in self._slots.places]
        if not self._members:
            return found
        first = len(self._slots.places)
        flags: list[int] = self._flags(first, first + len(self._members)).tolist()
        states = self._run_states(first, flags)
        for (slot, value), state, is_born in zip(self._members, states, self.memory.born, strict=True):
            if is_born:
                found[slot][value] = state
        return found

    def _carry_members(self) -> None:
        for slot, state in enumerate(self._slots.states):
            if state is not None:
                for value in state.slices.get(self._place, ()):
                    self._members[slot, value] = len(self._members)

    def _of_rows(self, slices: RowSlices) -> Iterator[int]:
        """Yield the slice slot of each row."""
        rows = zip(self._slots.slots.tolist(), slices.values, slices.unknown, strict=True)
        for slot, value, is_unknown in rows:
            if is_unknown:
                yield UNKNOWN_SLICE
            elif value is None:
                yield NO_SLICE
            else:
                yield self._members.setdefault((slot, value), len(self._members))

    def _restore(self) -> None:
        """Fill the memory from the states before the batch."""
        place, memory = self._place, self.memory
        for slot, state in enumerate(self._slots.states):
            if state is None:
                continue
            self._restore_run(slot, state.symbols, state.rows[place], state.lasts[place], state.flags[place])
            memory.cut[slot] = bool(state.flags[place] & CUT)
            for value, run in state.slices.get(place, {}).items():
                member = self._members[slot, value]
                run_slot = len(self._slots.places) + member
                self._restore_run(run_slot, state.symbols, run.row, run.symbol, run.flags)
                memory.born[member] = True
                memory.links[member] = memory.heads[slot]
                memory.heads[slot] = member
                memory.sizes[slot] += 1

    def _restore_run(self, run: int, symbols: Sequence[str], row: str, last: int, flags: int) -> None:
        memory = self.memory
        memory.rows[run] = self._tables.row(row)
        if last >= 0:
            # Events of this batch have numbers from 0 on.
            self._restored.append(symbols[last])
            memory.symbols[run] = NO_SYMBOL_YET - len(self._restored)
        memory.above[run], memory.stopped[run] = bool(flags & ABOVE), bool(flags & STOPPED)

    def _flags(self, first: int, end: int) -> I64:
        """Return the flags of the runs from `first` to `end`."""
        above, stopped = self.memory.above[first:end], self.memory.stopped[first:end]
        return above.astype(np.int64) * ABOVE | stopped.astype(np.int64) * STOPPED

    def _run_states(self, first: int, flags: Sequence[int]) -> list[RunState]:
        """Return the states of the runs from `first` on with these flags."""
        end, names = first + len(flags), self._tables.names()
        rows: list[int] = self.memory.rows[first:end].tolist()
        symbols: list[int] = self.memory.symbols[first:end].tolist()
        return [
            RunState(names[row], self._symbol(symbol), flag)
            for row, symbol, flag in zip(rows, symbols, flags, strict=True)
        ]

    def _symbol(self, number: int) -> str | None:
        if number >= 0:
            return self._tables.symbol(number)
        return None if number == NO_SYMBOL_YET else self._restored[NO_SYMBOL_YET - number - 1]
