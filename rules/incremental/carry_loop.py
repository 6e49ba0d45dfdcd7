"""The compiled loops that unpack what is carried of sessions into the kernel's memory, and pack it again.

What is carried of a session's runs is a stream of numbers from 0, as varints: seven bits a byte, the lowest
first, all bytes but a number's last with the eighth bit. The stream is, after the place of the session's last
event: for each column of the program the head of its unsliced run (that of the events without a value), and
the run. A class of slices has a stream of its own: for each rule of its key the same. In state of the release
before, the slices follow in the session's stream.

A head has the bits of `DEAD` to `HAS_LAST`, the last event's effect above them, the number of changes above
that, `FOLLOWED`, and the doubts of the rule. Nothing follows the head of a run that is dead, unborn or fresh
(no event has stepped it). Of another run there follow, with `FOLLOWED`, its two sets of states, each as two
halves of 32 bits, the lower first; its state and the number of its values; with `HAS_LAST` the word, residual
and reasons of its last event; for each history bit the place of its last change; the changes, each as place,
word and residual; and the last places. A place is a number among the session's carried events from 1, or
`OWN_PLACE` and a number among the slice's events from 0, and 0 where there is none.

In memory a place among a slice's events is that event's place, and in the trails of a class `FIRST_OWN` less
the number: such trails are stepped like others, and then describe each slice of the class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...schemas.compiled import compiled
from ..engine.kernel_loop import APPLIES_BIT, OUTPUT_BITS, UNBORN, UNDECIDED
from ..engine.trail_loop import (
    AT_BITS,
    AT_CHANGES,
    AT_DECIDING,
    AT_EFFECT,
    AT_RESIDUAL,
    AT_STATE,
    AT_VALUES,
    AT_WORD,
    CHANGE_SIZE,
    CHANGES_MAX,
    CHANGES_SIZE,
    apply_effect,
)

DEAD, APPLIES, BREACHED, FRESH, HAS_LAST = 1, 2, 4, 8, 16
EFFECT_SHIFT, CHANGES_SHIFT, CHANGES_MASK = 5, 7, 31
FOLLOWED, DOUBTS_SHIFT, DOUBTS_MASK = 1 << 12, 13, 3
"""The bits of a head."""

FIXED_SIZE = AT_BITS + CHANGES_SIZE
"""Integers of a trail beside those for history bits and last places."""
OWN_PLACE = 1 << 14
"""The first place of a stream that is among a slice's events; a session has fewer carried events."""
FIRST_OWN = -2
"""The place of a slice's first event in the trails of its class."""
SETS_SIZE, NUMBER_BYTES_MAX = 4, 5
"""Numbers of the sets of a run, and bytes of a number below 2**35; there are no greater numbers."""


@compiled
def unpack(data: Any, starts: Any, carried: Any, layout: Any, memory: Any, trails: Any, breached: Any) -> Any:
    """Unpack each slot's bytes `data[starts[s]:starts[s + 1]]`, if it has any, into memory and trails.

    `carried` has the places of the carried events with their start by slot, the bounds of the slices that are
    in the slot's bytes, and those of all slices, as `unpack_slices` takes them.
    """
    states, first_state, width, start, dead, _groups, plain, offsets, bits, depths = layout[:10]
    slot_size, followed = layout[10], layout[12]
    state, seen, last, sets, doubts = memory[0], memory[1], memory[2], memory[9], memory[11]
    places, firsts, bounds, slices = carried
    for s in range(starts.shape[0] - 1):
        i, has_bytes = starts[s], starts[s + 1] > starts[s]
        if has_bytes:
            number, i = _number(data, i)
            seen[s] = places[firsts[s] + number - 1] if number else -1
        for c in range(start.shape[0]):
            t, packed = s * slot_size + offsets[c], FRESH
            if has_bytes:
                packed, i = _number(data, i)
            i = _read_sets(data, i, packed, sets[s, c])
            i = _read(data, i, packed, t, (places, firsts[s], -1), bits[c], depths[c], trails)
            row = start[c] + states[first_state[c] + trails[t + AT_STATE]] * width[c]
            row = dead[c] if packed & DEAD else followed[c] if packed & FOLLOWED else row
            doubts[s, c] = packed >> DOUBTS_SHIFT & DOUBTS_MASK | (UNDECIDED if packed & DEAD else 0)
            state[s, c] = row << OUTPUT_BITS | (APPLIES_BIT if packed & APPLIES else 0)
            breached[s, c] = (packed & BREACHED) != 0
            if c >= plain:
                last[s, c - plain] = trails[t + AT_BITS + bits[c] + CHANGES_SIZE]
        for x in range(bounds[s], bounds[s + 1]):
            i = _unpack_slice(data, i, x, (places, firsts[s], -1), slices, layout, memory, trails)
    owners, _keys, _offsets, begins, owned, _weights = slices
    for x in range(bounds[bounds.shape[0] - 1], owners.shape[0]):
        if begins[x] >= 0:
            at = places, firsts[owners[x]], owned[x]
            _unpack_slice(data, begins[x], x, at, slices, layout, memory, trails)


