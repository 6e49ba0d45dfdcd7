"""The texts of a column as the places of their bytes in memory, without a copy, and texts in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .text_views_loop import CACHE_SIZE, distinct_texts, text_places

_VIEW_BYTES = 16


@dataclass(frozen=True, slots=True)
class TextViews:
    """Text `i` is `data[begins[i]]` to `data[ends[i]]`; a null is empty.

    `data` is the part of the memory that has the texts, and more: nothing else may be read. Texts that are
    one entry of a Parquet dictionary are in one place. `column` owns the memory.
    """

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    column: Any


def text_views(texts: pl.Series) -> TextViews:
    """Return the places of texts, of which there is one at least."""
    # This layout is that of Polars, so that nothing is copied.
    column: Any = cast("Any", texts.to_arrow(compat_level=pl.CompatLevel.newest()))
    _, views, *buffers = column.buffers()
    # A buffer without bytes may have any address.
    held = [each if each.size else views for each in (views, *buffers)]
    base, end = min(each.address for each in held), max(each.address + each.size for each in held)
    places = np.array([each.address - base for each in held], dtype=np.int64)
    places[0] += column.offset * _VIEW_BYTES
    numbers = np.frombuffer(views, np.uint32)[4 * column.offset : 4 * (column.offset + len(column))]
    begins, ends = np.empty(len(column), np.int64), np.empty(len(column), np.int64)
    text_places(numbers, places, begins, ends)
    if column.null_count:
        nulls = texts.is_null().to_numpy()
        begins[nulls] = ends[nulls] = 0
    return TextViews(np.asarray(_Memory(base, end - base)), begins, ends, column)


@dataclass(frozen=True, slots=True)
class DistinctTexts:
    """The rows of texts that are in different places, and for each text of the column its place in `rows`.

    Equal texts may be in different places.
    """

    rows: NDArray[np.int32]
    alike: NDArray[np.int32]


def distinct_places(texts: pl.Series) -> DistinctTexts:
    """Return the texts that are not in the place of another one, of which there is one at least."""
    views = text_views(texts)
    rows, alike = np.empty(len(texts), np.int32), np.empty(len(texts), np.int32)
    cache = np.full(CACHE_SIZE, -1, np.int32)
    count = int(distinct_texts(views.begins, views.ends, cache, rows, alike))
    return DistinctTexts(rows[:count], alike)


class _Memory:
    """A part of the memory of this process, as NumPy reads it."""

    def __init__(self, begin: int, size: int) -> None:
        self.__array_interface__ = {"data": (begin, True), "shape": (size,), "typestr": "|u1", "version": 3}
