"""Event Parquet from any writer: columns are checked and completed, invalid rows are rejected."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]

from ...archive.error import SourceError
from ...schemas.event import Content
from ...schemas.frames.events import EVENT_SCHEMA, REQUIRED, TIME
from ...schemas.time import EVENT_TIME_MIN, NS_MAX
from .discover import REJECTS_KEPT_MAX, Population, Reject, SourceFile

_DEFAULTS: dict[str, Any] = {"late": False, "history": False, "nested": False, "content": Content.CAPTURED}
_TIMES = ("time", "occurrence")
_WORDS = (pl.String, pl.Categorical, pl.Enum)
_INVALID = {
    "row-session": "has no session_id",
    "row-time": "has no time, or no valid occurrence, between 1678 and 2262",
    "row-kind": "has a kind other than user, assistant, tool_call, tool_result, unknown, end",
    "row-content": "has a content other than captured, absent, truncated, redacted",
    "row-seq": "has a seq that is not a number from 1 to 4294967295",
}


@contextmanager
def reading(parts: Sequence[SourceFile]) -> Generator[None]:
    """Convert an error of Polars on a damaged file to a SourceError (TRL401) that names the file.

    Collect or write all lazy frames of these files inside.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, OSError):
        for part in parts:
            try:
                pl.scan_parquet(part.path, hive_partitioning=False).sink_ipc(os.devnull, engine="streaming")
            except (pl.exceptions.PolarsError, OSError):
                raise _damaged(part) from None
        raise


def row_count(part: SourceFile) -> int:
    """Return the number of rows of a Parquet file, from its footer."""
    return int(_footer(part).num_rows)


def bytes_of(part: SourceFile) -> int:
    """Return the unpacked size of a Parquet file's rows, from its footer; repeated texts count once."""
    footer = _footer(part)
    return sum(int(footer.row_group(group).total_byte_size) for group in range(footer.num_row_groups))


def null_count(part: SourceFile, name: str) -> int:
    """Return the number of nulls in a column of a Parquet file; without the column, that of all rows."""
    footer = _footer(part)
    index = next((i for i in range(footer.num_columns) if footer.schema.column(i).path == name), None)
    if index is None:
        return int(footer.num_rows)
    statistics = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
    if all(column is not None and column.has_null_count for column in statistics):
        return sum(column.null_count for column in statistics)
    counted: Any = pl.scan_parquet(part.path, hive_partitioning=False).select(pl.col(name).null_count())
    with reading([part]):
        return int(counted.collect(engine="streaming").item())


def _footer(part: SourceFile) -> Any:
    try:
        status = part.path.stat()
        return _footer_of(part.path, status.st_size, status.st_mtime_ns)
    except (OSError, ValueError):
        raise _damaged(part) from None


@lru_cache(maxsize=64)
def _footer_of(path: Path, _size: int, _changed_ns: int) -> Any:
    """Return a file's footer; checking the rows needs it a dozen times."""
    parquet: Any = pq
    return parquet.ParquetFile(path).metadata


def _damaged(part: SourceFile) -> SourceError:
    hint = "the file is damaged or truncated: write it again"
    return SourceError("TRL401", part.name, "cannot be read as Parquet", hint)


def columns_of(part: SourceFile) -> dict[str, pl.DataType]:
    """Return the columns of a Parquet file. Raises SourceError if it is damaged."""
    try:
        return dict(pl.read_parquet_schema(part.path))
    except (OSError, pl.exceptions.PolarsError):
        raise _damaged(part) from None


def scan(part: SourceFile) -> pl.LazyFrame:
    """Return the valid rows of a file, with exactly the columns of the event frame.

    A missing column is null or has its default: `content` is `captured`, the flags are false (also instead of
    null). Times without a zone are UTC. Raises SourceError with the file and column if a required column is
    missing or a column has another type. Damaged pages only show when the rows are read: see `reading`.
    """
    return scan_slice(part, 0, row_count(part), {})


