"""The runs of all rules in a batch's sessions: from the states before it to those after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....rules.incremental.carried_slices import CarriedSlices
from ....rules.model.arrays import I32, I64, U8, Mask
from ..follow_loop import NO_TEXT, FollowTables, restore
from ..follower import begun
from .batch_slots import BatchSlots
from .followed_session import ABOVE, CUT, STOPPED, WARNED, FollowedSession
from .run_texts import NO_ROW, RunTexts
from .sliced_rules import SlicedBatch


class BatchRuns:
    """The runs of rules by slot, and those of the members of rules with `for_each`.

    `memory` is that of the loop. `warned` states by slot and rule whether a warning came before.
    """

    def __init__(self, slots: BatchSlots, rules: int, slices: SlicedBatch, texts: RunTexts) -> None:
        self._slots, self._rules, self._slices, self._texts = slots, rules, slices, texts
        # Every rule has the members of its key.
        counts = [0] * rules
        for places, members in slices.keys:
            for place in places:
                counts[place] = len(members)
        self._bases: I64 = np.cumsum([0, *counts], dtype=np.int64)
        self.memory = begun(len(slots.places), rules, self._bases)
        self.warned: Mask = np.zeros((len(slots.places), rules), dtype=np.bool_)
        self._owners: I64 = np.zeros(int(self._bases[-1]), dtype=np.int64)
        self._restore()
        for key in range(len(slices.keys)):
            self._restore_slices(key)

    def link(self, tables: FollowTables) -> None:
        """Link the slices and find the contexts; `tables` have all rows and symbols of the states."""
        restore(tables, self._owners, self.memory)

    def states(self, tables: str, agents: Sequence[str | None]) -> Iterator[tuple[str, FollowedSession]]:
        """Yield the sessions with open slots and their states; `agents` are the last ones by slot.

        `tables` identifies the chain and its machines.
        """
        rows, symbols, flags = self._own(self.memory.rows), self._own(self.memory.symbols), self._flags()
        sliced = self._after()
        for slot in self._slots.open:
            session_id, occurrence = self._slots.places[slot]
            lasts, named = self._texts.symbol_texts(symbols[slot].tobytes())
            yield (
                session_id,
                FollowedSession(
                    tables=tables,
                    occurrence=occurrence,
                    rows=self._texts.row_text(rows[slot].tobytes()),
                    lasts=lasts,
                    flags=flags[slot].tobytes(),
                    symbols=named,
                    agent=agents[slot],
                    sliced=sliced[slot],
                ),
            )

    def _own(self, array: Any) -> Any:
        """Return the sessions' own runs by slot and rule."""
        shape = self.warned.shape
        return array[: shape[0] * shape[1]].reshape(shape)

    def _flags(self) -> U8:
        """Return the flags of the sessions' own runs by slot and rule."""
        count = len(self._slots.places)
        flags = np.zeros((count, self._rules), dtype=np.uint8)
        memory, size = self.memory, flags.size
        bits = (memory.above[:size], ABOVE), (memory.stopped[:size], STOPPED), (memory.cut, CUT)
        for is_set, bit in (*bits, (self.warned, WARNED)):
            flags |= is_set.reshape(flags.shape).astype(np.uint8) * np.uint8(bit)
        return flags

    def _restore(self) -> None:
        """Fill the memory of the slots that go on."""
        going = [(slot, state) for slot, state in enumerate(self._slots.states) if state is not None]
        if not going:
            return
        texts, memory = self._texts, self.memory
        slots: I64 = np.array([slot for slot, _ in going], dtype=np.int64)
        shape = len(going), self._rules
        rows = b"".join([texts.rows(state) for _, state in going])
        symbols = b"".join([texts.symbols(state) for _, state in going])
        flags: U8 = np.frombuffer(b"".join([state.flags for _, state in going]), np.uint8).reshape(shape)
        self._own(memory.rows)[slots] = np.frombuffer(rows, dtype=np.int32).reshape(shape)
        self._own(memory.symbols)[slots] = np.frombuffer(symbols, dtype=np.int32).reshape(shape)
        for array, bit in ((memory.above, ABOVE), (memory.stopped, STOPPED), (memory.cut, CUT)):
            self._own(array)[slots] = flags & bit != 0
        self.warned[slots] = flags & WARNED != 0

    def _restore_slices(self, key: int) -> None:
        """Fill the memory of the members of a `for_each` that go on."""
        places, members = self._slices.keys[key]
        runs = b"".join([self._texts.slice_runs(key, member.runs) for member in members])
        found: I32 = np.frombuffer(runs, dtype=np.int32).reshape(len(members), len(places), 3)
        weights: I64 = np.array([member.weight for member in members], dtype=np.int64)
        owners: I64 = np.array([member.slot for member in members], dtype=np.int64)
        for column, place in enumerate(places):
            rows, symbols, flags = found[:, column].T
            of_rule, runs_of = self._members(place), self._runs(place)
            memory = self.memory
            self._owners[of_rule] = owners
            memory.born[of_rule] = rows != NO_ROW
            memory.rows[runs_of], memory.symbols[runs_of] = np.maximum(rows, 0), symbols
            memory.weights[runs_of] = np.where(rows == NO_ROW, 1, weights)
            memory.above[runs_of], memory.stopped[runs_of] = flags & ABOVE != 0, flags & STOPPED != 0

    def _members(self, place: int) -> slice:
        """Return the members of a rule among those of all rules."""
        return slice(int(self._bases[place]), int(self._bases[place + 1]))

    def _runs(self, place: int) -> slice:
        """Return the runs of a rule's members."""
        first, members = len(self.warned) * self._rules, self._members(place)
        return slice(first + members.start, first + members.stop)

    def _after(self) -> list[CarriedSlices]:
        """Return the slices of each slot after the batch."""
        memory = self.memory
        stored: list[list[bytes]] = []
        for key, (places, members) in enumerate(self._slices.keys):
            found: I32 = np.empty((len(members), len(places), 3), dtype=np.int32)
            for column, place in enumerate(places):
                runs, born = self._runs(place), memory.born[self._members(place)]
                flags = memory.above[runs] * ABOVE | memory.stopped[runs] * STOPPED
                after = np.stack([memory.rows[runs], memory.symbols[runs], flags], axis=1)
                found[:, column] = np.where(born[:, None], after, (NO_ROW, NO_TEXT, 0))
            stored.append([self._texts.stored_runs(key, each.tobytes()) for each in found])
        return list(self._slices.after(stored))
