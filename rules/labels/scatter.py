"""Evaluation on a part of the rows, with the results spread over all rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl


def on_rows(
    rows: pl.Series, events: pl.DataFrame, evaluate: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """Evaluate columns on these rows of the events, and return the columns over all rows.

    On other rows a Boolean is false and any other value null. `rows` has no nulls. `evaluate` returns one row
    for each row that it is given; it may be given none, and then only returns its columns.
    """
    selected = events.filter(rows)
    results = evaluate(selected)
    if len(selected) == len(events):
        return results
    places = np.flatnonzero(rows.to_numpy())
    return pl.DataFrame([_spread(column, places, len(events)) for column in results.iter_columns()])


def _spread(values: pl.Series, places: np.ndarray, count: int) -> pl.Series:
    """Return a column of that length with the values at these places."""
    if values.dtype == pl.Boolean and not values.has_nulls():
        flags = np.zeros(count, dtype=np.bool_)
        flags[places] = values.to_numpy()
        return pl.Series(values.name, flags)
    # Other places look up the value of an additional last row.
    index = np.full(count, len(values), dtype=np.uint32)
    index[places] = np.arange(len(values), dtype=np.uint32)
    default = pl.Series([False if values.dtype == pl.Boolean else None], dtype=values.dtype)
    return values.extend(default).gather(index)
