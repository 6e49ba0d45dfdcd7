"""The kernel: one compiled function steps every rule over every event, in judged order.

A `Program` lays the machines of a rule set out as one flat table; a `Memory` holds the state of each session
(a *slot*) and each slice; `judge` steps rows through the table and yields the findings. Restarts, events
that a rule does not see and events that cannot be judged are all entries of the table, so the inner loop has
no branch. `rules/reference/slow_stepper.py` specifies the kernel in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...schemas.verdict import Verdict
from ..model.arrays import I32, I64, U8, U32, U64, Mask
from ..model.machine import APPLIES, SATISFIED, VERDICT_MASK, VIOLATED, Machine
from ..model.problem import Problem, RuleError
from .kernel_loop import (
    APPLIES_BIT,
    FOUND_FOLLOW,
    FOUND_SATISFIED,
    FOUND_UNKNOWN,
    FOUND_VIOLATED,
    MAY_APPLY,
    OUTPUT_BITS,
    UNBORN,
    UNDECIDED,
    UNLINKED,
    judge_sliced,
    judge_unsliced,
)

SLICES_MAX = 1_000
"""Slices that one rule may have in one session. Another slice makes the rule unjudged there."""

EVENTS_MAX = 10_000
"""Events of one occurrence that are judged. Another event makes every rule unjudged there."""

TABLE_ENTRIES_MAX = 1 << 28
"""Entries of all rules' tables together: a state number shares 32 bits with the four bits of the output."""

CLOSING = (None, Verdict.HELD, Verdict.UNMET)
"""The closing verdict of each code in `Program.closing`."""

CLOSING_HELD, CLOSING_UNMET = CLOSING.index(Verdict.HELD), CLOSING.index(Verdict.UNMET)
CLOSING_FOLLOWED = len(CLOSING)
"""The code of a run that follows: its states have the codes."""

NEVER_FOLLOWS = 255
"""The letter `Program.follow` of a rule that stops at an unknown; no event has it."""


@dataclass(frozen=True, slots=True)
class Program:
    """The machines of a rule set as one table, one *column* per rule.

    Columns are ordered plain rules, then rules with `steps`, then rules with `for_each` by key; `order[c]`
    is the number of column `c`'s rule in the rule set. A state is the index of its row in `table`. An entry
    is the next state above four bits: three for the kind of finding, one for whether the rule applies there.
    Each machine has two additional letters: `skip[c]` for an event that the rule does not see, and
    `unknown[c]` for one that it cannot judge, which leads to the absorbing state `dead[c]`. A rule that
    follows the unknown has a third letter, `follow[c]`, for an event that may have one of several letters; it
    leads to the absorbing state `followed[c]`, where the runs are a set. `outputs` has for each entry of
    `table` the machine's output. `closing[state]` is a code of `CLOSING`, or `CLOSING_FOLLOWED`.
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
    follow: U8
    followed: U32
    outputs: U8

    @property
    def columns(self) -> int:
        """Return the number of rules."""
        return len(self.order)

    @property
    def keys(self) -> int:
        """Return the number of `for_each` keys."""
        return len(self.group_columns) - 1


@dataclass(frozen=True, slots=True)
class LetterTable:
    """The letter that each rule reads at each label word: a row per word, a column per column of the program.

    Where the letter is the program's `follow`, the rule may read one of several letters: those numbered
    `choice[word, column]`, which are `possible[bounds[number]:bounds[number + 1]]` in ascending order, with
    `skip` among them where the rule may not see the event. There `stand_in[word, column]` is the machine's
    word of one completion, by which witnesses are made; the rule sees the event if any completion does.
    """

    letters: U8
    choice: I32
    bounds: I64
    possible: U8
    stand_in: I32

    def several(self, program: Program, word: int, column: int) -> tuple[int, ...]:
        """Return the letters that a rule may read at a word, none where it reads one for certain."""
        if self.letters[word, column] != program.follow[column]:
            return ()
        number = int(self.choice[word, column])
        return tuple(self.possible[self.bounds[number] : self.bounds[number + 1]].tolist())


def known_letters(letters: U8) -> LetterTable:
    """Return the table of these letters, in which nothing is unknown."""
    none = np.zeros(letters.shape, dtype=np.int32)
    return LetterTable(letters, none, np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8), none)


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
    the slices of a session, and `linked` counts them. `sets` and `slice_sets` have the states of runs that
    follow, and are undefined for others. `doubts` has a row per slot and a column per rule, with the bits
    `UNDECIDED` and `MAY_APPLY`; the second is undefined where `APPLIES_BIT` is set.
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
    sets: U64
    slice_sets: U64
    doubts: U8


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
        return findings(*(array[which] for array in self.arrays))


_TYPES = (np.int64, np.int32, np.int32, np.int32, np.uint8)
"""The types of the columns of `Findings`."""


def findings(*arrays: NDArray[Any]) -> Findings:
    """Return findings from their columns, cast to the columns' types."""
    return Findings(
        *(cast(Any, array.astype(dtype, copy=False)) for array, dtype in zip(arrays, _TYPES, strict=True))
    )


