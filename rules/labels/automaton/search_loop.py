"""The compiled loop that steps an automaton over texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....schemas.compiled import compiled


@compiled
def search_texts(data: Any, bounds: Any, tables: Any, out: Any) -> None:
    """Write the bits of the patterns that each text has.

    Text `i` is `data[bounds[i]]` to `data[bounds[i + 1]]`. `tables` are the classes, the next states, the
    width of a row, the first state that reports, and what states report on and at the end. Four texts are
    searched at a time: the steps of one wait for memory, and the others' do not wait for them.
    """
    count = len(bounds) - 1
    for text in range(count):
        out[text] = 0
    begin = 0
    while begin + 4 <= count:
        _search_four(data, bounds, tables, out, begin)
        begin += 4
    while begin < count:
        _search_rest(data, bounds[begin], bounds[begin + 1], np.uint64(0), tables, out, begin)
        begin += 1


@compiled
def _search_four(data: Any, bounds: Any, tables: Any, out: Any, begin: Any) -> None:
    """Search four texts as far as the shortest, then the rest of each."""
    classes, following, width, reporting, found, _ = tables
    first, second, third, fourth = bounds[begin], bounds[begin + 1], bounds[begin + 2], bounds[begin + 3]
    shared = min(second - first, third - second, fourth - third, bounds[begin + 4] - fourth)
    a = b = c = d = np.uint64(0)
    for i in range(shared):
        a = np.uint64(following[a + np.uint64(classes[data[first + i]])])
        b = np.uint64(following[b + np.uint64(classes[data[second + i]])])
        c = np.uint64(following[c + np.uint64(classes[data[third + i]])])
        d = np.uint64(following[d + np.uint64(classes[data[fourth + i]])])
        if a >= reporting:
            out[begin] |= found[a // width]
        if b >= reporting:
            out[begin + 1] |= found[b // width]
        if c >= reporting:
            out[begin + 2] |= found[c // width]
        if d >= reporting:
            out[begin + 3] |= found[d // width]
    _search_rest(data, first + shared, second, a, tables, out, begin)
    _search_rest(data, second + shared, third, b, tables, out, begin + 1)
    _search_rest(data, third + shared, fourth, c, tables, out, begin + 2)
    _search_rest(data, fourth + shared, bounds[begin + 4], d, tables, out, begin + 3)


@compiled
def _search_rest(data: Any, first: Any, last: Any, state: Any, tables: Any, out: Any, text: Any) -> None:
    """Search the rest of a text from a state."""
    classes, following, width, reporting, found, at_end = tables
    for i in range(first, last):
        state = np.uint64(following[state + np.uint64(classes[data[i]])])
        if state >= reporting:
            out[text] |= found[state // width]
    out[text] |= at_end[state // width]
