"""The canonical forms of the plain JSON objects among texts."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

from ....schemas.frames.text_views import text_views
from .object_loop import MEMBERS_MAX, STACK_SHAPE, write_objects


def plain_objects(texts: pl.Series) -> pl.Series:
    """Return the canonical form of each text that is a plain JSON object, null for the others."""
    count = len(texts)
    if not count:
        return texts
    views = text_views(texts)
    sizes = views.ends - views.begins
    out, bounds = np.empty(int(sizes.sum()), dtype=np.uint8), np.empty(count + 1, dtype=np.int64)
    numbers = (np.zeros(shape, dtype=np.int64) for shape in (STACK_SHAPE, MEMBERS_MAX, MEMBERS_MAX))
    state = *numbers, np.empty(int(sizes.max()), dtype=np.uint8)
    write_objects(views.data, views.begins, views.ends, state, out, bounds)
    # An object has two bytes at least.
    is_plain = np.diff(bounds) > 0
    arrow = cast("Any", pa)
    buffers = map(arrow.py_buffer, (bounds, out, np.packbits(is_plain, bitorder="little")))
    column = arrow.LargeStringArray.from_buffers(count, *buffers, int(count - is_plain.sum()))
    return pl.Series(texts.name, column)
