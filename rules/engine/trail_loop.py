"""The compiled loop that replays runs over trail tables and writes what their witnesses show.

A trail is a row of integers: the state of the table, the number of the bits' values, the number of changes
since the residual last equalled the rule (`WITNESS_EVENTS_MAX` stands for more), for each history bit the
place of the event that last changed it (-1 where none did), then the changes, each as place, word and
residual, then the places of the run's last events, the latest first, as many as the bits look back.
"""

from __future__ import annotations

from typing import Any

from .kernel_loop import NO_SLICE, njit

WITNESS_EVENTS_MAX = 20
"""Events of one witness: the earliest ones, and the event of the verdict."""
CHANGES_MAX = WITNESS_EVENTS_MAX - 1

AT_STATE, AT_VALUES, AT_CHANGES, AT_BITS = range(4)
"""The parts of a trail."""
CHANGE_SIZE = 3
"""Integers of a change, and of an event of a witness: place, word, residual."""

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


@njit
def replay(runs: Any, rows: Any, tables: Any, trails: Any, out: Any) -> Any:
    """Step each run's trail over its rows, write a witness at each place where one is asked for.

    Return the number of events written. The arrays are in the order of `witness.Runs`, `witness.Rows`,
    `witness.TrailProgram` and `witness.Explanations`.
    """
    begins, ends, columns, slices, offsets, bounds, asked = runs
    codes, letters, words, row_slices = rows
    entries, first_entry, width, groups = tables[:4]
    used = 0
    for r in range(begins.shape[0]):
        c, t, a, key = columns[r], offsets[r], bounds[r], groups[columns[r]]
        for place in range(begins[r], ends[r]):
            code = codes[place]
            letter = letters[code, c]
            if letter == SKIPPED:
                continue
            if key >= 0 and row_slices[place, key] != NO_SLICE and row_slices[place, key] != slices[r]:
                continue
            if letter == UNREADABLE:
                break
            entry = entries[first_entry[c] + trails[t + AT_STATE] * width[c] + letter]
            if entry[VALUES] != UNWATCHED and entry[VALUES] != trails[t + AT_VALUES]:
                _watch(c, t, place, entry[VALUES], tables, trails)
            while a < bounds[r + 1] and asked[a] == place:
                used = _explain(a, c, t, place, words[code, c], entry, tables, trails, out, used)
                a += 1
            _step(c, t, place, words[code, c], entry, tables, trails)
    return used


@njit
def _watch(c: Any, t: Any, place: Any, now: Any, tables: Any, trails: Any) -> Any:
    """Record the events that changed the history bits whose values differ from those before."""
    values, first_value, bits, delays, first_delay = tables[4:9]
    count = bits[c]
    past = t + AT_BITS + count + CHANGES_MAX * CHANGE_SIZE
    for i in range(count):
        before = values[first_value[c] + trails[t + AT_VALUES] * count + i]
        if values[first_value[c] + now * count + i] != before:
            delay = delays[first_delay[c] + i]
            trails[t + AT_BITS + i] = trails[past + delay - 1] if delay else place
    trails[t + AT_VALUES] = now


@njit
def _explain(
    a: Any, c: Any, t: Any, place: Any, word: Any, entry: Any, tables: Any, trails: Any, out: Any, used: Any
) -> Any:
    """Write the witness at an event, before the event's own effect on the trail."""
    heads, events, changed_at = out
    count = tables[6][c]
    shown = min(trails[t + AT_CHANGES], CHANGES_MAX)
    heads[a, 0], heads[a, 1], heads[a, 2] = used, shown + 1, trails[t + AT_CHANGES] > CHANGES_MAX
    heads[a, 3], heads[a, 4] = trails[t + AT_VALUES], entry[DECIDING]
    first = t + AT_BITS + count
    for i in range(shown):
        for j in range(CHANGE_SIZE):
            events[used + i, j] = trails[first + i * CHANGE_SIZE + j]
    events[used + shown, 0], events[used + shown, 1], events[used + shown, 2] = place, word, entry[RESIDUAL]
    for i in range(count):
        changed_at[a, i] = trails[t + AT_BITS + i]
    return used + shown + 1


@njit
def _step(c: Any, t: Any, place: Any, word: Any, entry: Any, tables: Any, trails: Any) -> Any:
    """Change the trail by an event."""
    first = t + AT_BITS + tables[6][c]
    if entry[EFFECT] == CLEARS:
        trails[t + AT_CHANGES] = 0
    elif entry[EFFECT] == APPENDS and trails[t + AT_CHANGES] <= CHANGES_MAX:
        at = first + trails[t + AT_CHANGES] * CHANGE_SIZE
        if trails[t + AT_CHANGES] < CHANGES_MAX:
            trails[at], trails[at + 1], trails[at + 2] = place, word, entry[RESIDUAL]
        trails[t + AT_CHANGES] += 1
    past = first + CHANGES_MAX * CHANGE_SIZE
    for i in range(tables[9][c] - 1, 0, -1):
        trails[past + i] = trails[past + i - 1]
    if tables[9][c] > 0:
        trails[past] = place
    trails[t + AT_STATE] = entry[TARGET]
