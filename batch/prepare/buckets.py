"""Labelling of an archive in one pass, and buckets of labelled events by session, in bounded memory."""

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
"""Called with the number of labelled rows and of all rows."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Labelled events in buckets of whole sessions; collect each bucket before taking the next.

    `rows` counts all events. `last` is the latest time, None if there are no rows.
    """

    frames: Iterable[pl.LazyFrame]
    rows: int
    last: int | None


def labelled(
    parts: Sequence[SourceFile],
    labeler: Labeler,
    scratch: Path,
    as_of: int | None,
    on_rows: OnRows,
    judged_by: str | None = None,
    keep: Sequence[str] = JUDGED_COLUMNS,
) -> Buckets:
    """Label the events of all parts up to the time `as_of`, and return them in buckets of sessions.

    They have the columns `keep`. `judged_by` selects the events that the rule set of that digest judged. A
    small number of rows stays in memory; more are written to `scratch`. Raises SourceError with the name of a
    damaged file.
    """
    rows = sum(map(row_count, parts))
    folder = scratch / "labelled"
    held: list[pl.LazyFrame] = []
    read = 0
    fields = list(dict.fromkeys([*keep, *labeler.fields]))
    more = None if judged_by is None else {RULES_COLUMN: pl.String()}
    for number, one_pass in enumerate(spill.passes(parts, more)):
        frame = (
            one_pass.frame if judged_by is None else one_pass.frame.filter(pl.col(RULES_COLUMN) == judged_by)
        )
        with reading(one_pass.parts):
            # Attributes are large and rarely needed: they are read only if content is missing.
            if frame.select(HAS_GAPS).collect(engine="streaming").item():
                frame = frame.select(*{*fields, *FIELDS}).with_columns(missing_column())
            else:
                frame = frame.with_columns(NOTHING)
            events = until(frame.select(*fields, MISSING), as_of)
            if len(one_pass.parts) > 1:
                # Polars would evaluate every expression on each small file, which takes longer.
                events = events.collect(engine="streaming").rechunk().lazy()
            labels = labeler.label(events, keep=(*keep, MISSING))
            if rows <= spill.BUCKET_ROWS:
                held.append(labels.collect(engine="streaming").lazy())
            else:
                spill.write_buckets(labels, folder / f"{number:05d}", spill.bucket_count(rows, 0))
        read += one_pass.rows
        on_rows(read, rows)
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
    """Select the events up to the time `as_of`."""
    return events if as_of is None else events.filter(pl.col("time").to_physical() <= as_of)


def _extent(frame: pl.LazyFrame) -> tuple[int, int | None]:
    """Return the number of rows, and the latest time."""
    extent = frame.select(pl.len(), pl.col("time").max().to_physical()).collect(engine="streaming")
    return extent.row(0)
