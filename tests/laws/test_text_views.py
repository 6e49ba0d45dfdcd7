"""The places of texts in memory are those of the texts, however a column came about."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tracline.schemas.frames.text_views import distinct_places, text_views

texts = st.none() | st.text(max_size=6) | st.text("ab é😀", min_size=11, max_size=40)
columns = st.lists(st.lists(texts, max_size=8), min_size=1, max_size=4)


def chunked(parts: list[list[str | None]]) -> pl.Series:
    """Return a column of several chunks."""
    return pl.concat([pl.Series(part, dtype=pl.String) for part in parts], rechunk=False)


@given(columns, st.data())
def test_places_are_those_of_the_texts(parts: list[list[str | None]], data: st.DataObject) -> None:
    """Of chunks, of slices, of filtered and of gathered columns, whose buffers have further texts."""
    column = chunked(parts)
    rows = data.draw(st.lists(st.integers(0, len(column) - 1))) if len(column) else []
    begin = data.draw(st.integers(0, len(column)))
    flags = pl.Series(data.draw(st.lists(st.booleans(), min_size=len(column), max_size=len(column))))
    parts_of_it = [column, column[begin:], column.gather(rows), column.filter(flags.cast(pl.Boolean))]
    for each in parts_of_it:
        if len(each):
            views = text_views(each)
            bounds = zip(views.begins, views.ends, strict=True)
            found = [views.data[first:last].tobytes().decode() for first, last in bounds]
            assert found == each.fill_null("").to_list()


def test_texts_that_a_column_repeats_are_in_one_place() -> None:
    """Each of them is searched once; short texts are in the column itself, each in a place of its own."""
    long = [f"a text that is longer than a view, {number}" for number in range(10)]
    repeated = pl.Series(long).gather([number % 10 for number in range(1_000)])
    for column, expected in ((repeated, 10), (repeated.str.head(5), 1_000)):
        distinct = distinct_places(column)
        assert len(distinct.rows) == expected
        assert column[distinct.rows][distinct.alike].to_list() == column.to_list()


def test_a_dictionary_of_parquet_has_each_text_in_one_place(tmp_path: Path) -> None:
    """Polars reads the entries of a dictionary once."""
    long = [f"a text that is longer than a view, {number}" for number in range(10)]
    column = pl.Series("text", long).gather([number % 10 for number in range(1_000)])
    path = tmp_path / "events.parquet"
    column.to_frame().write_parquet(path)
    assert len(distinct_places(pl.read_parquet(path)["text"]).rows) == 10
