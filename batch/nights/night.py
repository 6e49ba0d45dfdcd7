"""A night: the files and the rows that an audit needs which continues a previous one.

It covers the sessions that closed after the previous audit's time and not after its own. It reads the files
with a row between the two times, and those with rows of a session that was open at the first. Which these
are follows from the rows up to the second time alone; the previous bundle only spares opening the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ...archive.writer import RULES_COLUMN
from ...schemas.event import Content, Kind
from ...schemas.frames.events import EVENT_SCHEMA
from ...schemas.time import NS
from ..prepare.buckets import until
from ..prepare.options import AuditOptions
from ..prepare.spill import passes
from ..sources.discover import SourceFile
from ..sources.event_files import reading
from ..sources.file_format import FileFormat
from .closings import SESSION, before_silences, closed_between, closings, is_closed


@dataclass(frozen=True, slots=True)
class Night:
    """The rows of the sessions that a night covers, in files of their own.

    `open` are the sessions that stay open, and `files` those to look into for their rows. `resumed` are the
    sessions that closed in a silence and went on in this night: what came after the silence is in no night.
    """

    parts: tuple[SourceFile, ...]
    open: pl.DataFrame
    resumed: pl.DataFrame
    files: tuple[SourceFile, ...]


def files_of_night(
    parts: Sequence[SourceFile], previous: int, as_of: int, idle: int | None
) -> list[SourceFile]:
    """Return the files of events with a row between two times, or with one of a session open at the first.

    `parts` have at least these files, and all rows of such sessions. Later rows do not matter, so the files
    are the same once the archive has grown.
    """
    found = closings(parts, previous, idle, unread_until=previous)
    # A late row can be older than the beginning of its session, and than the idle time.
    begins_later = pl.col("occurrence").to_physical() > previous
    was_open = found.filter(~is_closed(previous, idle) | begins_later).select(SESSION)
    needed: list[SourceFile] = []
    for part in parts:
        for one_pass in passes([part]):
            rows = until(one_pass.frame, as_of).select(
                *SESSION, is_later=pl.col("time").to_physical() > previous
            )
            with reading([part]):
                read = rows.unique().collect(engine="streaming")
            if read["is_later"].any() or len(read.join(was_open, on=SESSION, how="semi")):
                needed.append(part)
                break
    return needed


def night_of(
    parts: Sequence[SourceFile], scratch: Path, options: AuditOptions, *, as_judged: bool = False
) -> Night:
    """Write the rows of the sessions that a night covers to `scratch`, an empty folder of the caller.

    A covered session that closed only because an open one follows it gets an `end` row. Of a session that was
    silent for longer than the idle time only what came before the silence is judged.
    """
    assert options.as_of is not None, "a night ends at a time"
    assert options.previous_as_of is not None, "a night begins at a time"
    idle = None if as_judged else round(options.idle_s * NS)
    previous = options.previous_as_of
    found = closings(parts, options.as_of, idle, unread_until=previous)
    covered, is_open = closed_between(found, previous, options.as_of, idle)
    resumed = found.filter(pl.col("resumed") > previous).select(SESSION)
    scratch.mkdir()
    more = {RULES_COLUMN: pl.String()} if as_judged else None
    written: list[SourceFile] = []
    for one_pass in passes(parts, more) if len(covered) else ():
        rows = before_silences(until(one_pass.frame, options.as_of), covered)
        with reading(one_pass.parts):
            written += _written(scratch, len(written), rows.collect(engine="streaming"))
    if not as_judged:
        written += _written(scratch, len(written), _ends(written, covered))
    return Night(tuple(written), is_open.select(SESSION), resumed, tuple(parts))


def _written(folder: Path, number: int, rows: pl.DataFrame) -> list[SourceFile]:
    """Write rows to a file, if there are any, and return it."""
    if not len(rows):
        return []
    path = folder / f"night-{number:06d}.parquet"
    rows.write_parquet(path, compression="lz4")
    return [SourceFile(path, path.name, FileFormat.PARQUET)]


def _ends(parts: Sequence[SourceFile], covered: pl.DataFrame) -> pl.DataFrame:
    """Return an `end` row for each covered session that only an occurrence after it has closed."""
    followed = covered.filter(pl.col("ended").is_null() & pl.col("followed").is_not_null())
    if not len(followed):
        return pl.DataFrame()
    frames = [one_pass.frame.select(*SESSION, "seq") for one_pass in passes(parts)]
    seqs = pl.concat(frames).join(followed.lazy(), SESSION, "semi").group_by(SESSION).agg(pl.col("seq").max())
    with reading(parts):
        last = seqs.collect(engine="streaming").join(followed, SESSION)
    values = {
        "time": pl.col("followed"),
        "seq": pl.col("seq") + 1,
        "kind": pl.lit(Kind.END.value),
        "event_id": pl.lit("end"),
        "content": pl.lit(Content.CAPTURED.value),
        **{name: pl.lit(False) for name in ("late", "history", "nested")},
    }
    rest = {name: pl.lit(None) for name in EVENT_SCHEMA if name not in (*SESSION, *values)}
    rows = last.select(*SESSION, **values, **rest)
    return rows.select(pl.col(name).cast(EVENT_SCHEMA[name]) for name in EVENT_SCHEMA)
