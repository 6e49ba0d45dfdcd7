"""The compiled loops that unpack what is carried of sessions into the kernel's memory, and pack it again.

What is carried of a session's runs is a stream of numbers from 0, as varints: seven bits a byte, the lowest
first, all bytes but a number's last with the eighth bit. The stream is, after the place of the session's last
event: for each column of the program the head of its unsliced run (that of the events without a value), and
the run; then for each slice, and each rule of its key, the same.

A head has the bits of `DEAD` to `HAS_LAST`, the last event's effect above them and the number of changes
above that. Nothing follows the head of a run that is dead, unborn or fresh (no event has stepped it); of
another run there follow its state and the number of its values; with `HAS_LAST` the word, residual and
reasons of its last event; then for each history bit the place of its last change; the changes, each as place,
word and residual; and the last places. A place is a number among the session's carried events from 1, and 0
where there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.kernel_loop import APPLIES_BIT, OUTPUT_BITS, UNBORN, njit
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
EFFECT_SHIFT, CHANGES_SHIFT = 5, 7
"""The bits of a head."""

FIXED_SIZE = AT_BITS + CHANGES_SIZE
"""Integers of a trail beside those for history bits and last places."""
NUMBER_BYTES_MAX = 5
"""Bytes of a number below 2**35; no place, word, state or residual has a greater number."""


@njit
def unpack(data: Any, starts: Any, carried: Any, layout: Any, memory: Any, trails: Any, breached: Any) -> Any:
    """Unpack each slot's bytes `data[starts[s]:starts[s + 1]]`, if it has any, into memory and trails.

    `carried` has the place before each slot's first carried event, the bounds of its carried slices, and
    of each slice the key and the offset of its trails.
    """
    states, first_state, width, start, dead, groups, plain, offsets, bits, depths, slot_size, _back = layout
    state, seen, last, born, head, linked, link, slice_state, slice_last = memory
    places, bounds, keys, slice_offsets = carried
    columns = start.shape[0]
    unsliced = columns - born.shape[1]
    for s in range(starts.shape[0] - 1):
        i, has_bytes = starts[s], starts[s + 1] > starts[s]
        if has_bytes:
            number, i = _number(data, i)
            seen[s] = places[s] + number if number else -1
        for c in range(columns):
            t, packed = s * slot_size + offsets[c], FRESH
            if has_bytes:
                packed, i = _number(data, i)
            i = _read(data, i, packed, t, places[s], bits[c], depths[c], trails)
            row = start[c] + states[first_state[c] + trails[t + AT_STATE]] * width[c]
            row = dead[c] if packed & DEAD else row
            state[s, c] = row << OUTPUT_BITS | (APPLIES_BIT if packed & APPLIES else 0)
            breached[s, c] = (packed & BREACHED) != 0
            if c >= plain:
                last[s, c - plain] = trails[t + AT_BITS + bits[c] + CHANGES_SIZE]
        for x in range(bounds[s], bounds[s + 1]):
            k = keys[x]
            link[x], head[s, k] = head[s, k], x
            linked[s, k] += 1
            for c in range(groups[k], groups[k + 1]):
                t = slice_offsets[x] + offsets[c] - offsets[groups[k]]
                packed, i = _number(data, i)
                i = _read(data, i, packed, t, places[s], bits[c], depths[c], trails)
                if packed & DEAD:
                    continue
                row = start[c] + states[first_state[c] + trails[t + AT_STATE]] * width[c]
                slice_state[x, c - groups[k]] = row << OUTPUT_BITS
                slice_last[x, c - groups[k]] = trails[t + AT_BITS + bits[c] + CHANGES_SIZE]
                born[s, c - unsliced] += 1


@njit
def _number(data: Any, i: Any) -> Any:
    """Return the number that begins at `i`, and where the next one begins."""
    number, shift = 0, 0
    while data[i] & 128:
        number |= (data[i] & 127) << shift
        shift += 7
        i += 1
    return number | data[i] << shift, i + 1


@njit
def _read(data: Any, i: Any, packed: Any, t: Any, first: Any, bits: Any, depth: Any, trails: Any) -> Any:
    """Read the run with that head into the trail at `t`, and return where the next number begins."""
    past = t + AT_BITS + bits + CHANGES_SIZE
    trails[t : t + AT_BITS] = 0
    trails[t + AT_BITS : t + AT_BITS + bits] = -1
    trails[past : past + depth] = -1
    if packed & (DEAD | FRESH):
        return i
    trails[t + AT_STATE], i = _number(data, i)
    trails[t + AT_VALUES], i = _number(data, i)
    trails[t + AT_EFFECT] = packed >> EFFECT_SHIFT & 3
    trails[t + AT_CHANGES] = packed >> CHANGES_SHIFT
    if packed & HAS_LAST:
        trails[t + AT_WORD], i = _number(data, i)
        trails[t + AT_RESIDUAL], i = _number(data, i)
        trails[t + AT_DECIDING], i = _number(data, i)
    for j in range(bits):
        trails[t + AT_BITS + j], i = _place(data, i, first)
    for j in range(min(trails[t + AT_CHANGES], CHANGES_MAX)):
        at = t + AT_BITS + bits + j * CHANGE_SIZE
        trails[at], i = _place(data, i, first)
        trails[at + 1], i = _number(data, i)
        trails[at + 2], i = _number(data, i)
    for j in range(depth):
        trails[past + j], i = _place(data, i, first)
    return i


@njit
def _place(data: Any, i: Any, first: Any) -> Any:
    number, i = _number(data, i)
    return (first + number if number else -1), i


@njit
def fork(chosen: Any, layout: Any, slice_state: Any, runs: Any) -> Any:
    """Give each run of a slice that began in this batch the trail of the events without a value before it.

    `chosen` has the owner and the key of each slice, and for which of its rules it began before.
    """
    owners, keys, was_born = chosen
    slice_offsets, trails = runs
    _states, _first, _width, _start, _dead, groups, _plain, offsets, bits, depths, slot_size, _back = layout
    for x in range(owners.shape[0]):
        first = groups[keys[x]]
        for c in range(first, groups[keys[x] + 1]):
            if slice_state[x, c - first] == UNBORN or was_born[x, c - first]:
                continue
            source = owners[x] * slot_size + offsets[c]
            target = slice_offsets[x] + offsets[c] - offsets[first]
            for j in range(AT_BITS + bits[c] + CHANGES_SIZE + depths[c]):
                trails[target + j] = trails[source + j]


@njit
def settle(chosen: Any, closing: Any, layout: Any, memory: Any, runs: Any, used: Any) -> Any:
    """Drop what no coming verdict of the slots needs, and mark the places that are `used`.

    A run whose close is not reported needs no last event. `chosen` has the slots, and the owners and keys
    of all slices. Return which slices are needed.
    """
    slots, owners, keys = chosen
    slice_offsets, trails = runs
    _states, _first, _width, _start, dead, groups, _plain, offsets, bits, depths, slot_size, back = layout
    state, seen, _last, _born, _head, _linked, _link, slice_state, _slice_last = memory
    needed = np.zeros(owners.shape[0], dtype=np.bool_)
    is_open = np.zeros(state.shape[0], dtype=np.bool_)
    for s in slots:
        is_open[s] = True
        if seen[s] >= 0:
            used[seen[s]] = True
        for c in range(state.shape[1]):
            row = state[s, c] >> OUTPUT_BITS
            if row != dead[c]:
                t = s * slot_size + offsets[c]
                _settle_run(t, closing[row] != 0, bits[c], depths[c], back[c], trails, used)
    for x in range(owners.shape[0]):
        s, first = owners[x], groups[keys[x]]
        for c in range(first, groups[keys[x] + 1]):
            entry = slice_state[x, c - first]
            if not is_open[s] or entry == UNBORN or state[s, c] >> OUTPUT_BITS == dead[c]:
                continue
            needed[x] = True
            t = slice_offsets[x] + offsets[c] - offsets[first]
            _settle_run(t, closing[entry >> OUTPUT_BITS] != 0, bits[c], depths[c], back[c], trails, used)
    return needed


@njit
def _settle_run(t: Any, closes: Any, bits: Any, depth: Any, back: Any, trails: Any, used: Any) -> Any:
    past = t + AT_BITS + bits + CHANGES_SIZE
    if not closes:
        apply_effect(t, past, trails)
        trails[t + AT_WORD] = trails[t + AT_RESIDUAL] = trails[t + AT_DECIDING] = 0
        if not back:
            trails[past] = -1
    for j in range(bits):
        if trails[t + AT_BITS + j] >= 0:
            used[trails[t + AT_BITS + j]] = True
    for j in range(min(trails[t + AT_CHANGES], CHANGES_MAX)):
        used[trails[t + AT_BITS + bits + j * CHANGE_SIZE]] = True
    for j in range(depth):
        if trails[past + j] >= 0:
            used[trails[past + j]] = True


@njit
def pack(chosen: Any, layout: Any, memory: Any, runs: Any, numbers: Any, out: Any) -> Any:
    """Write the streams of slots into `out`, and return where each begins, and the end.

    `chosen` has the slots, their slices with bounds by slot, and the keys of all slices. `numbers` has the
    number of each place among its session's carried events.
    """
    slots, slices, slice_bounds, keys = chosen
    slice_offsets, trails, breached = runs
    _states, _first, _width, _start, dead, groups, _plain, offsets, bits, depths, slot_size, _back = layout
    state, seen, _last, _born, _head, _linked, _link, slice_state, _slice_last = memory
    starts = np.empty(slots.shape[0] + 1, dtype=np.int64)
    i = 0
    for place in range(slots.shape[0]):
        s = slots[place]
        starts[place] = i
        i = _put(out, i, numbers[seen[s]] if seen[s] >= 0 else 0)
        for c in range(state.shape[1]):
            flags = (APPLIES if state[s, c] & APPLIES_BIT else 0) | (BREACHED if breached[s, c] else 0)
            if state[s, c] >> OUTPUT_BITS == dead[c]:
                i = _put(out, i, flags | DEAD)
            else:
                i = _write(out, i, flags, s * slot_size + offsets[c], bits[c], depths[c], trails, numbers)
        for y in range(slice_bounds[place], slice_bounds[place + 1]):
            x, first = slices[y], groups[keys[slices[y]]]
            for c in range(first, groups[keys[x] + 1]):
                if slice_state[x, c - first] == UNBORN or state[s, c] >> OUTPUT_BITS == dead[c]:
                    i = _put(out, i, DEAD)
                else:
                    t = slice_offsets[x] + offsets[c] - offsets[first]
                    i = _write(out, i, 0, t, bits[c], depths[c], trails, numbers)
    starts[slots.shape[0]] = i
    return starts


@njit
def _put(out: Any, i: Any, number: Any) -> Any:
    """Write a number at `i`, and return where the next one goes."""
    while number >= 128:
        out[i] = number & 127 | 128
        number >>= 7
        i += 1
    out[i] = number
    return i + 1


@njit
def _write(out: Any, i: Any, flags: Any, t: Any, bits: Any, depth: Any, trails: Any, numbers: Any) -> Any:
    """Write the run of the trail at `t`, and return where the next number goes."""
    past = t + AT_BITS + bits + CHANGES_SIZE
    is_fresh = trails[past] < 0
    for j in range(AT_BITS):
        is_fresh &= trails[t + j] == 0
    for j in range(bits):
        is_fresh &= trails[t + AT_BITS + j] < 0
    if is_fresh:
        return _put(out, i, flags | FRESH)
    has_last = trails[t + AT_WORD] | trails[t + AT_RESIDUAL] | trails[t + AT_DECIDING]
    flags |= HAS_LAST if has_last else 0
    i = _put(out, i, flags | trails[t + AT_EFFECT] << EFFECT_SHIFT | trails[t + AT_CHANGES] << CHANGES_SHIFT)
    i = _put(out, i, trails[t + AT_STATE])
    i = _put(out, i, trails[t + AT_VALUES])
    if has_last:
        i = _put(out, i, trails[t + AT_WORD])
        i = _put(out, i, trails[t + AT_RESIDUAL])
        i = _put(out, i, trails[t + AT_DECIDING])
    for j in range(bits):
        i = _put_place(out, i, trails[t + AT_BITS + j], numbers)
    for j in range(min(trails[t + AT_CHANGES], CHANGES_MAX)):
        at = t + AT_BITS + bits + j * CHANGE_SIZE
        i = _put_place(out, i, trails[at], numbers)
        i = _put(out, i, trails[at + 1])
        i = _put(out, i, trails[at + 2])
    for j in range(depth):
        i = _put_place(out, i, trails[past + j], numbers)
    return i


@njit
def _put_place(out: Any, i: Any, place: Any, numbers: Any) -> Any:
    return _put(out, i, numbers[place] if place >= 0 else 0)
