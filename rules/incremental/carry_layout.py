"""The kernel's memory and the trails of a batch's sessions as arrays, and as the bytes that are carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np

from ..engine import kernel
from ..engine.closing import reported_closing
from ..engine.judge import CompiledRules
from ..engine.kernel import Memory
from ..engine.kernel_loop import UNBORN
from ..model.arrays import I32, I64, U8, Mask
from . import carry_loop
from .carried import program_digest
from .word_letters import WordLetters


@dataclass(frozen=True, slots=True)
class SliceSlots:
    """The slices of a batch's sessions by slice slot: the owners' slots, the `for_each` keys, the values.

    A slot with a number in `classes` stands for the slices of that class, which are `weights` many; the
    number is 0 in the slots of single slices, which have weight 1. `runs` has what was carried of the runs,
    None where it is in the session's stream or there is nothing. `owned` has the index of the place of each
    slice's first own event, -1 for a class.
    """

    owners: I32
    keys: I32
    values: Sequence[str]
    classes: I32
    weights: I32
    runs: Sequence[bytes | None]
    owned: I64

    @property
    def are_classes(self) -> Mask:
        """Return which slots stand for classes."""
        return self.classes > 0


@dataclass(frozen=True, slots=True)
class CarriedStreams:
    """The carried streams of a batch's sessions, and the places of the events that they name.

    `places[firsts[s]]` is the place of the first event of slot `s`, and the slice slots from
    `slice_bounds[s]` to the next bound have their runs in its stream.
    """

    streams: Sequence[bytes]
    places: I64
    firsts: I64
    slice_bounds: I64


@dataclass(frozen=True, slots=True)
class PackedRuns:
    """The streams of slots, those of slices, and the places of each slice's own events."""

    sessions: list[bytes]
    slices: list[bytes]
    owned: list[list[int]]


class CarryLayout:
    """A compiled rule set with its layout of trails: each slot has a trail for each column.

    `program` identifies the tables by whose numbers the memory is carried.
    """

    def __init__(self, compiled: CompiledRules) -> None:
        program, trails = compiled.program, compiled.trails
        self.compiled, self.program = compiled, program_digest(compiled)
        self.letters = WordLetters(compiled)
        self.named = [named_rule(compiled, number) for number in cast("list[int]", program.order.tolist())]
        """The pack, the id, the digest and the severity of the rule of each column."""
        states = [table.machine_states for table in trails.tables]
        counts = np.array([len(table.bits) for table in trails.tables], dtype=np.int64)
        self.offsets: I64 = np.cumsum(trails.sizes) - trails.sizes
        self.slot_size = int(trails.sizes.sum())
        ends = np.append(self.offsets, self.slot_size)[program.group_columns]
        self.group_sizes: I64 = np.diff(ends)
        self.arrays = (
            np.concatenate([np.empty(0, dtype=np.int32), *states]),
            np.cumsum([0, *map(len, states)], dtype=np.int64)[:-1],
            program.skip.astype(np.int64) + 2,
            program.start.astype(np.int64),
            program.dead.astype(np.int64),
            program.group_columns,
            program.plain,
            self.offsets,
            counts,
            trails.sizes - counts - carry_loop.FIXED_SIZE,
            self.slot_size,
            np.array([table.delays.max(initial=0) > 0 for table in trails.tables], dtype=np.bool_),
            program.followed.astype(np.int64),
        )


def named_rule(compiled: CompiledRules, number: int) -> tuple[str, str, str, str]:
    """Return the pack, the id, the digest and the severity of a rule."""
    rule = compiled.rules[number]
    return rule.pack, rule.id, compiled.digests[number], rule.severity.value


