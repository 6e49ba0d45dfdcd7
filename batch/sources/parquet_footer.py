"""The facts that reading a Parquet file needs from its footer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]

from ...archive.writer import RULES_COLUMN
from ...schemas.time import EVENT_TIME_MIN

FOOTERS_CACHED_MAX = 50_000
SCHEMAS_CACHED_MAX = 16

TIMES = ("time", "occurrence")
_CHECKED = ("session_id", "kind", "seq", "event_id", *TIMES, RULES_COLUMN)
"""Columns whose statistics are read."""


@dataclass(frozen=True, slots=True, eq=False)
class FileSchema:
    """The columns of Parquet files and their types; files with equal schemas share the object.

    `places` are the numbers of the checked columns in a footer.
    """

    columns: Mapping[str, pl.DataType]
    places: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """Facts from a file's footer; a whole footer takes much more memory.

    `nulls` counts the nulls of the checked columns, if the footer does. `least` are numbers not above any
    value of a column of numbers or times. `last` are the maxima of the columns of times as the file has them,
    of those for which the footer has it.
    """

    rows: int
    size: int
    schema: FileSchema
    nulls: Mapping[str, int]
    least: Mapping[str, int]
    last: Mapping[str, int]


@lru_cache(maxsize=FOOTERS_CACHED_MAX)
def footer_of(path: Path, _size: int, _changed_ns: int) -> Footer:
    """Return the facts of a file's footer, given its status; reading a file needs them a dozen times.

    Raises ValueError, OSError or PolarsError if the file is damaged.
    """
    parquet: Any = pq
    arrow: Any = pa
    # Arrow takes a third longer to open a file by its name.
    with arrow.OSFile(str(path)) as file:
        footer = parquet.read_metadata(file)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    schema = _schema(path, footer)
    found = {
        name: [(group.num_rows, group.column(place).statistics) for group in groups]
        for name, place in schema.places.items()
    }
    counts = {name: _nulls([column for _, column in columns]) for name, columns in found.items()}
    return Footer(
        rows=int(footer.num_rows),
        size=sum(int(group.total_byte_size) for group in groups),
        schema=schema,
        nulls={name: count for name, count in counts.items() if count is not None},
        least={name: _least(found[name]) for name in (*TIMES, "seq") if name in found},
        last={name: last for name in TIMES if (last := _last(found.get(name, ()))) is not None},
    )


_schemas: list[tuple[Any, bytes | None, FileSchema]] = []
"""The last schemas. Files of an archive share a schema, and Polars takes 1 ms to read it."""


def _schema(path: Path, footer: Any) -> FileSchema:
    metadata: Mapping[bytes, bytes] = footer.metadata or {}
    arrow = metadata.get(b"ARROW:schema")
    for schema, known, shared in _schemas:
        if known == arrow and footer.schema.equals(schema):
            return shared
    paths = [footer.schema.column(place).path for place in range(footer.num_columns)]
    places = {name: place for place, name in enumerate(paths) if name in _CHECKED}
    found = FileSchema(dict(pl.read_parquet_schema(path)), places)
    _schemas[:] = [(footer.schema, arrow, found), *_schemas[: SCHEMAS_CACHED_MAX - 1]]
    return found


def _nulls(statistics: Sequence[Any]) -> int | None:
    """Return the number of nulls in a column, None if the footer does not have it."""
    if all(column is not None and column.has_null_count for column in statistics):
        return sum(column.null_count for column in statistics)
    return None


def _least(statistics: Sequence[tuple[int, Any]]) -> int:
    """Return the minimum of a column, or a number below every valid value if the footer does not have it."""
    if any(column is None for _, column in statistics):
        return EVENT_TIME_MIN - 1
    known = [
        column.min_raw if column.has_min_max else EVENT_TIME_MIN - 1
        for rows, column in statistics
        if not (column.has_null_count and column.null_count == rows)
    ]
    return min(known, default=0)


def _last(statistics: Sequence[tuple[int, Any]]) -> int | None:
    """Return the maximum of a column of times, None without one or if the footer does not have it."""
    columns = [column for rows, column in statistics if rows]
    if not columns or any(column is None or not column.has_min_max for column in columns):
        return None
    return max(column.max_raw for column in columns)
