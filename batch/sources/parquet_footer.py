"""The facts that reading a Parquet file needs from its footer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]

from ...archive.writer import RULES_COLUMN
from ...schemas.time import EVENT_TIME_MIN
from . import footer_loop

FOOTERS_CACHED_MAX = 50_000
SCHEMAS_CACHED_MAX = 16
ARROW_FILES = 64
"""Footers that Arrow reads before the compiled walk does, which takes as long to load."""
_TAIL_BYTES = 1 << 14
"""Bytes at the end of a file that hold most footers."""

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

    @property
    def facts(self) -> tuple[object, ...]:
        """Return everything but the schema."""
        return self.rows, self.size, self.nulls, self.least, self.last


@lru_cache(maxsize=FOOTERS_CACHED_MAX)
def footer_of(path: str, size: int, _changed_ns: int) -> Footer:
    """Return the facts of a file's footer, given its status; reading a file needs them a dozen times.

    The path is a text, because Python compares and hashes texts many times as fast as paths.
    Raises ValueError, IndexError, OSError, PolarsError or PanicException if the file is damaged.
    """
    text = _footer_bytes(path, size) if footer_of.cache_info().misses > ARROW_FILES else None
    found = None if text is None else _walked(text)
    if found is not None and (schema := _walked_schemas.get(found.key)) is not None:
        return found.footer(schema)
    footer = _by_arrow(path)
    if found is not None:
        # A walk that does not find what Arrow finds is no reading of files that were written alike.
        is_equal = found.footer(footer.schema).facts == footer.facts
        _walked_schemas[found.key] = footer.schema if is_equal else None
        if len(_walked_schemas) > SCHEMAS_CACHED_MAX:
            del _walked_schemas[next(iter(_walked_schemas))]
    return footer


_walked_schemas: dict[bytes, FileSchema | None] = {}
"""The schemas of files that were written alike, None if Arrow has to read their footers."""


@dataclass(frozen=True, slots=True, eq=False)
class _WalkedFooter:
    """The numbers that the walk over a footer found. `key` is equal in files that were written alike."""

    key: bytes
    rows: int
    size: int
    columns: Any

    def footer(self, schema: FileSchema) -> Footer:
        """Return the facts of the footer, whose file has this schema."""
        columns = {name: self.columns[place].tolist() for name, place in schema.places.items()}
        numbers = {name: columns[name] for name in (*TIMES, "seq") if name in columns}
        return Footer(
            rows=self.rows,
            size=self.size,
            schema=schema,
            nulls={name: column[footer_loop.NULLS] for name, column in columns.items()},
            least={name: column[footer_loop.LEAST] for name, column in numbers.items()},
            last={
                name: numbers[name][footer_loop.LAST]
                for name in TIMES
                if name in numbers and numbers[name][footer_loop.LAST_STATE] == footer_loop.KNOWN_LAST
            },
        )


def _footer_bytes(path: str, size: int) -> bytes | None:
    """Return the footer of a Parquet file of that size; None if it is not as usual."""
    file = os.open(path, os.O_RDONLY)
    try:
        end = os.pread(file, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        length = int.from_bytes(end[-8:-4], "little")
        if end[-4:] != b"PAR1" or not 0 < length <= size - 12:
            return None
        if length + 8 > len(end):
            end = os.pread(file, length + 8, size - length - 8)
        return end[-length - 8 : -8]
    finally:
        os.close(file)


def _walked(text: bytes) -> _WalkedFooter | None:
    """Return the facts in a footer, None if it is not as usual."""
    facts, columns, group = footer_loop.arrays()
    count = footer_loop.read_footer(np.frombuffer(text, np.uint8), facts, columns, group)
    if count < 0:
        return None
    rows, size, schema_end, tail = facts.tolist()
    return _WalkedFooter(text[:schema_end] + text[tail:], rows, size, columns[:count])


def _by_arrow(path: str) -> Footer:
    """Return the facts of a file's footer, read by Arrow."""
    parquet: Any = pq
    arrow: Any = pa
    # Arrow takes a third longer to open a file by its name.
    with arrow.OSFile(path) as file:
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


def _schema(path: str, footer: Any) -> FileSchema:
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
