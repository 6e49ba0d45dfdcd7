"""Labelling an archive in one pass over its files, and holding the labelled events by session, bounded."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ..rules.label import Labeler
from .error import SourceError
from .eventfile import row_count, scan
from .judge import JUDGED_COLUMNS
from .read import Part

BUCKET_ROWS = 250_000
"""Rows that a bucket holds on average; a few times as many are in memory at a time for each thread."""
BUCKET_ROWS_MAX = 4 * BUCKET_ROWS
"""Rows from which a bucket is divided again."""
BUCKETS_MAX = 256
"""Buckets that are written at a time, each an open file."""
PASS_ROWS = 1_000_000
"""Rows that are labelled before the progress is told."""
PASS_FILES = 100
"""Files that are labelled in one plan: each takes a part of a megabyte while it is planned and read."""

_DEPTH_MAX = 8

Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Labelled events, whole sessions in each bucket. `last` is the latest time, None without any row."""

    frames: tuple[pl.LazyFrame, ...]
    last: int | None


def labelled(
    parts: Sequence[Part], labeler: Labeler, scratch: Path, as_of: int | None, told: Told
) -> Buckets:
    """The labelled events of all parts up to the time `as_of`, by buckets of sessions.

    Few enough rows stay in memory; more are written to `scratch`. `told` hears how many rows were read, and
    of how many.
    """
    rows = [row_count(part) for part in parts]
    count = min(BUCKETS_MAX, sum(rows) // BUCKET_ROWS + 1)
    folder = scratch / "buckets"
    held: list[pl.DataFrame] = []
    read = 0
    for number, (some, size) in enumerate(_passes(parts, rows)):
        with _damage_named(some):
            labels = _labels(some, labeler, as_of)
            if sum(rows) <= BUCKET_ROWS:
                held.append(labels.collect(engine="streaming"))
            else:
                _write(labels, folder / f"{number:05d}", count, seed=0)
        read += size
        told(read, sum(rows))
    if held:
        frame = pl.concat(held)
        return Buckets((frame.lazy(),), _last(frame.lazy())) if len(frame) else Buckets((), None)
    files = [sorted(folder.glob(f"*/bucket={bucket}/*")) for bucket in range(count)]
    whole = [_read(own) for own in files if own]
    divided = [part for frame in whole for part in _divided(frame, scratch, depth=1)]
    last = _last(pl.concat(divided)) if divided else None
    return Buckets(tuple(divided), last)


def _labels(parts: Sequence[Part], labeler: Labeler, as_of: int | None) -> pl.LazyFrame:
    events = pl.concat([scan(part) for part in parts])
    if as_of is not None:
        events = events.filter(pl.col("time").to_physical() <= as_of)
    return labeler.label(events, keep=JUDGED_COLUMNS)


def _passes(parts: Sequence[Part], rows: Sequence[int]) -> Iterator[tuple[list[Part], int]]:
    """The parts in groups of about `PASS_ROWS` rows or `PASS_FILES` files, and the rows of each group."""
    group: list[Part] = []
    size = 0
    for part, count in zip(parts, rows, strict=True):
        group.append(part)
        size += count
        if size >= PASS_ROWS or len(group) == PASS_FILES:
            yield group, size
            group, size = [], 0
    if group:
        yield group, size


@contextmanager
def _damage_named(parts: Sequence[Part]) -> Generator[None]:
    """Turn Polars' complaint about a file's content into a SourceError (TRL401) that names the file."""
    try:
        yield
    except pl.exceptions.PolarsError:
        for part in parts:
            try:
                scan(part).sink_batches(lambda _batch: None, engine="streaming")
            except pl.exceptions.PolarsError:
                hint = "a page of it is damaged, or a text is no UTF-8: write it again"
                raise SourceError("TRL401", part.name, "is not readable as Parquet", hint) from None
        raise


def _write(frame: pl.LazyFrame, folder: Path, count: int, seed: int) -> None:
    """Write whole sessions to `count` buckets in a folder each, as they are in memory: read once, soon."""
    bucket = (pl.col("session_id").hash(seed) % count).alias("bucket")
    folders = pl.PartitionBy(folder, key="bucket", include_key=False)
    frame.with_columns(bucket).sink_ipc(
        folders, compression="uncompressed", maintain_order=False, mkdir=True, engine="streaming"
    )


def _read(files: Sequence[Path]) -> pl.LazyFrame:
    return pl.scan_ipc(list(files), hive_partitioning=False)


def _divided(frame: pl.LazyFrame, scratch: Path, depth: int) -> list[pl.LazyFrame]:
    """The bucket, or where it is too large and has more than one session its sessions in smaller ones."""
    rows = frame.select(pl.len()).collect().item()
    if rows <= BUCKET_ROWS_MAX or depth > _DEPTH_MAX:
        return [frame]
    several = frame.select(pl.col("session_id").min() != pl.col("session_id").max())
    if not several.collect(engine="streaming").item():
        return [frame]
    count = min(BUCKETS_MAX, rows // BUCKET_ROWS + 1)
    folder = scratch / f"divided-{depth}-{len(list(scratch.glob('divided-*')))}"
    _write(frame, folder, count, seed=depth)
    parts = [_read(sorted(own.iterdir())) for own in sorted(folder.iterdir())]
    return [smaller for part in parts for smaller in _divided(part, scratch, depth + 1)]


def _last(frame: pl.LazyFrame) -> int | None:
    return frame.select(pl.col("time").max().to_physical()).collect(engine="streaming").item()
