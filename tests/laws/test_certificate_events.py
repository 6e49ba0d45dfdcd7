"""The events and the numbers of certificates, which loops write, are those of plain Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import orjson
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracline.batch.evidence import certificates
from tracline.batch.evidence.certificate_loop import number_values

sizes = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def events_of(data: st.DataObject, counted: list[int], ids: st.SearchStrategy[str]) -> certificates._Events:
    """Return drawn events of sessions of these sizes."""
    count = sum(counted)
    seqs = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=count, max_size=count))
    named = data.draw(st.lists(ids, min_size=count, max_size=count))
    return certificates._Events(
        places=np.arange(count),
        slots=np.repeat(np.arange(len(counted)), counted),
        bounds=np.cumsum([0, *counted]),
        is_cut=np.zeros(len(counted), np.bool_),
        seqs=np.array(seqs, np.uint32),
        ids=pl.Series(named, dtype=pl.String),
    )


def numbers_of(data: st.DataObject, count: int) -> list[np.ndarray]:
    """Return drawn columns of numbers."""
    each = st.lists(st.integers(-(2**53) + 1, 2**53 - 1), min_size=count, max_size=count)
    return [np.array(column, np.int64) for column in data.draw(st.lists(each, min_size=1, max_size=3))]


@given(st.data(), sizes)
def test_events_are_written_as_orjson_writes_them(data: st.DataObject, counted: list[int]) -> None:
    """Whatever characters ids have, and however large numbers are."""
    events = events_of(data, counted, st.text(max_size=20))
    columns = numbers_of(data, sum(counted))
    expected = certificates._escaped_event_texts(events, np.stack(columns))
    found = certificates._event_texts(events, columns)
    assert list(map(orjson.dumps, found)) == list(map(orjson.dumps, expected))


@given(st.data(), sizes)
def test_ids_without_escapes_are_written_by_the_loop(data: st.DataObject, counted: list[int]) -> None:
    """Of any script; else this test fails."""
    plain = st.text(st.characters(exclude_categories=("Cs",), exclude_characters='"\\', min_codepoint=32))
    events = events_of(data, counted, plain)
    columns = numbers_of(data, sum(counted))
    rows = list(zip(events.seqs.tolist(), events.ids, *(each.tolist() for each in columns), strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "_escaped_event_texts", None)
        found = certificates._event_texts(events, columns)
    bounds = pairwise(events.bounds.tolist())
    assert [orjson.loads(orjson.dumps(each)) for each in found] == [
        [list(row) for row in rows[begin:end]] for begin, end in bounds
    ]


@given(st.data(), sizes)
def test_values_are_numbered_by_session_in_the_order_of_their_first_events(
    data: st.DataObject, counted: list[int]
) -> None:
    """Negative values are numbers themselves."""
    count = sum(counted)
    values = data.draw(st.lists(st.integers(-2, 4), min_size=count, max_size=count))
    slots = np.repeat(np.arange(len(counted)), counted)
    numbers, firsts = np.empty(count, np.int64), np.empty(count, np.int64)
    marks, places = np.full(5, -1, np.int64), np.empty(5, np.int64)
    found = number_values(slots, np.array(values, np.int32), marks, places, numbers, firsts)
    known: dict[tuple[int, int], int] = {}
    sizes: dict[int, int] = {}
    first_rows: list[int] = []
    expected: list[int] = []
    for row, (slot, value) in enumerate(zip(slots.tolist(), values, strict=True)):
        if value >= 0 and (slot, value) not in known:
            known[slot, value] = sizes.get(slot, 0)
            sizes[slot] = known[slot, value] + 1
            first_rows.append(row)
        expected.append(known.get((slot, value), value))
    assert numbers.tolist() == expected
    assert firsts[:found].tolist() == first_rows
