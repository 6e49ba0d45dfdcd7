"""The compiled loop that steps an automaton over texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....schemas.compiled import compiled

LENGTHS = 1024
"""Distinct lengths of texts, in steps of four bytes; all longer texts count as equally long."""


@compiled
def order_by_length(begins: Any, ends: Any, places: Any, order: Any) -> None:
    """Write the numbers of the texts to `order`, the shortest first; `places` has `LENGTHS` zeros."""
    for text in range(len(begins)):
        places[min((ends[text] - begins[text]) >> 2, LENGTHS - 1)] += 1
    place = 0
    for length in range(LENGTHS):
        count = places[length]
        places[length] = place
        place += count
    for text in range(len(begins)):
        length = min((ends[text] - begins[text]) >> 2, LENGTHS - 1)
        order[places[length]] = text
        places[length] += 1


@compiled
def search_texts(data: Any, begins: Any, ends: Any, order: Any, tables: Any, out: Any) -> None:
    """Write the bits of the patterns that each text has.

    Text `i` is `data[begins[i]]` to `data[ends[i]]`. `tables` are the classes, the next states, the width of
    a row, the first state that reports, and what states report on and at the end. Six texts are searched at
    a time, in an `order` in which they are about equally long: the steps of one wait for memory, and the
    others' do not wait for them.
    """
    count = len(begins)
    for text in range(count):
        out[text] = 0
    at = 0
    while at + 6 <= count:
        _search_six(data, begins, ends, tables, out, order[at : at + 6])
        at += 6
    while at < count:
        text = order[at]
        _search_rest(data, begins[text], ends[text], np.uint64(0), tables, out, text)
        at += 1


@compiled
def _search_six(data: Any, begins: Any, ends: Any, tables: Any, out: Any, texts: Any) -> None:
    """Search six texts as far as the shortest, then the rest of each."""
    classes, following, _, reporting, _, _ = tables
    t0, t1, t2, t3, t4, t5 = texts[0], texts[1], texts[2], texts[3], texts[4], texts[5]
    # Numba checks signed places for being negative.
    b0, b1, b2 = np.uint64(begins[t0]), np.uint64(begins[t1]), np.uint64(begins[t2])
    b3, b4, b5 = np.uint64(begins[t3]), np.uint64(begins[t4]), np.uint64(begins[t5])
    shared = np.uint64(ends[t0]) - b0
    shared = min(shared, np.uint64(ends[t1]) - b1, np.uint64(ends[t2]) - b2)
    shared = min(shared, np.uint64(ends[t3]) - b3, np.uint64(ends[t4]) - b4, np.uint64(ends[t5]) - b5)
    s0 = s1 = s2 = s3 = s4 = s5 = np.uint64(0)
    for i in range(np.uint64(0), shared):
        s0 = np.uint64(following[s0 + np.uint64(classes[data[b0 + i]])])
        s1 = np.uint64(following[s1 + np.uint64(classes[data[b1 + i]])])
        s2 = np.uint64(following[s2 + np.uint64(classes[data[b2 + i]])])
        s3 = np.uint64(following[s3 + np.uint64(classes[data[b3 + i]])])
        s4 = np.uint64(following[s4 + np.uint64(classes[data[b4 + i]])])
        s5 = np.uint64(following[s5 + np.uint64(classes[data[b5 + i]])])
        if max(s0, s1, s2, s3, s4, s5) >= reporting:
            _report(s0, t0, tables, out)
            _report(s1, t1, tables, out)
            _report(s2, t2, tables, out)
            _report(s3, t3, tables, out)
            _report(s4, t4, tables, out)
            _report(s5, t5, tables, out)
    _search_rest(data, begins[t0] + np.int64(shared), ends[t0], s0, tables, out, t0)
    _search_rest(data, begins[t1] + np.int64(shared), ends[t1], s1, tables, out, t1)
    _search_rest(data, begins[t2] + np.int64(shared), ends[t2], s2, tables, out, t2)
    _search_rest(data, begins[t3] + np.int64(shared), ends[t3], s3, tables, out, t3)
    _search_rest(data, begins[t4] + np.int64(shared), ends[t4], s4, tables, out, t4)
    _search_rest(data, begins[t5] + np.int64(shared), ends[t5], s5, tables, out, t5)


@compiled
def _report(state: Any, text: Any, tables: Any, out: Any) -> None:
    """Set the bits of a text that a state reports."""
    _, _, width, reporting, found, _ = tables
    if state >= reporting:
        out[text] |= found[state // width]


@compiled
def _search_rest(data: Any, first: Any, last: Any, state: Any, tables: Any, out: Any, text: Any) -> None:
    """Search the rest of a text from a state."""
    classes, following, width, reporting, found, at_end = tables
    for i in range(np.uint64(first), np.uint64(last)):
        state = np.uint64(following[state + np.uint64(classes[data[i]])])
        if state >= reporting:
            out[text] |= found[state // width]
    out[text] |= at_end[state // width]
