"""Event Parquet from any writer: columns are checked and completed, invalid rows are rejected."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import polars as pl

from ...archive.error import SourceError
from ...schemas.event import Content
from ...schemas.frames.events import EVENT_SCHEMA, REQUIRED, TIME
from ...schemas.time import EVENT_TIME_MIN, NS_MAX
from .discover import REJECTS_LISTED_MAX, Population, Reject, SourceFile
from .joined_files import are_small, joined
from .parquet_footer import FOOTERS_CACHED_MAX, TIMES, FileSchema, Footer, footer_of

_DEFAULTS: dict[str, Any] = {"late": False, "history": False, "nested": False, "content": Content.CAPTURED}
DAMAGED = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""The errors of Polars on damaged files; it panics at some of them."""
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
    except DAMAGED:
        for part in parts:
            try:
                pl.scan_parquet(part.path, hive_partitioning=False).sink_ipc(os.devnull, engine="streaming")
            except DAMAGED:
                raise _damaged(part) from None
        raise


def row_count(part: SourceFile) -> int:
    """Return the number of rows of a Parquet file, from its footer."""
    return footer(part).rows


def null_count(part: SourceFile, found: Footer, name: str) -> int:
    """Return the number of nulls in a column of a file with this footer; without the column, of all rows."""
    if name not in found.schema.columns:
        return found.rows
    if name in found.nulls:
        return found.nulls[name]
    counted: Any = pl.scan_parquet(part.path, hive_partitioning=False).select(pl.col(name).null_count())
    with reading([part]):
        return int(counted.collect(engine="streaming").item())


def footer(part: SourceFile) -> Footer:
    """Return the facts of a Parquet file's footer. Raises SourceError if the file is damaged."""
    try:
        path = os.fspath(part.path)
        status = os.stat(path)
        return footer_of(path, status.st_size, status.st_mtime_ns)
    except (*DAMAGED, ValueError, IndexError):
        raise _damaged(part) from None


def may_have_occurrence(part: SourceFile, first: int, last: int) -> bool:
    """Return whether the footer of a file allows an occurrence from `first` to `last`, in nanoseconds."""
    facts = footer(part)
    if facts.schema.columns.get("occurrence") != TIME or "occurrence" not in facts.last:
        return True
    return facts.least["occurrence"] <= last and facts.last["occurrence"] >= first


def _damaged(part: SourceFile) -> SourceError:
    hint = "the file is damaged or truncated: write it again"
    return SourceError("TRL401", part.name, "cannot be read as Parquet", hint)


