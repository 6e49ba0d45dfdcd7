"""The kernel: one compiled function steps every rule over every event, in judged order.

A `Program` lays the machines of a rule set out as one flat table; a `Memory` holds the state of each session
(a *slot*) and each slice; `judge` steps rows through the table and yields the findings. Restarts, events
that a rule does not see and events that cannot be judged are all entries of the table, so the inner loop has
no branch. `rules/reference/slow_stepper.py` specifies the kernel in plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...schemas.verdict import Verdict
from ..model.machine import APPLIES, SATISFIED, VERDICT_MASK, VIOLATED, Machine
from ..model.problem import Problem, RuleError
from .kernel_loop import (
    APPLIES_BIT,
    FOUND_SATISFIED,
    FOUND_UNKNOWN,
    FOUND_VIOLATED,
    NO_SLICE,
    OUTPUT_BITS,
    UNBORN,
    UNLINKED,
    chained,
    judge_rows,
)

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

SLICES_MAX = 1_000
"""Slices that one rule may have in one session. Another slice makes the rule unjudged there."""

EVENTS_MAX = 10_000
"""Events of one occurrence that are judged. Another event makes every rule unjudged there."""

TABLE_ENTRIES_MAX = 1 << 28
"""Entries of all rules' tables together: a state number shares 32 bits with the four bits of the output."""

CLOSING = (None, Verdict.HELD, Verdict.UNMET)
"""The closing verdict of each code in `Program.closing`."""

CLOSING_UNMET = CLOSING.index(Verdict.UNMET)


@dataclass(frozen=True, slots=True)
class Program:
    """The machines of a rule set as one table, one *column* per rule.

    Columns are ordered plain rules, then rules with `steps`, then rules with `for_each` by key; `order[c]`
    is the number of column `c`'s rule in the rule set. A state is the index of its row in `table`. An entry
    is the next state above four bits: three for the kind of finding, one for whether the rule applies there.
    Each machine has two additional letters: `skip[c]` for an event that the rule does not see, and
    `unknown[c]` for one that it cannot judge, which leads to the absorbing state `dead[c]`. `closing[state]`
    is a code of `CLOSING`.
    """

    order: I32
    plain: int
    unsliced: int
    groups: I32
    group_columns: I32
    table: U32
    closing: U8
    start: U32
    dead: U32
    skip: U8
    unknown: U8

    @property
    def columns(self) -> int:
        """Return the number of rules."""
        return len(self.order)

    @property
    def keys(self) -> int:
        """Return the number of `for_each` keys."""
        return len(self.group_columns) - 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Events in judged order; events of different slots may interleave.

    `words[i]` is the row of the letter table that event `i` reads, `slots[i]` its session's slot, `stamps[i]`
    the caller's identifier of it, and `slices[i, k]` the slice slot of its value for `for_each` key `k`.
    The caller numbers the slice slots, one for each (session, key, value).
    """

    words: I32
    slots: I32
    stamps: I64
    slices: I32


@dataclass(frozen=True, slots=True)
class Memory:
    """The state of every session and slice; `judge` changes it in place, and later calls may continue it.

    `state` has a row per slot and a column per rule: the last entry read from the table. Its `APPLIES_BIT`
    stays set once the rule, or a slice of it, applied. `last` holds the stamp of the last event that each
    rule saw, `seen` that of the session's last event, and `born` counts the slices that have begun. Rows of
    the `slice_` arrays are slice slots, their columns the rules of the slot's key. `head` and `link` chain
    the slices of a session, and `linked` counts them.
    """

    state: U32
    seen: I64
    last: I64
    born: I32
    head: I32
    linked: I32
    link: I32
    slice_state: U32
    slice_last: I64


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings as columns: the event's stamp, its slot, the rule's column, the slice slot and the kind."""

    stamps: I64
    slots: I32
    columns: I32
    slices: I32
    kinds: U8

    @property
    def arrays(self) -> tuple[I64, I32, I32, I32, U8]:
        """Return the columns in order."""
        return self.stamps, self.slots, self.columns, self.slices, self.kinds

    def take(self, which: NDArray[np.bool_] | I64 | slice) -> Findings:
        """Return the findings that a mask, places or a slice select, in that order."""
        return _findings(*(array[which] for array in self.arrays))


_TYPES = (np.int64, np.int32, np.int32, np.int32, np.uint8)
"""The types of the columns of `Findings`."""