def join(parts: Iterable[Findings]) -> Findings:
    """Return the findings of all parts, concatenated."""
    parts = [part for part in parts if len(part.stamps)]
    if len(parts) == 1:
        return parts[0]
    nothing = [np.empty(0, dtype) for dtype in _TYPES]
    return findings(*map(np.concatenate, zip(nothing, *(part.arrays for part in parts), strict=True)))


def in_judged_order(found: Findings) -> Findings:
    """Return findings ordered by their stamps; those of one event stay in their order."""
    return found.take(np.argsort(found.stamps, kind="stable"))


def lay_out(
    machines: Sequence[Machine],
    stepped: Sequence[bool],
    keys: Sequence[int | None],
    follows: Sequence[bool] | None = None,
) -> Program:
    """Return the program of these machines, given which rules have `steps` and the `for_each` key of each.

    `follows` states which rules follow the unknown; their machines have at most `FOLLOWED_STATES_MAX` states.
    Keys are numbered from 0 without a gap. Raises RuleError where the tables together hold more than
    `TABLE_ENTRIES_MAX` entries.
    """
    follows = [False] * len(machines) if follows is None else follows
    _check_entries(machines)
    order = _column_order(keys, stepped)
    parts: list[tuple[U32, U8, U8]] = []
    offsets = [0]
    for i in order:
        parts.append(_rows_of(machines[i], offsets[-1], follows[i]))
        offsets.append(offsets[-1] + len(parts[-1][0]))
    nothing = np.empty(0, np.uint32), np.empty(0, np.uint8), np.empty(0, np.uint8)
    table, closing, outputs = map(np.concatenate, zip(nothing, *parts, strict=True))
    following = np.array([follows[i] for i in order], dtype=np.bool_)
    widths = np.array([len(machines[i].next[0]) + 2 for i in order], dtype=np.uint32) + following
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
        table=table,
        closing=closing,
        start=start,
        dead=(start + states * widths).astype(np.uint32),
        skip=(widths - 2).astype(np.uint8),
        unknown=(widths - 1).astype(np.uint8),
        follow=np.where(following, widths - 3, NEVER_FOLLOWS).astype(np.uint8),
        followed=(start + (states + 1) * widths).astype(np.uint32),
        outputs=outputs,
    )


def _column_order(keys: Sequence[int | None], stepped: Sequence[bool]) -> list[int]:
    """Return the rules by column: those without a key first, and of each key those without `steps`."""
    rank = [(-1 if key is None else key, bool(steps)) for key, steps in zip(keys, stepped, strict=True)]
    return sorted(range(len(rank)), key=lambda i: (rank[i], i))


def _check_entries(machines: Sequence[Machine]) -> None:
    """Raise RuleError (TRL302) if the tables of the machines together hold too many entries."""
    entries = sum((len(machine.next) + 1) * (len(machine.next[0]) + 2) for machine in machines)
    if entries > TABLE_ENTRIES_MAX:
        message = f"the rules are too large together: {entries} table entries, more than {TABLE_ENTRIES_MAX}"
        raise RuleError((Problem("TRL302", message, "judge by some of the packs at a time", None),))