def scan_slice(part: SourceFile, first: int, rows: int, more: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return those of the same rows as `scan` that are among `rows` rows of the file, from row `first`.

    `more` are further columns, which are null if the file lacks them.
    """
    columns, bad = _columns(part, more), _bad(part)
    found = pl.scan_parquet(part.path, hive_partitioning=False).slice(first, rows).select(columns)
    return found.filter(pl.all_horizontal(~is_bad for is_bad in bad.values())) if bad else found


def reject_rows(part: SourceFile, population: Population) -> None:
    """Count the rows of a file, and reject each invalid row with its number (from 1) in the file.

    Raises SourceError like `scan`, and if a checked column is damaged.
    """
    columns, bad = _columns(part, {}), _bad(part)
    reasons = [pl.when(is_bad).then(pl.lit(code)) for code, is_bad in bad.items()]
    if reasons:
        frame = pl.scan_parquet(part.path, hive_partitioning=False).select(columns)
        coded = frame.select(pl.coalesce(reasons).alias("code")).with_row_index("row", offset=1)
        rejected = coded.filter(pl.col("code").is_not_null())
        with reading([part]):
            first: Any = rejected.head(REJECTS_KEPT_MAX).collect(engine="streaming")
            if first.height:
                counts: Any = rejected.group_by("code").len().sort("code").collect(engine="streaming")
                listed = [
                    Reject(part.name, f"row {row}", code, _INVALID[code]) for row, code in first.iter_rows()
                ]
                population.reject_many(dict(counts.iter_rows()), listed)
    population.rows += row_count(part)


def _bad(part: SourceFile) -> dict[str, pl.Expr]:
    """Return the expressions that detect invalid rows of a file, by code.

    The footers of tracline's own files rule out all of them, so that their rows are not checked.
    """
    found = columns_of(part)
    unsure = {
        "row-session": null_count(part, "session_id") > 0,
        "row-time": null_count(part, "time") > 0 or any(map(partial(_may_be_no_time, part), _TIMES)),
        "row-kind": found.get("kind") != EVENT_SCHEMA["kind"] or null_count(part, "kind") > 0,
        "row-content": found.get("content", EVENT_SCHEMA["content"]) != EVENT_SCHEMA["content"],
        "row-seq": null_count(part, "seq") < row_count(part),
    }
    bad = {
        "row-session": pl.col("session_id").is_null(),
        "row-time": pl.col("time").is_null(),
        "row-kind": pl.col("kind").is_null(),
        "row-content": pl.col("content").is_null(),
        "row-seq": (pl.col("seq") < 1).fill_null(False),
    }
    return {code: is_bad for code, is_bad in bad.items() if unsure[code]}


def _columns(part: SourceFile, more: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    """Return the columns of the event frame as expressions on the columns of the file."""
    found = columns_of(part)
    for name in REQUIRED:
        if name not in found:
            hint = f"event Parquet needs at least the columns {', '.join(REQUIRED)}"
            raise SourceError("TRL402", part.name, f"has no column {name}", hint)
    wanted = {**EVENT_SCHEMA, **more}
    columns = {name: _column(part, name, found.get(name), dtype) for name, dtype in wanted.items()}
    if "occurrence" in found and _may_be_no_time(part, "occurrence"):
        # A null occurrence would mean that the row has none; a null time rejects the row instead.
        is_none = pl.col("occurrence").is_not_null() & columns["occurrence"].is_null()
        columns["time"] = pl.when(~is_none).then(columns["time"]).alias("time")
    return list(columns.values())


def _may_be_no_time(part: SourceFile, name: str) -> bool:
    """Return whether a row may have an invalid time in that column, by the file's footer."""
    found = columns_of(part).get(name)
    if found is None or found == pl.Null:
        return False
    return found != TIME or _least(part, name) < EVENT_TIME_MIN


def _least(part: SourceFile, name: str) -> int:
    """Return the minimum of a column, or a number below every time if the footer does not have it."""
    footer = _footer(part)
    index = next((i for i in range(footer.num_columns) if footer.schema.column(i).path == name), None)
    if index is None:
        return EVENT_TIME_MIN - 1
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    statistics = [(group.num_rows, group.column(index).statistics) for group in groups]
    if any(column is None for _, column in statistics):
        return EVENT_TIME_MIN - 1
    known = [
        column.min_raw if column.has_min_max else EVENT_TIME_MIN - 1
        for rows, column in statistics
        if not (column.has_null_count and column.null_count == rows)
    ]
    return min(known, default=0)


def _column(part: SourceFile, name: str, found: pl.DataType | None, wanted: pl.DataType) -> pl.Expr:
    if found is None or found == pl.Null:
        return _absent(name, wanted)
    if not _fits(found, wanted):
        hint = f"write it as {wanted}, or omit the column if its values are unknown"
        raise SourceError("TRL402", part.name, f"has the column {name} as {found}, not as {wanted}", hint)
    column = pl.col(name)
    if isinstance(wanted, pl.Datetime) and isinstance(found, pl.Datetime):
        zoned = column.dt.replace_time_zone("UTC") if found.time_zone is None else column
        utc = zoned.dt.convert_time_zone("UTC")
        if found.time_unit == "ns" and not _may_be_no_time(part, name):
            # The footer rules out invalid times: a comparison would cost as much as reading the column.
            return utc
        # Nanoseconds in 64 bits reach to 2262: later times would wrap around, and Polars gives no year of a
        # number that is too large.
        unit = {"ns": 1, "us": 1_000, "ms": 1_000_000}[found.time_unit]
        is_time = column.to_physical().is_between(EVENT_TIME_MIN // unit, NS_MAX // unit)
        return pl.when(is_time).then(utc).dt.cast_time_unit("ns").alias(name)
    if isinstance(wanted, pl.Enum) and found != wanted:
        word = column.cast(pl.String)
        return (word.fill_null(_DEFAULTS[name]) if name in _DEFAULTS else word).cast(wanted, strict=False)
    if name in _DEFAULTS:
        return column.fill_null(pl.lit(_DEFAULTS[name], wanted))
    if name == "seq" and found != wanted:
        # 0 rejects a number that does not fit; null would turn the row into a candidate.
        return pl.when(column.is_not_null()).then(column.cast(wanted, strict=False).fill_null(0)).alias(name)
    if isinstance(wanted, pl.Map) and isinstance(found, pl.List):
        # A map has no null entry and no null key.
        entry = pl.element()
        column = column.list.eval(entry.filter(entry.struct.field("key").is_not_null()))
    return column if found == wanted else column.cast(wanted, strict=False)


@lru_cache
def _absent(name: str, wanted: pl.DataType) -> pl.Expr:
    """Return a column that the file lacks; creating one costs as much as reading a small file."""
    return pl.lit(_DEFAULTS.get(name), wanted).alias(name)


def _fits(found: pl.DataType, wanted: pl.DataType) -> bool:
    if isinstance(wanted, (pl.String, pl.Enum)):
        return isinstance(found, _WORDS)
    if isinstance(wanted, pl.Datetime):
        return isinstance(found, pl.Datetime)
    if wanted.is_integer():
        return found.is_integer()
    if isinstance(wanted, pl.Map):
        pair = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
        return found in (wanted, pair)
    return found == wanted