@compiled
def _unpack_slice(
    data: Any, i: Any, x: Any, at: Any, slices: Any, layout: Any, memory: Any, trails: Any
) -> Any:
    """Unpack the runs of slice slot `x` that begin at `i`, and return where they end.

    `slices` are the owners, keys and offsets of the trails of all slice slots, the beginnings of their bytes,
    the places of their first own events (-1 for a class), and the numbers of slices that they stand for.
    """
    states, first_state, width, start, _dead, groups, _plain, offsets, bits, depths = layout[:10]
    born, head, linked, link, slice_state, slice_last = memory[3:9]
    slice_sets, followed = memory[10], layout[12]
    owners, keys, slice_offsets, _begins, _own, weights = slices
    s, k = owners[x], keys[x]
    unsliced = start.shape[0] - born.shape[1]
    link[x], head[s, k] = head[s, k], x
    linked[s, k] += 1
    for c in range(groups[k], groups[k + 1]):
        t = slice_offsets[x] + offsets[c] - offsets[groups[k]]
        packed, i = _number(data, i)
        i = _read_sets(data, i, packed, slice_sets[x, c - groups[k]])
        i = _read(data, i, packed, t, at, bits[c], depths[c], trails)
        if packed & DEAD:
            continue
        row = start[c] + states[first_state[c] + trails[t + AT_STATE]] * width[c]
        row = followed[c] if packed & FOLLOWED else row
        slice_state[x, c - groups[k]] = row << OUTPUT_BITS
        slice_last[x, c - groups[k]] = trails[t + AT_BITS + bits[c] + CHANGES_SIZE]
        born[s, c - unsliced] += weights[x]
    return i


@compiled
def _number(data: Any, i: Any) -> Any:
    """Return the number that begins at `i`, and where the next one begins."""
    number, shift = 0, 0
    while data[i] & 128:
        number |= (data[i] & 127) << shift
        shift += 7
        i += 1
    return number | data[i] << shift, i + 1


@compiled
def _read_sets(data: Any, i: Any, packed: Any, sets: Any) -> Any:
    """Read the sets of a run that follows, and return where the next number begins."""
    if packed & FOLLOWED and not packed & DEAD:
        for part in range(sets.shape[0]):
            lower, i = _number(data, i)
            upper, i = _number(data, i)
            sets[part] = np.uint64(lower) | np.uint64(upper) << np.uint64(32)
    return i


@compiled
def _read(data: Any, i: Any, packed: Any, t: Any, at: Any, bits: Any, depth: Any, trails: Any) -> Any:
    """Read the run with that head into the trail at `t`, and return where the next number begins.

    `at` has the places of the carried events, and of which the session's and the slice's own begin.
    """
    past = t + AT_BITS + bits + CHANGES_SIZE
    trails[t : t + AT_BITS] = 0
    trails[t + AT_BITS : t + AT_BITS + bits] = -1
    trails[past : past + depth] = -1
    if packed & (DEAD | FRESH):
        return i
    trails[t + AT_STATE], i = _number(data, i)
    trails[t + AT_VALUES], i = _number(data, i)
    trails[t + AT_EFFECT] = packed >> EFFECT_SHIFT & 3
    trails[t + AT_CHANGES] = packed >> CHANGES_SHIFT & CHANGES_MASK
    if packed & HAS_LAST:
        trails[t + AT_WORD], i = _number(data, i)
        trails[t + AT_RESIDUAL], i = _number(data, i)
        trails[t + AT_DECIDING], i = _number(data, i)
    for j in range(bits):
        trails[t + AT_BITS + j], i = _place(data, i, at)
    for j in range(min(trails[t + AT_CHANGES], CHANGES_MAX)):
        change = t + AT_BITS + bits + j * CHANGE_SIZE
        trails[change], i = _place(data, i, at)
        trails[change + 1], i = _number(data, i)
        trails[change + 2], i = _number(data, i)
    for j in range(depth):
        trails[past + j], i = _place(data, i, at)
    return i


@compiled
def _place(data: Any, i: Any, at: Any) -> Any:
    number, i = _number(data, i)
    places, first, owned = at
    if number >= OWN_PLACE:
        number -= OWN_PLACE
        return (FIRST_OWN - number if owned < 0 else places[owned + number]), i
    return (places[first + number - 1] if number else -1), i


