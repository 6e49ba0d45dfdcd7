"""Rows beyond memory: read in bounded passes, and stored on disk by whole sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ..sources.discover import SourceFile
from ..sources.event_files import FileSlice, footer, scan_slices

PASS_BYTES = 1 << 26
"""Unpacked bytes of event Parquet per pass; several times as many are in memory."""
PASS_ROWS = 500_000
PASS_PARTS = 1_000
BUCKET_BYTES = 1 << 26
"""Average bytes of rows per bucket."""
BUCKET_ROWS = 250_000
HELD_BYTES = 1 << 28
"""Bytes of labelled rows that stay in memory instead of being written to buckets."""
BUCKETS_MAX = 256
"""Buckets that are written at once, each an open file."""

_LARGE = 2
_DEPTH_MAX = 8


@dataclass(frozen=True, slots=True)
class Pass:
    """Rows that are read at once: slices of files, and the further columns of `frames`."""

    slices: tuple[FileSlice, ...]
    more: Mapping[str, pl.DataType]

    @property
    def parts(self) -> tuple[SourceFile, ...]:
        """Return the files."""
        return tuple(dict.fromkeys(each.part for each in self.slices))

    @property
    def rows(self) -> int:
        """Return the number of rows, including invalid ones."""
        return sum(each.rows for each in self.slices)

    @property
    def frame(self) -> pl.LazyFrame:
        """Return the valid rows, in the order of the files."""
        return scan_slices(self.slices, self.more)

    def frame_with_paths(self, column: str) -> pl.LazyFrame:
        """Return the same rows with the paths of their files in a further column."""
        return scan_slices(self.slices, self.more, column)


def passes(parts: Iterable[SourceFile], more: Mapping[str, pl.DataType] | None = None) -> Iterator[Pass]:
    """Yield all rows of the files: large files in several passes, small ones together."""
    held: list[FileSlice] = []
    size = rows = 0
    for part in parts:
        for found, share in _slices(part):
            is_full = size + share > PASS_BYTES or rows + found.rows > PASS_ROWS or len(held) >= PASS_PARTS
            if held and is_full:
                yield Pass(tuple(held), more or {})
                held, size, rows = [], 0, 0
            held.append(found)
            size += share
            rows += found.rows
    if held:
        yield Pass(tuple(held), more or {})


def _slices(part: SourceFile) -> Iterator[tuple[FileSlice, int]]:
    """Yield the slices of a file, each small enough for a pass, and their bytes."""
    facts = footer(part)
    rows, size = facts.rows, facts.size
    each = max(1, min(PASS_ROWS, rows * PASS_BYTES // max(size, 1)))
    for first in range(0, max(rows, 1), each):
        count = min(each, rows - first)
        yield FileSlice(part, first, count), size * count // max(rows, 1)


def bucket_count(rows: int, size: int) -> int:
    """Return the number of buckets for so many rows and bytes."""
    return min(BUCKETS_MAX, max(rows // BUCKET_ROWS, size // BUCKET_BYTES) + 1)


def write_buckets(frame: pl.LazyFrame, folder: Path, count: int, seed: int = 0) -> None:
    """Write whole sessions to `count` buckets, a folder each, uncompressed: they are read once, soon."""
    bucket = _bucket(count, seed).alias("bucket")
    folders = pl.PartitionBy(folder, key="bucket", include_key=False)
    frame.with_columns(bucket).sink_ipc(
        folders, compression="uncompressed", maintain_order=False, mkdir=True, engine="streaming"
    )


def buckets_of(frame: pl.LazyFrame, count: int) -> Iterator[pl.LazyFrame]:
    """Yield the rows of a frame in memory as `count` buckets of whole sessions."""
    for number in range(count):
        yield frame.filter(_bucket(count, 0) == number)


def _bucket(count: int, seed: int) -> pl.Expr:
    """Return the number of a row's bucket, of so many."""
    return pl.col("session_id").hash(seed) % count


def read_buckets(folder: Path, depth: int = 1) -> Iterator[pl.LazyFrame]:
    """Yield the buckets that `write_buckets` wrote to folders in `folder`, each session in one bucket.

    A bucket that is too large is divided, unless it is one session. Each is deleted before the next one.
    """
    buckets: dict[str, list[Path]] = {}
    for bucket in sorted(folder.glob("*/bucket=*")):
        buckets.setdefault(bucket.name, []).extend(sorted(bucket.iterdir()))

    for name, files in buckets.items():
        frame = pl.scan_ipc(files, hive_partitioning=False)
        rows = frame.select(pl.len()).collect().item()
        count = bucket_count(rows, sum(file.stat().st_size for file in files))
        if count <= _LARGE or depth > _DEPTH_MAX or not _has_several(frame):
            yield frame
        else:
            divided = folder / f"divided-{name}"
            write_buckets(frame, divided / "all", count, seed=depth)
            yield from read_buckets(divided, depth + 1)
        for file in files:
            file.unlink()


def _has_several(frame: pl.LazyFrame) -> bool:
    several = frame.select(pl.col("session_id").min() != pl.col("session_id").max())
    return bool(several.collect(engine="streaming").item())
