"""The compiled loop that steps an automaton over texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....schemas.compiled import compiled


@compiled
def search_texts(data: Any, begins: Any, ends: Any, tables: Any, out: Any) -> None:
    """Write the bits of the patterns that each text has.

    Text `i` is `data[begins[i]]` to `data[ends[i]]`. `tables` are the classes, the next states, the width of
    a row, the first state that reports, and what states report on and at the end. Four texts are searched at
    a time: the steps of one wait for memory, and the others' do not wait for them.
    """
    count = len(begins)
    for text in range(count):
        out[text] = 0
    text = 0
    while text + 4 <= count:
        _search_four(data, begins, ends, tables, out, text)
        text += 4
    while text < count:
        _search_rest(data, begins[text], ends[text], np.uint64(0), tables, out, text)
        text += 1


@compiled
def _search_four(data: Any, begins: Any, ends: Any, tables: Any, out: Any, text: Any) -> None:
    """Search four texts as far as the shortest, then the rest of each."""
    classes, following, width, reporting, found, _ = tables
    first, second, third, fourth = begins[text], begins[text + 1], begins[text + 2], begins[text + 3]
    shared = min(ends[text] - first, ends[text + 1] - second, ends[text + 2] - third, ends[text + 3] - fourth)
    a = b = c = d = np.uint64(0)
    for i in range(shared):
        a = np.uint64(following[a + np.uint64(classes[data[first + i]])])
        b = np.uint64(following[b + np.uint64(classes[data[second + i]])])
        c = np.uint64(following[c + np.uint64(classes[data[third + i]])])
        d = np.uint64(following[d + np.uint64(classes[data[fourth + i]])])
        if a >= reporting:
            out[text] |= found[a // width]
        if b >= reporting:
            out[text + 1] |= found[b // width]
        if c >= reporting:
            out[text + 2] |= found[c // width]
        if d >= reporting:
            out[text + 3] |= found[d // width]
    _search_rest(data, first + shared, ends[text], a, tables, out, text)
    _search_rest(data, second + shared, ends[text + 1], b, tables, out, text + 1)
    _search_rest(data, third + shared, ends[text + 2], c, tables, out, text + 2)
    _search_rest(data, fourth + shared, ends[text + 3], d, tables, out, text + 3)


@compiled
def _search_rest(data: Any, first: Any, last: Any, state: Any, tables: Any, out: Any, text: Any) -> None:
    """Search the rest of a text from a state."""
    classes, following, width, reporting, found, at_end = tables
    for i in range(first, last):
        state = np.uint64(following[state + np.uint64(classes[data[i]])])
        if state >= reporting:
            out[text] |= found[state // width]
    out[text] |= at_end[state // width]