@compiled
def fork(chosen: Any, layout: Any, slice_state: Any, runs: Any) -> Any:
    """Give each run of a slice that began in this batch the trail of the events without a value before it.

    `chosen` has the owner and the key of each slice, and for which of its rules it began before.
    """
    owners, keys, was_born = chosen
    slice_offsets, trails = runs
    _states, _first, _width, _start, _dead, groups, _plain, offsets, bits, depths, slot_size, _back = layout[
        :12
    ]
    for x in range(owners.shape[0]):
        first = groups[keys[x]]
        for c in range(first, groups[keys[x] + 1]):
            if slice_state[x, c - first] == UNBORN or was_born[x, c - first]:
                continue
            source = owners[x] * slot_size + offsets[c]
            target = slice_offsets[x] + offsets[c] - offsets[first]
            for j in range(AT_BITS + bits[c] + CHANGES_SIZE + depths[c]):
                trails[target + j] = trails[source + j]


@compiled
def settle(chosen: Any, closing: Any, layout: Any, memory: Any, runs: Any, marks: Any) -> Any:
    """Drop what no coming verdict of the slots needs, and mark the places, the slices and the slots in use.

    A run whose close is not reported needs no last event. `chosen` has the slots, the owners and keys of all
    slices, and which of them are classes: other slices carry their events themselves.
    """
    slots, owners, keys, is_class = chosen
    slice_offsets, trails = runs
    used, needed, is_open = marks
    _states, _first, _width, _start, dead, groups, _plain, offsets, bits, depths, slot_size, back = layout[
        :12
    ]
    state, seen, _last, _born, _head, _linked, _link, slice_state = memory[:8]
    for s in slots:
        is_open[s] = True
        if seen[s] >= 0:
            used[seen[s]] = True
        for c in range(state.shape[1]):
            row = state[s, c] >> OUTPUT_BITS
            if row != dead[c]:
                t = s * slot_size + offsets[c]
                _settle_run(t, closing[row] != 0, bits[c], back[c], trails)
                _mark(t, bits[c], depths[c], trails, used)
    for x in range(owners.shape[0]):
        s, first = owners[x], groups[keys[x]]
        for c in range(first, groups[keys[x] + 1]):
            entry = slice_state[x, c - first]
            if not is_open[s] or entry == UNBORN or state[s, c] >> OUTPUT_BITS == dead[c]:
                continue
            needed[x] = True
            t = slice_offsets[x] + offsets[c] - offsets[first]
            _settle_run(t, closing[entry >> OUTPUT_BITS] != 0, bits[c], back[c], trails)
            if is_class[x]:
                _mark(t, bits[c], depths[c], trails, used)


@compiled
def _settle_run(t: Any, closes: Any, bits: Any, back: Any, trails: Any) -> Any:
    past = t + AT_BITS + bits + CHANGES_SIZE
    if not closes:
        apply_effect(t, past, trails)
        trails[t + AT_WORD] = trails[t + AT_RESIDUAL] = trails[t + AT_DECIDING] = 0
        if not back:
            trails[past] = -1


@compiled
def _mark(t: Any, bits: Any, depth: Any, trails: Any, used: Any) -> Any:
    """Mark the places of the trail at `t`."""
    past = t + AT_BITS + bits + CHANGES_SIZE
    for j in range(bits):
        if trails[t + AT_BITS + j] >= 0:
            used[trails[t + AT_BITS + j]] = True
    for j in range(min(trails[t + AT_CHANGES], CHANGES_MAX)):
        if trails[t + AT_BITS + bits + j * CHANGE_SIZE] >= 0:
            used[trails[t + AT_BITS + bits + j * CHANGE_SIZE]] = True
    for j in range(depth):
        if trails[past + j] >= 0:
            used[trails[past + j]] = True