def _findings(*arrays: NDArray[Any]) -> Findings:
    """Return findings from their columns, cast to the columns' types."""
    return Findings(
        *(cast(Any, array.astype(dtype, copy=False)) for array, dtype in zip(arrays, _TYPES, strict=True))
    )


def join(parts: Iterable[Findings]) -> Findings:
    """Return the findings of all parts, concatenated."""
    nothing = [np.empty(0, dtype) for dtype in _TYPES]
    return _findings(*map(np.concatenate, zip(nothing, *(part.arrays for part in parts), strict=True)))


def lay_out(machines: Sequence[Machine], stepped: Sequence[bool], keys: Sequence[int | None]) -> Program:
    """Return the program of these machines, given which rules have `steps` and the `for_each` key of each.

    Keys are numbered from 0 without a gap. Raises RuleError where the tables together hold more than
    `TABLE_ENTRIES_MAX` entries.
    """
    entries = sum((len(machine.next) + 1) * (len(machine.next[0]) + 2) for machine in machines)
    if entries > TABLE_ENTRIES_MAX:
        message = f"the rules are too large together: {entries} table entries, more than {TABLE_ENTRIES_MAX}"
        raise RuleError((Problem("TRL302", message, "judge by some of the packs at a time", None),))
    rank = [(-1 if key is None else key, bool(steps)) for key, steps in zip(keys, stepped, strict=True)]
    order = sorted(range(len(machines)), key=lambda i: (rank[i], i))
    tables: list[U32] = []
    closings: list[U8] = []
    offsets = [0]
    for i in order:
        table, closing = _rows_of(machines[i], offsets[-1])
        tables.append(table)
        closings.append(closing)
        offsets.append(offsets[-1] + len(table))
    widths = np.array([len(machines[i].next[0]) + 2 for i in order], dtype=np.uint32)
    states = np.array([len(machines[i].next) for i in order], dtype=np.uint32)
    start = np.array(offsets[:-1], dtype=np.uint32)
    column_keys = np.array([-1 if keys[i] is None else keys[i] for i in order], dtype=np.int32)
    unsliced = int((column_keys < 0).sum())
    plain = unsliced - sum(stepped[i] for i in order[:unsliced])
    key_count = int(column_keys.max(initial=-1)) + 1
    bounds = np.searchsorted(column_keys, np.arange(key_count + 1))
    return Program(
        order=np.array(order, dtype=np.int32),
        plain=plain,
        unsliced=unsliced,
        groups=column_keys,
        group_columns=bounds.astype(np.int32),
        table=np.concatenate(tables) if tables else np.empty(0, dtype=np.uint32),
        closing=np.concatenate(closings) if closings else np.empty(0, dtype=np.uint8),
        start=start,
        dead=start + states * widths,
        skip=(widths - 2).astype(np.uint8),
        unknown=(widths - 1).astype(np.uint8),
    )


def _rows_of(machine: Machine, offset: int) -> tuple[U32, U8]:
    """Return one machine's part of the flat table, which begins at `offset`, and its closing codes."""
    states, letters = len(machine.next), len(machine.next[0])
    width = letters + 2
    output = np.array(machine.output, dtype=np.uint32)
    verdict = output & VERDICT_MASK
    bits = np.where(verdict == VIOLATED, FOUND_VIOLATED, np.where(verdict == SATISFIED, FOUND_SATISFIED, 0))
    bits = bits | np.where((output & APPLIES) != 0, int(APPLIES_BIT), 0)
    target = np.empty((states + 1, width), dtype=np.int64)
    target[:states, :letters] = np.array(machine.next)
    target[:, letters] = np.arange(states + 1)
    target[:, letters + 1] = states
    target[states] = states
    found = np.zeros((states + 1, width), dtype=np.int64)
    found[:states, :letters] = bits
    found[:states, letters + 1] = FOUND_UNKNOWN
    closing = np.zeros((states + 1, width), dtype=np.uint8)
    closing[:states] = np.array([[CLOSING.index(verdict)] for verdict in machine.closing])
    entries = ((offset + target * width) << OUTPUT_BITS) | found
    return entries.astype(np.uint32).ravel(), closing.ravel()


