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
from ..engine.kernel import Findings, Memory
from ..engine.kernel_loop import UNBORN
from ..engine.witness import TrailRuns
from ..model.arrays import I32, I64, U8, Mask
from . import carry_loop, run_loop
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
        # Half as wide as those of an audit: most of unpacking is the first touch of this memory.
        self.trails: I32 = np.empty(slots * layout.slot_size + int(sizes.sum()), dtype=np.int32)
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

    def runs(self, begins: I64, ends: I64, asked: Findings) -> TrailRuns:
        """Return the runs that coming verdicts may be of, over the rows of their slots between these bounds.

        They ask for the witnesses of findings, which are ordered by slot, column and slice slot. Slices that
        began in this batch go on from the trails that the events without a value have now.
        """
        slices, state, layout = self._slices, self.memory.slice_state, self._layout
        runs = self.slice_offsets, self.trails
        carry_loop.fork((slices.owners, slices.keys, self._were_born), layout.arrays, state, runs)
        slots, count = len(begins), len(slices.owners)
        room = self.were_dead.size + state.size
        begins_of, ends_of, offsets, bounds = (np.empty(room + 1, dtype=np.int64) for _ in range(4))
        columns, members = (np.empty(room, dtype=np.int32) for _ in range(2))
        used = run_loop.list_runs(
            ~self.were_dead,
            (slices.owners, slices.keys, state, self.slice_offsets),
            (self._program.group_columns, layout.offsets, layout.slot_size),
            (begins, ends),
            (asked.slots, asked.columns, asked.slices),
            (np.empty(slots + 1, dtype=np.int64), np.empty(count, dtype=np.int32)),
            (begins_of, ends_of, columns, members, offsets, bounds),
        )
        spans = begins_of[:used], ends_of[:used]
        of_runs = columns[:used], members[:used], offsets[:used], bounds[: used + 1]
        return TrailRuns(*spans, *of_runs, asked.stamps)

    def settle(self, slots: I32, *, held: bool, places: int) -> tuple[Mask, Mask]:
        """Drop what no coming verdict of these slots needs; return the places and the slices in use."""
        sizes = places, len(self._slices.values), len(self.memory.state)
        used, needed, is_open = (np.zeros(size, dtype=np.bool_) for size in sizes)
        carry_loop.settle(
            (slots, self._slices.owners, self._slices.keys, self._slices.are_classes),
            reported_closing(self._program, held=held),
            self._layout.arrays,
            self._arrays,
            (self.slice_offsets, self.trails),
            (used, needed, is_open),
        )
        return used, needed

    def packed(self, slots: I32, members: I32, numbers: I64) -> PackedRuns:
        """Return the streams of these slots and of these slice slots."""
        slices = self._slices
        sizes = self._layout.group_sizes[slices.keys[members]]
        room = len(slots) * (self._layout.slot_size + 1) + int(sizes.sum())
        room += (len(slots) + len(members)) * self._program.columns * carry_loop.SETS_SIZE
        out: U8 = np.empty(room * carry_loop.NUMBER_BYTES_MAX, dtype=np.uint8)
        starts: I64 = np.empty(len(slots) + len(members) + 1, dtype=np.int64)
        bounds: I64 = np.empty(len(members) + 1, dtype=np.int64)
        owned: I64 = np.empty(room + 1, dtype=np.int64)
        carry_loop.pack(
            (slots, members, slices.keys, slices.are_classes),
            self._layout.arrays,
            self._arrays,
            (self.slice_offsets, self.trails, self.breached, slices.owners),
            numbers,
            (out, starts, bounds, owned),
        )
        data = out[: starts[-1]].tobytes()
        streams = [data[begin:end] for begin, end in pairwise(starts.tolist())]
        places: list[int] = owned[: bounds[-1]].tolist()
        parts = [places[begin:end] for begin, end in pairwise(bounds.tolist())]
        return PackedRuns(streams[: len(slots)], streams[len(slots) :], parts)