@compiled
def pack(chosen: Any, layout: Any, memory: Any, runs: Any, numbers: Any, found: Any) -> Any:
    """Write the streams of slots and then of slices, where each begins, and the end.

    `chosen` has the slots, their slices, and the keys of all slices and which are classes. `numbers` has the
    number of each place among its session's carried events. `found` are the arrays that are written: the
    bytes, the starts, and by slice the bounds of the places of its own events, and these places.
    """
    slots, slices, keys, is_class = chosen
    slice_offsets, trails, breached, owners = runs
    _states, _first, _width, _start, dead, groups, _plain, offsets, bits, depths, slot_size, _back = layout[
        :12
    ]
    state, seen, slice_state = memory[0], memory[1], memory[7]
    sets, slice_sets, doubts, followed = memory[9], memory[10], memory[11], layout[12]
    out, starts, bounds, owned = found
    bounds[0] = 0
    i = 0
    for place in range(slots.shape[0]):
        s = slots[place]
        starts[place] = i
        i = _put(out, i, numbers[seen[s]] if seen[s] >= 0 else 0)
        for c in range(state.shape[1]):
            flags = (APPLIES if state[s, c] & APPLIES_BIT else 0) | (BREACHED if breached[s, c] else 0)
            flags |= np.int64(doubts[s, c]) << DOUBTS_SHIFT
            flags |= FOLLOWED if state[s, c] >> OUTPUT_BITS == followed[c] else 0
            if state[s, c] >> OUTPUT_BITS == dead[c]:
                i = _put(out, i, flags & (APPLIES | BREACHED) | DEAD)
            else:
                at = numbers, owned, 0, -1
                t = s * slot_size + offsets[c]
                i, _ = _write(out, i, flags, sets[s, c], t, bits[c], depths[c], trails, at)
    for y in range(slices.shape[0]):
        starts[slots.shape[0] + y] = i
        x, end = slices[y], bounds[y]
        first = groups[keys[x]]
        for c in range(first, groups[keys[x] + 1]):
            if slice_state[x, c - first] == UNBORN or state[owners[x], c] >> OUTPUT_BITS == dead[c]:
                i = _put(out, i, DEAD)
            else:
                t = slice_offsets[x] + offsets[c] - offsets[first]
                at = numbers, owned, bounds[y], -1 if is_class[x] else end
                flags = FOLLOWED if slice_state[x, c - first] >> OUTPUT_BITS == followed[c] else 0
                run_sets = slice_sets[x, c - first]
                i, written = _write(out, i, flags, run_sets, t, bits[c], depths[c], trails, at)
                end = end if is_class[x] else written
        bounds[y + 1] = end
    starts[slots.shape[0] + slices.shape[0]] = i


@compiled
def _put(out: Any, i: Any, number: Any) -> Any:
    """Write a number at `i`, and return where the next one goes."""
    while number >= 128:
        out[i] = number & 127 | 128
        number >>= 7
        i += 1
    out[i] = number
    return i + 1


@compiled
def _write(
    out: Any, i: Any, flags: Any, sets: Any, t: Any, bits: Any, depth: Any, trails: Any, at: Any
) -> Any:
    """Write the run of the trail at `t`, and return where the next number goes, and the end of own places.

    `at` has the numbers of places among the session's events, and an array of which a part has the places of
    the slice's own events; its end is -1 where all events are the session's.
    """
    numbers, owned, begin, end = at
    past = t + AT_BITS + bits + CHANGES_SIZE
    is_fresh = trails[past] == -1 and not flags & FOLLOWED
    for j in range(AT_BITS):
        is_fresh &= trails[t + j] == 0
    for j in range(bits):
        is_fresh &= trails[t + AT_BITS + j] == -1
    if is_fresh:
        return _put(out, i, flags | FRESH), end
    has_last = trails[t + AT_WORD] | trails[t + AT_RESIDUAL] | trails[t + AT_DECIDING]
    flags |= HAS_LAST if has_last else 0
    i = _put(out, i, flags | trails[t + AT_EFFECT] << EFFECT_SHIFT | trails[t + AT_CHANGES] << CHANGES_SHIFT)
    if flags & FOLLOWED:
        for part in range(sets.shape[0]):
            i = _put(out, i, np.int64(sets[part] & np.uint64(0xFFFFFFFF)))
            i = _put(out, i, np.int64(sets[part] >> np.uint64(32)))
    i = _put(out, i, trails[t + AT_STATE])
    i = _put(out, i, trails[t + AT_VALUES])
    if has_last:
        i = _put(out, i, trails[t + AT_WORD])
        i = _put(out, i, trails[t + AT_RESIDUAL])
        i = _put(out, i, trails[t + AT_DECIDING])
    for j in range(bits):
        i, end = _put_place(out, i, trails[t + AT_BITS + j], numbers, owned, begin, end)
    for j in range(min(trails[t + AT_CHANGES], CHANGES_MAX)):
        change = t + AT_BITS + bits + j * CHANGE_SIZE
        i, end = _put_place(out, i, trails[change], numbers, owned, begin, end)
        i = _put(out, i, trails[change + 1])
        i = _put(out, i, trails[change + 2])
    for j in range(depth):
        i, end = _put_place(out, i, trails[past + j], numbers, owned, begin, end)
    return i, end


@compiled
def _put_place(out: Any, i: Any, place: Any, numbers: Any, owned: Any, begin: Any, end: Any) -> Any:
    if place <= FIRST_OWN:
        return _put(out, i, OWN_PLACE + FIRST_OWN - place), end
    if place < 0:
        return _put(out, i, 0), end
    if end < 0:
        return _put(out, i, numbers[place]), end
    at = begin
    while at < end and owned[at] != place:
        at += 1
    if at == end:
        owned[at] = place
        end += 1
    return _put(out, i, OWN_PLACE + at - begin), end