def changed(part: SourceFile) -> SourceError:
    """Return the error for files that are not as they were when they were read before."""
    hint = "audit an archive that nothing writes, or a copy"
    return SourceError("TRL401", part.name, "or a file near it changed during the audit", hint)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Consecutive rows of a file; `first` is the number of the first row, from 0."""

    part: SourceFile
    first: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class _EventColumns:
    """The columns of the event frame as expressions on the columns of files, and what detects invalid rows.

    `bad` is by code. Files that are read alike share the object.
    """

    columns: tuple[pl.Expr, ...]
    bad: Mapping[str, pl.Expr]

    def valid(self, rows: pl.LazyFrame, *further: str) -> pl.LazyFrame:
        """Return the event frame of the valid rows, with further columns of theirs."""
        frame = rows.select(*self.columns, *further)
        return frame.filter(pl.all_horizontal(~is_bad for is_bad in self.bad.values())) if self.bad else frame


class _ColumnError(Exception):
    """A column that a file lacks or has with another type, and a hint."""


def scan(part: SourceFile) -> pl.LazyFrame:
    """Return the valid rows of a file, with exactly the columns of the event frame.

    A missing column is null or has its default: `content` is `captured`, the flags are false (also instead of
    null). Times without a zone are UTC. Raises SourceError with the file and column if a required column is
    missing or a column has another type. Damaged pages only show when the rows are read: see `reading`.
    """
    return scan_slices([FileSlice(part, 0, row_count(part))], {})


def scan_slices(
    slices: Sequence[FileSlice], more: Mapping[str, pl.DataType], path_column: str | None = None
) -> pl.LazyFrame:
    """Return those of the same rows as `scan` that are in slices of files, in that order.

    `more` are further columns, which are null if a file lacks them. `path_column` has the paths of the files.
    """

    further = tuple(more.items())

    def read_alike(pair: tuple[FileSlice, Footer]) -> tuple[_EventColumns, FileSlice | None]:
        found, facts = pair
        is_whole = found.first == 0 and found.rows == facts.rows
        return _event_columns(found.part, facts, further), None if is_whole else found

    frames: list[pl.LazyFrame] = []
    # Whole files that are read alike share a scan: to plan one takes longer than to read a small file.
    known = ((found, footer(found.part)) for found in slices)
    for (columns, cut), group in groupby(known, key=read_alike):
        alike = list(group)
        paths = [found.part.path for found, _ in alike]
        is_small = cut is None and path_column is None and are_small([facts.size for _, facts in alike])
        image = joined(paths) if is_small else None
        source = paths if image is None else image
        rows = pl.scan_parquet(source, hive_partitioning=False, include_file_paths=path_column)
        sliced = rows if cut is None else rows.slice(cut.first, cut.rows)
        frames.append(columns.valid(sliced, *([] if path_column is None else [path_column])))
    return pl.concat(frames)


def reject_rows(part: SourceFile, population: Population) -> None:
    """Count the rows of a file, and reject each invalid row with its number (from 1) in the file.

    Raises SourceError like `scan`, and if a checked column is damaged.
    """
    facts = footer(part)
    found = _event_columns(part, facts, ())
    reasons = [pl.when(is_bad).then(pl.lit(code)) for code, is_bad in found.bad.items()]
    if reasons:
        frame = pl.scan_parquet(part.path, hive_partitioning=False).select(found.columns)
        coded = frame.select(pl.coalesce(reasons).alias("code")).with_row_index("row", offset=1)
        rejected = coded.filter(pl.col("code").is_not_null())
        with reading([part]):
            first: Any = rejected.head(REJECTS_LISTED_MAX).collect(engine="streaming")
            if first.height:
                counts: Any = rejected.group_by("code").len().sort("code").collect(engine="streaming")
                listed = [
                    Reject(part.name, f"row {row}", code, _INVALID[code]) for row, code in first.iter_rows()
                ]
                population.reject_many(dict(counts.iter_rows()), listed)
    population.rows += facts.rows
    population.extent_of(part.name).add(facts.rows, _first_and_last(part, facts, found))


@lru_cache(maxsize=FOOTERS_CACHED_MAX)
def _event_columns(
    part: SourceFile, facts: Footer, more: tuple[tuple[str, pl.DataType], ...]
) -> _EventColumns:
    """Return the columns of the event frame, and the codes that the footer does not rule out.

    The footers of tracline's own files rule out all of them, so that their rows are not checked.
    """
    found = facts.schema.columns
    doubtful = frozenset(name for name in TIMES if _may_be_no_time(facts, name))
    unsure = {
        "row-session": null_count(part, facts, "session_id") > 0,
        "row-time": null_count(part, facts, "time") > 0 or bool(doubtful),
        "row-kind": found.get("kind") != EVENT_SCHEMA["kind"] or null_count(part, facts, "kind") > 0,
        "row-content": found.get("content", EVENT_SCHEMA["content"]) != EVENT_SCHEMA["content"],
        "row-seq": null_count(part, facts, "seq") < facts.rows and _may_be_no_seq(facts),
    }
    codes = frozenset(code for code, is_unsure in unsure.items() if is_unsure)
    try:
        return _planned(facts.schema, doubtful, codes, more)
    except _ColumnError as error:
        raise SourceError("TRL402", part.name, *error.args) from None


@lru_cache(maxsize=64)
def _planned(
    schema: FileSchema,
    doubtful: frozenset[str],
    codes: frozenset[str],
    more: tuple[tuple[str, pl.DataType], ...],
) -> _EventColumns:
    """Return the expressions for files of a schema; creating them costs as much as reading a small file.

    `doubtful` are the columns of times that may hold an invalid time, `codes` those of invalid rows.
    """
    bad = {
        "row-session": pl.col("session_id").is_null(),
        "row-time": pl.col("time").is_null(),
        "row-kind": pl.col("kind").is_null(),
        "row-content": pl.col("content").is_null(),
        "row-seq": (pl.col("seq") < 1).fill_null(False),
    }
    found = schema.columns
    for name in REQUIRED:
        if name not in found:
            hint = f"event Parquet needs at least the columns {', '.join(REQUIRED)}"
            raise _ColumnError(f"has no column {name}", hint)
    columns = {
        name: _column(name, found.get(name), dtype, name in doubtful)
        for name, dtype in {**EVENT_SCHEMA, **dict(more)}.items()
    }
    if "occurrence" in doubtful:
        # A null occurrence would mean that the row has none; a null time rejects the row instead.
        is_none = pl.col("occurrence").is_not_null() & columns["occurrence"].is_null()
        columns["time"] = pl.when(~is_none).then(columns["time"]).alias("time")
    return _EventColumns(tuple(columns.values()), {code: bad[code] for code in bad if code in codes})


def _first_and_last(part: SourceFile, facts: Footer, columns: _EventColumns) -> tuple[int | None, int | None]:
    """Return the first and the last time of a file's valid rows."""
    if not columns.bad and "time" in facts.last:
        return facts.least["time"], facts.last["time"]
    times = pl.col("time").to_physical()
    found = scan(part).select(times.min().alias("first"), times.max().alias("last"))
    with reading([part]):
        row = found.collect(engine="streaming").row(0)
    return row[0], row[1]


def _may_be_no_time(facts: Footer, name: str) -> bool:
    """Return whether a row may have an invalid time in that column, by the file's footer."""
    found = facts.schema.columns.get(name)
    if found is None or found == pl.Null:
        return False
    return found != TIME or facts.least.get(name, EVENT_TIME_MIN - 1) < EVENT_TIME_MIN


def _may_be_no_seq(facts: Footer) -> bool:
    """Return whether a row may have an invalid `seq`, by the file's footer."""
    return facts.schema.columns["seq"] != EVENT_SCHEMA["seq"] or facts.least["seq"] < 1


def _column(name: str, found: pl.DataType | None, wanted: pl.DataType, is_doubtful: bool) -> pl.Expr:
    """Return a column of the event frame; a time is checked if it `is_doubtful`."""
    if found is None or found == pl.Null:
        return pl.lit(_DEFAULTS.get(name), wanted).alias(name)
    if not _fits(found, wanted):
        hint = f"write it as {wanted}, or omit the column if its values are unknown"
        raise _ColumnError(f"has the column {name} as {found}, not as {wanted}", hint)
    column = pl.col(name)
    if isinstance(wanted, pl.Datetime) and isinstance(found, pl.Datetime):
        zoned = column.dt.replace_time_zone("UTC") if found.time_zone is None else column
        utc = zoned.dt.convert_time_zone("UTC")
        if found.time_unit == "ns" and not is_doubtful:
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
