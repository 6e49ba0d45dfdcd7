"""Labelling of an archive in one pass, and buckets of labelled events by session, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import polars as pl

from ...archive.writer import CHAIN_COLUMN, RULES_COLUMN
from ...rules.engine.judge import JUDGED_COLUMNS
from ...rules.labels.labeler import EventLabels
from ...rules.labels.missing import FIELDS, HAS_GAPS, MISSING, NOTHING, missing_column
from ..sources.discover import SourceFile
from ..sources.event_files import changed, reading, row_count
from . import spill
from .observer import EventObserver

_CONTENT = "content"
"""The column that states whether the content of an event is missing."""

CHUNKS_MAX = 16
"""Chunks of columns from which on a copy in one chunk takes less time than what each chunk adds."""

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
    labeler: EventLabels,
    scratch: Path,
    as_of: int | None,
    on_rows: OnRows,
    judged_by: str | None = None,
    keep: Sequence[str] = JUDGED_COLUMNS,
    observer: EventObserver | None = None,
) -> Buckets:
    """Label the events of all parts up to the time `as_of`, and return them in buckets of sessions.

    They have the columns `keep`. `judged_by` selects the events that the rule set of that digest judged. A
    small number of rows stays in memory; more are written to `scratch`. The `observer` sees all these events.
    Raises SourceError with the name of a damaged file.
    """
    rows = sum(map(row_count, parts))
    more = {name: pl.String() for name in (RULES_COLUMN, CHAIN_COLUMN) if name in keep}
    if judged_by is not None:
        more[RULES_COLUMN] = pl.String()
    passes = (
        PassRows(
            one_pass.parts,
            one_pass.rows,
            one_pass.frame if judged_by is None else one_pass.frame.filter(pl.col(RULES_COLUMN) == judged_by),
        )
        for one_pass in spill.passes(parts, more)
    )
    return label_passes(passes, rows, labeler, scratch, as_of, on_rows, keep, observer, spill.HELD_BYTES)


@dataclass(frozen=True, slots=True)
class PassRows:
    """All or some of the rows of a pass."""

    parts: tuple[SourceFile, ...]
    rows: int
    frame: pl.LazyFrame


def label_passes(
    passes: Iterable[PassRows],
    rows: int,
    labeler: EventLabels,
    scratch: Path,
    as_of: int | None,
    on_rows: OnRows,
    keep: Sequence[str],
    observer: EventObserver | None = None,
    held_bytes: int = 0,
) -> Buckets:
    """Label the events of passes, which have so many rows together, and return them like `labelled`.

    More rows than fill a bucket stay in memory, too, if they have at most `held_bytes` bytes.
    """
    folder, count = scratch / "labelled", spill.bucket_count(rows, 0)
    held: list[pl.DataFrame] = []
    read = size = 0
    for number, one_pass in enumerate(passes):
        held.append(_labels(one_pass, labeler, as_of, keep, observer))
        size += int(held[-1].estimated_size())
        if rows > spill.BUCKET_ROWS and size > held_bytes:
            spill.write_buckets(pl.concat(held).lazy(), folder / f"{number:05d}", count)
            held, held_bytes = [], 0
        read += one_pass.rows
        on_rows(read, rows)
    files = sorted(folder.rglob("*.ipc"))
    if not held and not files:
        return Buckets((), 0, None)
    whole = pl.concat(held).lazy() if held else pl.scan_ipc(files, hive_partitioning=False)
    found, last = _extent(whole)
    if not found:
        return Buckets((), 0, None)
    if files:
        return Buckets(spill.read_buckets(folder), found, last)
    return Buckets((whole,) if rows <= spill.BUCKET_ROWS else spill.buckets_of(whole, count), found, last)


def _labels(
    one_pass: PassRows,
    labeler: EventLabels,
    as_of: int | None,
    keep: Sequence[str],
    observer: EventObserver | None,
) -> pl.DataFrame:
    """Return the labels of a pass, with the columns `keep` and missing content."""
    observed = () if observer is None else observer.columns
    fields = list(dict.fromkeys([*keep, *labeler.fields, *observed]))
    events = with_missing(one_pass.parts, until(one_pass.frame, as_of), fields)
    if observer is not None:
        observer.add(events)
    # All rows at once: a call takes 13 ms, and Polars' streaming engine makes a call for every morsel.
    return labeler.label(events.lazy(), keep=(*keep, MISSING)).collect()


def with_missing(parts: Sequence[SourceFile], frame: pl.LazyFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return the columns `names` of events in these files, and the column of missing content.

    Raises SourceError with the name of a damaged file.
    """
    read = list(dict.fromkeys([*names, _CONTENT]))
    with reading(parts):
        events = in_few_chunks(frame.select(read).collect(engine="streaming"))
        if not events.select(HAS_GAPS).item():
            return events.select(*names, NOTHING)
        # Attributes are large and rarely needed: they are read only if content is missing.
        rest = [name for name in FIELDS if name not in read]
        more = frame.select(rest).collect(engine="streaming") if rest else pl.DataFrame()
    if rest and len(more) != len(events):
        raise changed(parts[0])
    return events.hstack(more).select(*names, missing_column())


def in_few_chunks(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events in one chunk where they have more than `CHUNKS_MAX`."""
    return events.rechunk() if events.n_chunks() > CHUNKS_MAX else events


EventRows = TypeVar("EventRows", pl.LazyFrame, pl.DataFrame)


def until(events: EventRows, as_of: int | None) -> EventRows:
    """Select the events up to the time `as_of`."""
    return events if as_of is None else events.filter(pl.col("time").to_physical() <= as_of)


def _extent(frame: pl.LazyFrame) -> tuple[int, int | None]:
    """Return the number of rows, and the latest time."""
    extent = frame.select(pl.len(), pl.col("time").max().to_physical()).collect(engine="streaming")
    return extent.row(0)
