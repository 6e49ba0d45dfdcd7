"""The compiled loops of certificates: the numbers of values in each session, and the JSON of its events."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...schemas.compiled import compiled

ESCAPED = -1
"""The result of `write_events` where an id needs escapes in JSON."""

_QUOTE, _BACKSLASH, _COMMA, _OPEN, _CLOSE, _MINUS, _ZERO = 0x22, 0x5C, 0x2C, 0x5B, 0x5D, 0x2D, 0x30
_PRINTED = 0x20


@compiled
def number_values(slots: Any, values: Any, marks: Any, places: Any, numbers: Any, firsts: Any) -> Any:
    """Number the distinct values of each session in the order of their first events.

    `slots` are the sessions of events, one after another. `marks`, -1 at first, and `places` have an entry
    for each value. Write the number of each event's value, a negative value as it is, and to `firsts` the
    first events of the values, session by session. Return how many there are.
    """
    count = begin = 0
    for i in range(len(slots)):
        if i > 0 and slots[i] != slots[i - 1]:
            begin = count
        value = values[i]
        if value < 0:
            numbers[i] = value
            continue
        if marks[value] != slots[i]:
            marks[value] = slots[i]
            places[value] = count - begin
            firsts[count] = i
            count += 1
        numbers[i] = places[value]
    return count


@compiled
def write_events(
    data: Any, begins: Any, ends: Any, seqs: Any, columns: Any, bounds: Any, out: Any, out_bounds: Any
) -> Any:
    """Write the events of each session as an array in JSON: for each its `seq`, its id and its numbers.

    The id of event `i` is `data[begins[i]]` to `data[ends[i]]`, and its numbers are the column `i` of
    `columns`. Session `s` has the events `bounds[s]` to `bounds[s + 1]`, and its text ends at
    `out_bounds[s + 1]`. Return the end of all texts, `ESCAPED` where an id needs escapes.
    """
    to = 0
    for session in range(len(bounds) - 1):
        out[to] = _OPEN
        to += 1
        for i in range(bounds[session], bounds[session + 1]):
            if i > bounds[session]:
                out[to] = _COMMA
                to += 1
            out[to] = _OPEN
            to = _write_number(seqs[i], out, to + 1)
            out[to], out[to + 1] = _COMMA, _QUOTE
            to += 2
            for place in range(begins[i], ends[i]):
                byte = data[place]
                if byte < _PRINTED or byte in (_QUOTE, _BACKSLASH):
                    return ESCAPED
                out[to] = byte
                to += 1
            out[to] = _QUOTE
            to += 1
            for column in range(columns.shape[0]):
                out[to] = _COMMA
                to = _write_number(columns[column, i], out, to + 1)
            out[to] = _CLOSE
            to += 1
        out[to] = _CLOSE
        to += 1
        out_bounds[session + 1] = to
    return to


@compiled
def _write_number(number: Any, out: Any, to: Any) -> Any:
    """Write an integer in decimal digits, and return the place after them."""
    rest = np.int64(number)
    if rest < 0:
        out[to] = _MINUS
        to, rest = to + 1, -rest
    size, scale = 1, np.int64(10)
    while rest >= scale:
        size, scale = size + 1, scale * 10
    for place in range(to + size - 1, to - 1, -1):
        out[place] = _ZERO + rest % 10
        rest //= 10
    return to + size