def remember(program: Program, slots: int, slices: int) -> Memory:
    """Return a memory of `slots` sessions and `slices` slices before their first events."""
    widest = int(np.diff(program.group_columns).max(initial=0))
    sliced = program.columns - program.unsliced
    return Memory(
        state=np.repeat((program.start << OUTPUT_BITS)[None, :], slots, axis=0),
        seen=np.full(slots, -1, dtype=np.int64),
        last=np.full((slots, program.columns - program.plain), -1, dtype=np.int64),
        born=np.zeros((slots, sliced), dtype=np.int32),
        head=np.full((slots, program.keys), -1, dtype=np.int32),
        linked=np.zeros((slots, program.keys), dtype=np.int32),
        link=np.full(slices, UNLINKED, dtype=np.int32),
        slice_state=np.full((slices, widest), UNBORN, dtype=np.uint32),
        slice_last=np.full((slices, widest), -1, dtype=np.int64),
    )


def judge(
    program: Program,
    letters: U8,
    rows: Rows,
    memory: Memory,
    *,
    found_max: int = 1 << 16,
    slices_max: int = SLICES_MAX,
) -> Iterator[Findings]:
    """Step every rule over `rows`, changing `memory`, and yield the findings in judged order, in parts.

    `letters[word, column]` is the letter that a rule reads at an event with that word. A part holds at most
    `found_max` findings; the kernel doubles that where a single event may have more.
    """
    begin, total = 0, len(rows.words)
    while begin < total:
        found = _findings(*(np.empty(found_max, dtype) for dtype in _TYPES))
        begin, used = judge_rows(
            begin,
            (rows.words, rows.slots, rows.stamps, rows.slices, letters.ravel()),
            (program.table, program.dead, program.skip, program.unknown, program.group_columns),
            (program.plain, program.unsliced, program.columns, slices_max),
            (memory.state.ravel(), memory.seen, memory.last),
            (memory.born, memory.head, memory.linked, memory.link, memory.slice_state, memory.slice_last),
            found.arrays,
        )
        if used:
            yield found.take(slice(used))
        elif begin < total:
            found_max *= 2


def applies(memory: Memory) -> NDArray[np.bool_]:
    """Return whether each rule (by column) has applied to each session (by slot) so far."""
    return (memory.state & APPLIES_BIT) != 0


def unjudged(program: Program, memory: Memory) -> NDArray[np.bool_]:
    """Return whether each rule (by column) has become unjudged for each session (by slot)."""
    return memory.state >> OUTPUT_BITS == program.dead


def close(program: Program, memory: Memory, slots: I32, *, held: bool = True) -> Findings:
    """Return the closing verdicts of these sessions, only the unmet ones unless `held`.

    `kinds` are codes of `CLOSING`. A rule with `for_each` closes by slice, and events without a value close
    nothing; an unjudged rule has no closing. The stamps are those of the last event that the rule saw, in
    the slice where it has one.
    """
    codes = program.closing if held else np.where(program.closing == CLOSING_UNMET, program.closing, 0)
    return join(
        [_close_unsliced(program, memory, slots, codes), *_close_slices(program, memory, slots, codes)]
    )


def _close_unsliced(program: Program, memory: Memory, slots: I32, closing: U8) -> Findings:
    codes = closing[memory.state[slots, : program.unsliced] >> OUTPUT_BITS]
    at, columns = np.nonzero(codes)
    stamps = memory.seen[slots[at]]
    stepped = columns >= program.plain
    stamps[stepped] = memory.last[slots[at[stepped]], columns[stepped] - program.plain]
    return _findings(stamps, slots[at], columns, np.full(len(at), NO_SLICE), codes[at, columns])


def _close_slices(program: Program, memory: Memory, slots: I32, closing: U8) -> Iterator[Findings]:
    owners, members, keys = chained(memory.head, memory.link, slots)
    for column in range(program.unsliced, program.columns):
        key = int(program.groups[column])
        place = column - int(program.group_columns[key])
        session, slice_slot = owners[keys == key], members[keys == key]
        state = memory.slice_state[slice_slot, place]
        judged = (state != UNBORN) & (memory.state[session, column] >> OUTPUT_BITS != program.dead[column])
        session, slice_slot = session[judged], slice_slot[judged]
        codes = closing[state[judged] >> OUTPUT_BITS]
        stamps = memory.slice_last[slice_slot, place]
        yield _findings(stamps, session, np.full(len(session), column), slice_slot, codes).take(codes != 0)