class BatchMemory:
    """The memory and the trails of a batch's slots, unpacked from what was carried."""

    def __init__(self, layout: CarryLayout, slices: SliceSlots, carried: CarriedStreams) -> None:
        compiled, streams = layout.compiled, carried.streams
        self._layout, self._program, self._slices = layout, compiled.program, slices
        slots = len(streams)
        sizes = layout.group_sizes[slices.keys]
        self.slice_offsets: I64 = slots * layout.slot_size + np.cumsum(sizes) - sizes
        self.trails: I64 = np.empty(slots * layout.slot_size + int(sizes.sum()), dtype=np.int64)
        self.memory: Memory = kernel.remember(compiled.program, slots, len(slices.values))
        self.breached: Mask = np.zeros(self.memory.state.shape, dtype=np.bool_)
        parts = [*streams, *(runs or b"" for runs in slices.runs)]
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        begins = np.where([runs is None for runs in slices.runs], -1, starts[slots:-1])
        carry_loop.unpack(
            np.frombuffer(bytearray(b"".join(parts) + b"\0"), dtype=np.uint8),
            starts[: slots + 1],
            (
                carried.places,
                carried.firsts,
                carried.slice_bounds,
                (slices.owners, slices.keys, self.slice_offsets, begins, slices.owned, slices.weights),
            ),
            layout.arrays,
            self._arrays,
            self.trails,
            self.breached,
        )
        self.were_dead: Mask = kernel.stopped(compiled.program, self.memory)
        self._were_born: Mask = self.memory.slice_state != UNBORN

    @property
    def _arrays(self) -> tuple[Any, ...]:
        memory = self.memory
        slicing = memory.born, memory.head, memory.linked, memory.link
        sliced = memory.slice_state, memory.slice_last
        following = memory.sets, memory.slice_sets, memory.doubts
        return memory.state, memory.seen, memory.last, *slicing, *sliced, *following

    def runs(self) -> tuple[I32, I32, I32]:
        """Return slot, column and slice slot of each run that coming verdicts may be of, in this order.

        Slices that began in this batch go on from the trails that the events without a value have now.
        """
        slices, state = self._slices, self.memory.slice_state
        carry_loop.fork(
            (slices.owners, slices.keys, self._were_born),
            self._layout.arrays,
            state,
            (self.slice_offsets, self.trails),
        )
        slots, columns = np.nonzero(~self.were_dead)
        members, places = np.nonzero(state != UNBORN)
        owners, sliced = slices.owners[members], self._program.group_columns[slices.keys[members]] + places
        alive = ~self.were_dead[owners, sliced]
        found = np.stack(
            [
                np.append(slots, owners[alive]),
                np.append(columns, sliced[alive]),
                np.append(np.full(len(slots), -1), members[alive]),
            ]
        ).astype(np.int32)
        slot, column, member = found[:, np.lexsort(found[::-1])]
        return slot, column, member

    def offsets(self, slots: I32, columns: I32, members: I32) -> I64:
        """Return where the trails of these runs begin."""
        offsets = self._layout.offsets
        unsliced = slots * np.int64(self._layout.slot_size) + offsets[columns]
        if not len(self._slices.values):
            return unsliced
        firsts = self._program.group_columns[np.maximum(self._program.groups[columns], 0)]
        sliced = self.slice_offsets[members] + offsets[columns] - offsets[firsts]
        return np.where(members < 0, unsliced, sliced)

    def settle(self, slots: I32, *, held: bool, places: int) -> tuple[Mask, Mask]:
        """Drop what no coming verdict of these slots needs; return the places and the slices in use."""
        used = np.zeros(places, dtype=np.bool_)
        needed = carry_loop.settle(
            (slots, self._slices.owners, self._slices.keys, self._slices.are_classes),
            reported_closing(self._program, held=held),
            self._layout.arrays,
            self._arrays,
            (self.slice_offsets, self.trails),
            used,
        )
        return used, needed

    def packed(self, slots: I32, members: I32, numbers: I64) -> PackedRuns:
        """Return the streams of these slots and of these slice slots."""
        slices = self._slices
        sizes = self._layout.group_sizes[slices.keys[members]]
        room = len(slots) * (self._layout.slot_size + 1) + int(sizes.sum())
        room += (len(slots) + len(members)) * self._program.columns * carry_loop.SETS_SIZE
        out: U8 = np.empty(room * carry_loop.NUMBER_BYTES_MAX, dtype=np.uint8)
        starts, bounds, owned = carry_loop.pack(
            (slots, members, slices.keys, slices.are_classes),
            self._layout.arrays,
            self._arrays,
            (self.slice_offsets, self.trails, self.breached, slices.owners),
            numbers,
            out,
        )
        data = out[: starts[-1]].tobytes()
        streams = [data[begin:end] for begin, end in pairwise(starts.tolist())]
        places: list[int] = owned[: bounds[-1]].tolist()
        parts = [places[begin:end] for begin, end in pairwise(bounds.tolist())]
        return PackedRuns(streams[: len(slots)], streams[len(slots) :], parts)
