"""Making any source ready to be judged: event Parquet whose rows say their occurrence, order and ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

import polars as pl

from ..schemas.order import PLACES, judged_order, numbered_order
from .chatframe import chat_frames
from .chatnames import survey
from .eventfile import is_numbered, null_count, reject_rows, row_count, scan
from .read import Format, Part, Population, discover

BUCKET_ROWS = 1_000_000
"""Rows that are put in order at a time, on average: whole sessions, by the hash of their id."""
_READY = ("seq", "occurrence", "event_id")


@dataclass(frozen=True, slots=True)
class Settings:
    """What reading a source depends on beside its files.

    `zone` is that of times in chat logs without one. `idle_s` seconds without an event close a session.
    """

    zone: tzinfo = UTC
    idle_s: float = 3600


def prepare(
    source: str | Path, scratch: Path, population: Population, settings: Settings | None = None
) -> tuple[Part, ...]:
    """The source as files of judged events: `scan` gives rows with occurrence, seq and event_id, none null.

    Files that already are so stay where they are. Chat logs, and event Parquet that lacks order or ids, are
    written to `scratch` (a folder of the caller's, empty) in bounded memory. Rows, duplicates and rejected
    input are counted in the population; of sessions and events only those of chat logs are: the caller
    counts what it judges. Raises SourceError where there is nothing to read or a column is wrong.
    """
    settings = settings or Settings()
    ready: list[Part] = []
    numbered: list[Part] = []
    candidates: list[Part] = []
    found = discover(source, population)
    chats = [part for part in found if part.format is Format.CHAT]
    for frame in chat_frames(chats, population, survey(chats, settings.zone), settings.zone):
        ready.append(_write(scratch, f"chat-{len(ready):06d}", frame))
    for part in found:
        if part.format is Format.CHAT:
            continue
        reject_rows(part, population)
        if not is_numbered(part):
            candidates.append(part)
        elif all(null_count(part, name) == 0 for name in _READY):
            ready.append(part)
        else:
            numbered.append(part)

    def ordered(frame: pl.DataFrame) -> pl.DataFrame:
        judged = judged_order(frame, settings.idle_s)
        population.duplicates += judged.repeats + judged.stray_ends
        return judged.events

    ready.extend(_by_buckets(numbered, scratch, "numbered", numbered_order))
    ready.extend(_by_buckets(candidates, scratch, "ordered", ordered))
    return tuple(ready)


def _by_buckets(
    parts: Sequence[Part], scratch: Path, name: str, order: Callable[[pl.DataFrame], pl.DataFrame]
) -> list[Part]:
    """The rows of all parts, whole sessions at a time through `order`, written to scratch."""
    rows = sum(map(row_count, parts))
    if not rows:
        return []
    count = rows // BUCKET_ROWS + 1
    absent = pl.DataFrame(schema=PLACES)
    frames = [pl.concat([scan(part), absent.lazy()], how="diagonal") for part in parts]
    folder = scratch / f"{name}-buckets"
    bucket = pl.col("session_id").hash(0) % count
    pl.concat(frames).with_columns(bucket.alias("bucket")).sink_parquet(
        pl.PartitionBy(folder, key="bucket", include_key=False), mkdir=True, engine="streaming"
    )
    written: list[Part] = []
    for spilled in sorted(folder.iterdir()):
        events = order(pl.read_parquet(spilled, hive_partitioning=False))
        written.append(_write(scratch, f"{name}-{len(written):06d}", events))
        for file in spilled.rglob("*.parquet"):
            file.unlink()
    return written


def _write(scratch: Path, name: str, events: pl.DataFrame) -> Part:
    path = scratch / f"{name}.parquet"
    events.write_parquet(path, compression="lz4")
    return Part(path, path.name, Format.PARQUET)
