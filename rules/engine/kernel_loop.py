"""The kernel's compiled inner loops: they step a row through every rule, and through its slices.

Arrays are passed as tuples, in the order of `kernel.judge`. An entry of a state or of the table is the next
state above `OUTPUT_BITS` bits: the kind of finding, and `APPLIES_BIT`.

A run that follows unknown propositions is a set of states of its rule's machine, as two words of 64 bits: the
states of the runs that have broken the rule since then, and the states of those that have not. Bit `s` is
state `s`. The entry of such a run is the row `followed` of its column, and each step of it reads the kind
`FOUND_FOLLOW`; so the loop over the rules steps the others without a branch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...schemas.compiled import compiled, compiled_with
from ..model.machine import APPLIES, SATISFIED, STAYS_SATISFIED, STAYS_VIOLATED, VERDICT_MASK, VIOLATED

FOUND_VIOLATED = 1
FOUND_SATISFIED = 2
FOUND_UNKNOWN = 4
FOUND_SLICES = 5
FOUND_UNSETTLED = 6
"""Values of `Findings.kinds`; the last three are `unjudged`: because of an unknown at an event, of too many
slices, and of an unknown that decides a closing verdict."""

FOUND_FOLLOW = 3
"""The kind of a step of a run that follows; it is no finding."""

NO_SLICE = -1
UNKNOWN_SLICE = -2
"""Entries of `Rows.slices`: the event carries no value of that key, or one that cannot be read."""

FOUND_MASK = np.uint32(7)
APPLIES_BIT = np.uint32(8)
OUTPUT_BITS = np.uint32(4)
UNBORN = np.uint32(0xFFFFFFFF)
UNLINKED = -2
_ONE, _NONE = np.uint64(1), np.uint64(0)

UNDECIDED, MAY_APPLY = np.uint8(1), np.uint8(2)
"""Bits of `Memory.doubts`: the rule is unjudged in the session; it applies there in some run that follows."""


njit = compiled_with
"""Compile a loop that may make arrays."""


@njit
def numbered(rows: Any) -> Any:
    """Return for each row the number of its distinct value, and the first row of each distinct value.

    Distinct values are numbered from 0 in the order of their first rows.
    """
    size = 2
    while size < 2 * rows.shape[0]:
        size *= 2
    # The hash table is at most half full, so that probes are short.
    table = np.full(size, -1, dtype=np.int32)
    codes = np.empty(rows.shape[0], dtype=np.int32)
    firsts = np.empty(rows.shape[0], dtype=np.int64)
    count = 0
    for i in range(rows.shape[0]):
        mixed = np.uint64(0)
        for word in rows[i]:
            mixed = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(32)
        place = np.int64(mixed & np.uint64(size - 1))
        while table[place] >= 0 and not _alike(rows, i, firsts[table[place]]):
            place = (place + 1) & (size - 1)
        if table[place] < 0:
            table[place] = count
            firsts[count] = i
            count += 1
        codes[i] = table[place]
    return codes, firsts[:count].copy()


@compiled
def _alike(rows: Any, left: Any, right: Any) -> Any:
    alike = True
    for j in range(rows.shape[1]):
        alike &= rows[left, j] == rows[right, j]
    return alike


@njit
def chained(head: Any, link: Any, slots: Any) -> Any:
    """Return every (session, slice slot, key) on the chains of these sessions, as three columns."""
    count = 0
    for s in slots:
        for k in range(head.shape[1]):
            x = head[s, k]
            while x >= 0:
                count += 1
                x = link[x]
    owners = np.empty(count, dtype=np.int32)
    members = np.empty(count, dtype=np.int32)
    keys = np.empty(count, dtype=np.int32)
    i = 0
    for s in slots:
        for k in range(head.shape[1]):
            x = head[s, k]
            while x >= 0:
                owners[i], members[i], keys[i] = s, x, k
                i += 1
                x = link[x]
    return owners, members, keys


@compiled
def judge_unsliced(
    begin: Any, rows: Any, tables: Any, sizes: Any, sessions: Any, following: Any, out: Any
) -> Any:
    """Step the rules without `for_each` from row `begin` while the findings fit; return row and findings.

    These are the next row and the number of findings. `following` has the arrays that `_follow` takes.
    """
    words, slots, stamps, letters = rows
    table, skip = tables
    plain, unsliced, columns = sizes
    state, seen, last, sets, doubts = sessions
    used = 0
    for i in range(begin, words.shape[0]):
        if used + unsliced > out[0].shape[0]:
            return i, used
        slot = slots[i]
        # Indices are unsigned: Numba tests signed ones for being negative.
        s = np.uint64(slot) * np.uint64(columns)
        w = np.uint64(words[i]) * np.uint64(columns)
        seen[slot] = stamps[i]
        entries = np.uint32(0)
        for c in range(np.uint64(unsliced)):
            old = state[s + c]
            entry = table[np.uint64(old >> OUTPUT_BITS) + np.uint64(letters[w + c])]
            state[s + c] = entry | (old & APPLIES_BIT)
            entries |= entry
        if entries & FOUND_MASK:
            for c in range(unsliced):
                at = s + np.uint64(c)
                kind = state[at] & FOUND_MASK
                if kind == FOUND_FOLLOW:
                    entry = _follow(i, c, state[at], sets[slot, c], doubts[slot], following)
                    state[at] = entry | (state[at] & APPLIES_BIT)
                    kind = entry & FOUND_MASK
                if kind:
                    used = _emit(out, used, stamps[i], slot, c, NO_SLICE, kind, doubts)
        for c in range(plain, unsliced):
            if letters[w + np.uint64(c)] != skip[c]:
                last[slot, c - plain] = stamps[i]
    return words.shape[0], used


@compiled
def _emit(
    out: Any, used: Any, stamp: Any, slot: Any, column: Any, slice_slot: Any, kind: Any, doubts: Any
) -> Any:
    """Write a finding and return the number of findings; a rule becomes unjudged once in a session."""
    if kind >= FOUND_UNKNOWN:
        if doubts[slot, column] & UNDECIDED:
            return used
        doubts[slot, column] |= UNDECIDED
        slice_slot = NO_SLICE
    out[0][used] = stamp
    out[1][used] = slot
    out[2][used] = column
    out[3][used] = slice_slot
    out[4][used] = kind
    return used + 1


@compiled
def _follow(i: Any, c: Any, entry: Any, sets: Any, doubts: Any, following: Any) -> Any:
    """Step the run of column `c` with this entry and these sets over row `i`, and return its next entry.

    `doubts` are those of the session. The kind `FOUND_UNKNOWN` means that some runs violate the rule here
    and some do not.
    """
    words, letters, choice, bounds, possible, table, outputs, skip, follow, followed, starts = following
    start, width = np.int64(starts[c]), np.int64(skip[c]) + 2
    row = np.int64(entry >> OUTPUT_BITS)
    if row != followed[c]:
        sets[0] = _NONE
        sets[1] = _ONE << np.uint64((row - start) // width)
    at = words[i] * np.int64(skip.shape[0]) + c
    read = letters[at : at + 1]
    if letters[at] == follow[c]:
        read = possible[bounds[choice[at]] : bounds[choice[at] + 1]]
    bits, may_apply = step_sets(sets, read, table, outputs, start, width)
    if may_apply:
        doubts[c] |= MAY_APPLY
    return np.uint32(followed[c]) << OUTPUT_BITS | bits


@compiled
def step_sets(sets: Any, letters: Any, table: Any, outputs: Any, start: Any, width: Any) -> Any:
    """Step the sets of a run on an event that has one of these letters.

    Return the output bits of its entry, where `APPLIES_BIT` is set if the rule applies in all runs, and
    whether it applies in some run.
    """
    broken, unbroken = sets[0], sets[1]
    sets[0] = sets[1] = _NONE
    steps = violated = satisfied = recorded = applying = 0
    for state in range(64):
        bit = _ONE << np.uint64(state)
        if (broken | unbroken) & bit == _NONE:
            continue
        for letter in letters:
            at = start + state * width + np.int64(letter)
            verdict = outputs[at] & VERDICT_MASK
            reached = _ONE << np.uint64((np.int64(table[at] >> OUTPUT_BITS) - start) // width)
            violates = verdict in (VIOLATED, STAYS_VIOLATED)
            steps += 1
            violated += 1 if violates else 0
            satisfied += 1 if verdict in (SATISFIED, STAYS_SATISFIED) else 0
            recorded += 1 if verdict in (VIOLATED, SATISFIED) else 0
            applying += 1 if outputs[at] & APPLIES else 0
            if violates or broken & bit != _NONE:
                sets[0] |= reached
            if not violates and unbroken & bit != _NONE:
                sets[1] |= reached
    kind = 0
    if violated == steps:
        kind = FOUND_VIOLATED if recorded else 0
    elif satisfied == steps:
        kind = FOUND_SATISFIED if recorded else 0
    elif violated:
        kind = FOUND_UNKNOWN
    return np.uint32(kind) | (APPLIES_BIT if applying == steps else np.uint32(0)), applying > 0


@compiled
def closing_codes(sets: Any, closing: Any, start: Any, width: Any) -> Any:
    """Return a bit for each closing code that some run has."""
    found = 0
    for state in range(64):
        if (sets[0] | sets[1]) & (_ONE << np.uint64(state)) != _NONE:
            found |= 1 << np.int64(closing[start + state * width])
    return found


@compiled
def judge_sliced(
    begin: Any, rows: Any, tables: Any, sizes: Any, sessions: Any, slicing: Any, following: Any, out: Any
) -> Any:
    """Step the rules with `for_each`, like `judge_unsliced`.

    The loops are of a single function, because a call would copy the tuples of arrays at each step.
    """
    words, slots, stamps, letters, slices = rows
    table, skip, dead, unknown, follow, group_columns = tables
    plain, unsliced, columns, slices_max = sizes
    state, last, sets, doubts = sessions
    born, head, linked, link, slice_state, slice_last, slice_sets = slicing
    used = 0
    for i in range(begin, words.shape[0]):
        slot, stamp = slots[i], stamps[i]
        room = 0
        for k in range(slices.shape[1]):
            room += (linked[slot, k] + 1) * (group_columns[k + 1] - group_columns[k])
        if used + room > out[0].shape[0]:
            return i, used
        for k in range(slices.shape[1]):
            x, first = slices[i, k], group_columns[k]
            if x >= 0 and link[x] == UNLINKED:
                link[x] = head[slot, k]
                head[slot, k] = x
                linked[slot, k] += 1
            for c in range(first, group_columns[k + 1]):
                at, w = slot * np.int64(columns) + c, words[i] * np.int64(columns) + c
                letter, place = letters[w], c - first
                if letter == skip[c] or state[at] >> OUTPUT_BITS == dead[c]:
                    continue
                kind = 0
                if x == UNKNOWN_SLICE or letter == unknown[c]:
                    kind = FOUND_UNKNOWN
                elif x >= 0 and slice_state[x, place] == UNBORN:
                    if born[slot, c - unsliced] == slices_max:
                        kind = FOUND_SLICES
                    elif letter == follow[c] and _may_skip(w, skip[c], following):
                        # It is unknown whether the slice begins here.
                        kind = FOUND_UNKNOWN
                    else:
                        born[slot, c - unsliced] += 1
                        slice_state[x, place] = state[at]
                        for part in range(sets.shape[2]):
                            slice_sets[x, place, part] = sets[slot, c, part]
                if kind:
                    state[at] = dead[c] << OUTPUT_BITS | (state[at] & APPLIES_BIT)
                    used = _emit(out, used, stamp, slot, c, NO_SLICE, kind, doubts)
                    continue
                if x < 0:
                    # The run without a value reports violations only, and those only until a slice begins.
                    entry = table[(state[at] >> OUTPUT_BITS) + letter]
                    if entry & FOUND_MASK == FOUND_FOLLOW:
                        entry = _follow(i, c, entry, sets[slot, c], doubts[slot], following)
                    state[at] = entry & ~FOUND_MASK | (state[at] & APPLIES_BIT)
                    last[slot, c - plain] = stamp
                    kind = entry & FOUND_MASK
                    if kind and kind != FOUND_SATISFIED and born[slot, c - unsliced] == 0:
                        used = _emit(out, used, stamp, slot, c, NO_SLICE, kind, doubts)
                y = x if x >= 0 else head[slot, k]
                while y >= 0:
                    if slice_state[y, place] != UNBORN:
                        entry = table[(slice_state[y, place] >> OUTPUT_BITS) + letter]
                        if entry & FOUND_MASK == FOUND_FOLLOW:
                            entry = _follow(i, c, entry, slice_sets[y, place], doubts[slot], following)
                        slice_state[y, place] = entry
                        slice_last[y, place] = stamp
                        state[at] |= entry & APPLIES_BIT
                        if entry & FOUND_MASK:
                            used = _emit(out, used, stamp, slot, c, y, entry & FOUND_MASK, doubts)
                    y = NO_SLICE if x >= 0 else link[y]
    return words.shape[0], used


@compiled
def _may_skip(at: Any, skip: Any, following: Any) -> Any:
    """Return whether the rule may not see an event; `at` is the place of its letters, which ascend."""
    choice, bounds, possible = following[2], following[3], following[4]
    return possible[bounds[choice[at] + 1] - 1] == skip