def _rows_of(machine: Machine, offset: int, follows: bool) -> tuple[U32, U8, U8]:
    """Return one machine's part of the flat table, which begins at `offset`, its closings and outputs."""
    states, letters = len(machine.next), len(machine.next[0])
    width, rows = letters + 2 + follows, states + 1 + follows
    output = np.array(machine.output, dtype=np.uint32)
    verdict = output & VERDICT_MASK
    bits = np.where(verdict == VIOLATED, FOUND_VIOLATED, np.where(verdict == SATISFIED, FOUND_SATISFIED, 0))
    bits = bits | np.where((output & APPLIES) != 0, int(APPLIES_BIT), 0)
    # A letter that changes no state; the loop steps the sets of a run that follows.
    target = np.repeat(np.arange(rows)[:, None], width, axis=1)
    target[:states, :letters] = np.array(machine.next)
    target[:, width - 1] = states
    target[states] = states
    found = np.zeros((rows, width), dtype=np.int64)
    found[:states, :letters] = bits
    if follows:
        found[:, letters] = FOUND_FOLLOW
        found[states + 1, : letters + 1] = FOUND_FOLLOW
    found[:, width - 1] = FOUND_UNKNOWN
    found[states] = 0
    closing = np.zeros((rows, width), dtype=np.uint8)
    closing[:states] = np.array([[CLOSING.index(verdict)] for verdict in machine.closing])
    closing[states + 1 :] = CLOSING_FOLLOWED
    outputs = np.zeros((rows, width), dtype=np.uint8)
    outputs[:states, :letters] = output
    entries = ((offset + target * width) << OUTPUT_BITS) | found
    return entries.astype(np.uint32).ravel(), closing.ravel(), outputs.ravel()


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
        sets=np.zeros((slots, program.columns, 2), dtype=np.uint64),
        slice_sets=np.zeros((slices, widest, 2), dtype=np.uint64),
        doubts=np.zeros((slots, program.columns), dtype=np.uint8),
    )


def judge(
    program: Program,
    letters: LetterTable,
    rows: Rows,
    memory: Memory,
    *,
    found_max: int = 1 << 16,
    slices_max: int = SLICES_MAX,
) -> Iterator[Findings]:
    """Step every rule over `rows`, changing `memory`, and yield the findings in parts.

    Findings of rules without `for_each` come first; both are in judged order. A part holds at most
    `found_max` findings; the kernel doubles that where a single event may have more.
    """
    words, slots, stamps, flat = rows.words, rows.slots, rows.stamps, letters.letters.ravel()
    state, doubts = memory.state.ravel(), memory.doubts
    following = (
        *(words, flat, letters.choice.ravel(), letters.bounds, letters.possible),
        *(program.table, program.outputs, program.skip, program.follow, program.followed, program.start),
    )

    def unsliced(begin: int, out: Any) -> tuple[int, int]:
        sessions = state, memory.seen, memory.last, memory.sets, doubts
        sizes = program.plain, program.unsliced, program.columns
        tables = program.table, program.skip
        return judge_unsliced(begin, (words, slots, stamps, flat), tables, sizes, sessions, following, out)

    def sliced(begin: int, out: Any) -> tuple[int, int]:
        sizes = program.plain, program.unsliced, program.columns, slices_max
        sessions = state, memory.last, memory.sets, doubts
        chains = memory.born, memory.head, memory.linked, memory.link
        slicing = *chains, memory.slice_state, memory.slice_last, memory.slice_sets
        machines = program.table, program.skip, program.dead, program.unknown, program.follow
        read, tables = (words, slots, stamps, flat, rows.slices), (*machines, program.group_columns)
        return judge_sliced(begin, read, tables, sizes, sessions, slicing, following, out)

    yield from _in_parts(unsliced, len(words), found_max)
    if program.keys:
        yield from _in_parts(sliced, len(words), found_max)


def _in_parts(step: Callable[[int, Any], tuple[int, int]], total: int, found_max: int) -> Iterator[Findings]:
    """Yield the findings of a loop over rows: from a row on while they fit, it returns row and findings."""
    begin = 0
    while begin < total:
        found = findings(*(np.empty(found_max, dtype) for dtype in _TYPES))
        begin, used = step(begin, found.arrays)
        if used:
            yield found.take(slice(used))
        elif begin < total:
            found_max *= 2


def applies(memory: Memory) -> Mask:
    """Return whether each rule (by column) has applied to each session (by slot) so far, in every run."""
    return (memory.state & APPLIES_BIT) != 0


def may_apply(memory: Memory) -> Mask:
    """Return whether each rule (by column) has applied to each session (by slot) so far, in some run."""
    return applies(memory) | (memory.doubts & MAY_APPLY != 0)


def unjudged(memory: Memory) -> Mask:
    """Return whether each rule (by column) has become unjudged for each session (by slot)."""
    return memory.doubts & UNDECIDED != 0


def stopped(program: Program, memory: Memory) -> Mask:
    """Return whether each rule (by column) judges no later event of each session (by slot)."""
    return memory.state >> OUTPUT_BITS == program.dead
