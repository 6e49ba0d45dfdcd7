"""Labelling an archive in one pass over its files, and holding the labelled events by session, bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import polars as pl

from ...archive.writer import RULES_COLUMN
from ...rules.engine.judge import JUDGED_COLUMNS
from ...rules.labels.labeler import Labeler
from ...rules.labels.missing import FIELDS, HAS_GAPS, MISSING, NOTHING, missing_column
from ..sources.discover import SourceFile
from ..sources.event_files import reading, row_count
from . import spill

OnRows = Callable[[int, int], None]
"""Hears how many rows were worked on, and how many there are."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Labelled events, whole sessions in each bucket; each is to be collected before the next is asked for.

    `rows` counts all of them. `last` is the latest time, None without any row.
    """

    frames: Iterable[pl.LazyFrame]
    rows: int
    last: int | None


def labelled(
    parts: Sequence[SourceFile],
    labeler: Labeler,
    scratch: Path,
    as_of: int | None,
    told: OnRows,
    judged_by: str | None = None,
    keep: Sequence[str] = JUDGED_COLUMNS,
) -> Buckets:
    """The labelled events of all parts up to the time `as_of`, by buckets of sessions.

    They have the columns `keep`. With `judged_by` only those that were judged by the rule set of that digest.
    Few enough rows stay in memory; more are written to `scratch`. Raises SourceError naming a file of which
    something is damaged.
    """
    rows = sum(map(row_count, parts))
    folder = scratch / "labelled"
    held: list[pl.LazyFrame] = []
    read = 0
    fields = list(dict.fromkeys([*keep, *labeler.fields]))
    more = None if judged_by is None else {RULES_COLUMN: pl.String()}
    for number, some in enumerate(spill.passes(parts, more)):
        own = some.frame if judged_by is None else some.frame.filter(pl.col(RULES_COLUMN) == judged_by)
        with reading(some.parts):
            # Attributes are many and seldom asked for: only where something is missing are they read.
            if own.select(HAS_GAPS).collect(engine="streaming").item():
                own = own.select(*{*fields, *FIELDS}).with_columns(missing_column())
            else:
                own = own.with_columns(NOTHING)
            events = until(own.select(*fields, MISSING), as_of)
            if len(some.parts) > 1:
                # Polars would ask every question of each small file for itself, which takes longer than all.
                events = events.collect(engine="streaming").rechunk().lazy()
            labels = labeler.label(events, keep=(*keep, MISSING))
            if rows <= spill.BUCKET_ROWS:
                held.append(labels.collect(engine="streaming").lazy())
            else:
                spill.write_buckets(labels, folder / f"{number:05d}", spill.bucket_count(rows, 0))
        read += some.rows
        told(read, rows)
    files = sorted(folder.rglob("*.ipc"))
    if not held and not files:
        return Buckets((), 0, None)
    whole = pl.concat(held) if held else pl.scan_ipc(files, hive_partitioning=False)
    count, last = _extent(whole)
    if not count:
        return Buckets((), 0, None)
    return Buckets((whole,) if held else spill.read_buckets(folder), count, last)


Frame = TypeVar("Frame", pl.LazyFrame, pl.DataFrame)


def until(events: Frame, as_of: int | None) -> Frame:
    """The events up to the time `as_of`."""
    return events if as_of is None else events.filter(pl.col("time").to_physical() <= as_of)


def _extent(frame: pl.LazyFrame) -> tuple[int, int | None]:
    """Return how many rows there are, and the latest time."""
    told = frame.select(pl.len(), pl.col("time").max().to_physical()).collect(engine="streaming")
    return told.row(0)
