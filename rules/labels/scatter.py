"""Asking some rows, and laying their answers out over all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl


def of_some(
    rows: pl.Series, events: pl.DataFrame, ask: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """Return what `ask` says of these rows of the events, one row of answers for each, over all rows.

    Elsewhere a Boolean is false and anything else null. `rows` has no nulls. It asks nothing of no rows but
    what columns there are.
    """
    some = events.filter(rows)
    told = ask(some)
    if len(some) == len(events):
        return told
    places = np.flatnonzero(rows.to_numpy())
    return pl.DataFrame([_spread(column, places, len(events)) for column in told.iter_columns()])


def _spread(told: pl.Series, places: np.ndarray, count: int) -> pl.Series:
    """The values at these places of a column of that length."""
    if told.dtype == pl.Boolean and not told.has_nulls():
        flags = np.zeros(count, dtype=np.bool_)
        flags[places] = told.to_numpy()
        return pl.Series(told.name, flags)
    # Each place looks its value up; all others that of one row more.
    index = np.full(count, len(told), dtype=np.uint32)
    index[places] = np.arange(len(told), dtype=np.uint32)
    nothing = pl.Series([False if told.dtype == pl.Boolean else None], dtype=told.dtype)
    return told.extend(nothing).gather(index)
