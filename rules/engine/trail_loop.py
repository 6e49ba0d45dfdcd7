"""The compiled loop that replays runs over trail tables and writes what their witnesses show.

A trail is a row of integers. It begins with the `AT_` parts: the state of the table, the number of the bits'
values, the number of changes since the residual last equalled the rule (`WITNESS_EVENTS_MAX` stands for
more), and the run's last event: its effect, which the next event brings about, its word, the residual after
it, and the number of the deciding bits. There follow for each history bit the place of the event that last
changed it (-1 where none did), the changes, each as place, word and residual, and the places of the last
events, the latest first: as many as the bits look back, and at least one.
"""

from __future__ import annotations

from typing import Any

from ...schemas.compiled import compiled
from .kernel_loop import NO_SLICE

WITNESS_EVENTS_MAX = 20
"""Events of one witness: the earliest ones, and the event of the verdict."""
CHANGES_MAX = WITNESS_EVENTS_MAX - 1

AT_STATE, AT_VALUES, AT_CHANGES, AT_EFFECT, AT_WORD, AT_RESIDUAL, AT_DECIDING, AT_BITS = range(8)
"""The parts of a trail."""
CHANGE_SIZE = 3
"""Integers of a change, and of an event of a witness: place, word, residual."""
CHANGES_SIZE = CHANGES_MAX * CHANGE_SIZE

TARGET, EFFECT, RESIDUAL, VALUES, DECIDING = range(5)
"""Fields of an entry: next state, effect, residual, and the numbers of the bits' values and reasons."""

ENTRY_SIZE, HEAD_SIZE = 5, 5
"""Fields of an entry, and of the head of a witness."""

UNWATCHED = -1
"""The field `VALUES` after a final verdict: no bit is watched there."""

SKIPPED, UNREADABLE = -1, -2
"""Letters of an event that the rule does not see, and of one from which on it cannot be judged."""

CLEARS, APPENDS = 1, 2
"""Effects of a step: the residual equals the rule again, or the event changed it; 0 is neither."""


@compiled
def replay(runs: Any, rows: Any, tables: Any, trails: Any, out: Any) -> Any:
    """Step each run's trail over its rows, and write a witness at each place where one is asked for.

    Such a place may also be that of the run's last event before these rows, if there are none. Return the
    number of events written. The arrays are in the order of `witness.TrailRuns`, `TrailRows`, `TrailProgram`
    and `Explanations`.
    """
    begins, ends, columns, slices, offsets, bounds, asked = runs
    codes, letters, words, row_slices = rows
    entries, first_entry, width, groups, values, first_value, bits, delays, first_delay, depths = tables
    used = 0
    for r in range(begins.shape[0]):
        c, t, a, key = columns[r], offsets[r], bounds[r], groups[columns[r]]
        first, count = t + AT_BITS, bits[c]
        past = first + count + CHANGES_SIZE
        for place in range(begins[r], ends[r]):
            letter, member = letters[codes[place], c], row_slices[place, key] if key >= 0 else NO_SLICE
            if letter == SKIPPED or (member != NO_SLICE and member != slices[r]):
                continue
            if letter == UNREADABLE:
                break
            if trails[t + AT_EFFECT]:
                apply_effect(t, past, trails)
            entry = (first_entry[c] + trails[t + AT_STATE] * width[c] + letter) * ENTRY_SIZE
            now, before = entries[entry + VALUES], trails[t + AT_VALUES]
            if now != before and now != UNWATCHED:
                for i in range(count):
                    if (
                        values[first_value[c] + now * count + i]
                        != values[first_value[c] + before * count + i]
                    ):
                        delay = delays[first_delay[c] + i]
                        trails[first + i] = trails[past + delay - 1] if delay else place
                trails[t + AT_VALUES] = now
            _push(place, past, depths[c], trails)
            trails[t + AT_STATE], trails[t + AT_EFFECT] = entries[entry + TARGET], entries[entry + EFFECT]
            trails[t + AT_WORD], trails[t + AT_RESIDUAL] = words[codes[place], c], entries[entry + RESIDUAL]
            trails[t + AT_DECIDING] = entries[entry + DECIDING]
            while a < bounds[r + 1] and asked[a] == place:
                used = _explain(a, t, count, trails, out, used)
                a += 1
        for at in range(a, bounds[r + 1]):
            used = _explain(at, t, count, trails, out, used)
    return used


@compiled
def _push(place: Any, past: Any, depth: Any, trails: Any) -> Any:
    """Put a place before the last places of a trail, of which it has `depth`."""
    for i in range(depth - 1, 0, -1):
        trails[past + i] = trails[past + i - 1]
    trails[past] = place


@compiled
def apply_effect(t: Any, past: Any, trails: Any) -> Any:
    """Change the trail as its last event, whose place is at `past`, does for the events that follow."""
    count = trails[t + AT_CHANGES]
    if trails[t + AT_EFFECT] == CLEARS:
        trails[t + AT_CHANGES] = 0
    elif trails[t + AT_EFFECT] == APPENDS and count < WITNESS_EVENTS_MAX:
        if count < CHANGES_MAX:
            at = past - CHANGES_SIZE + count * CHANGE_SIZE
            trails[at], trails[at + 1], trails[at + 2] = (
                trails[past],
                trails[t + AT_WORD],
                trails[t + AT_RESIDUAL],
            )
        trails[t + AT_CHANGES] = count + 1
    trails[t + AT_EFFECT] = 0


@compiled
def _explain(a: Any, t: Any, count: Any, trails: Any, out: Any, used: Any) -> Any:
    """Write the witness at the trail's last event, and return the number of events written."""
    heads, events, changed_at = out
    shown = min(trails[t + AT_CHANGES], CHANGES_MAX)
    heads[a, 0], heads[a, 1], heads[a, 2] = used, shown + 1, trails[t + AT_CHANGES] > CHANGES_MAX
    heads[a, 3], heads[a, 4] = trails[t + AT_VALUES], trails[t + AT_DECIDING]
    first = t + AT_BITS + count
    for i in range(shown):
        for j in range(CHANGE_SIZE):
            events[used + i, j] = trails[first + i * CHANGE_SIZE + j]
    events[used + shown, 0] = trails[first + CHANGES_SIZE]
    events[used + shown, 1], events[used + shown, 2] = trails[t + AT_WORD], trails[t + AT_RESIDUAL]
    for i in range(count):
        changed_at[a, i] = trails[t + AT_BITS + i]
    return used + shown + 1
