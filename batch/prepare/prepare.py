"""Making any source ready to be judged: event Parquet whose rows say their occurrence, order and ids."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from ...archive.error import SourceError
from ...schemas.frames.candidates import SPAN_COLUMNS, candidate_frame
from ...schemas.sessions.claim_log import ClaimLog
from ...schemas.sessions.order import session_order
from ..sources.discover import FileFormat, Population, Reject, SourceFile, discover
from ..sources.event_files import bytes_of, null_count, reading, reject_rows, row_count
from .chat_frames import chat_frames
from .options import AuditOptions
from .session_ids import shared_ids
from .span_candidates import resolved
from .spill import bucket_count, passes, read_buckets, write_buckets

_UNREADABLE = {"TRL401": "parquet", "TRL402": "columns"}
"""Why a file is rejected whole."""
_READY = ("seq", "occurrence", "event_id")


def prepare(
    source: str | Path,
    scratch: Path,
    population: Population,
    terms: AuditOptions | None = None,
    claim_log: ClaimLog | None = None,
) -> tuple[SourceFile, ...]:
    """The source as files of judged events: `scan` gives rows with occurrence, seq and event_id, none null.

    Files that already are so stay where they are. Chat logs, spans, and event Parquet that lacks order or ids
    are written to `scratch` (a folder of the caller's, empty) in bounded memory. Rows, duplicates and
    rejected input are counted in the population; of sessions and events only those of chat logs are: the
    caller counts what it judges. What becomes of the claims of one session's spans is reported to
    `claim_log`. Raises SourceError where there is nothing to read or a column is wrong.
    """
    terms = terms or AuditOptions()
    ready: list[SourceFile] = []
    found = discover(source, population)
    chats = [part for part in found if part.format is FileFormat.CHAT]
    for frame in chat_frames(chats, population, shared_ids(chats, terms.zone), terms.zone):
        ready.append(_write(scratch, f"chat-{len(ready):06d}", frame))
    rest: list[SourceFile] = []
    spans = [part for part in found if part.format is FileFormat.SPANS]
    traces = resolved(spans, population, scratch / "traces", terms.scope, terms.as_of, claim_log)
    for told in traces if spans else ():
        if told:
            frame = candidate_frame([one.candidate for one in told])
            rest.append(_write(scratch, f"spans-{len(rest):06d}", frame))
    for part in found:
        if part.format is FileFormat.PARQUET and _is_readable(part, population):
            (ready if all(null_count(part, name) == 0 for name in _READY) else rest).append(part)
    for frame in _by_session(rest, scratch / "sessions", terms.as_of):
        judged = session_order(frame, terms.idle_s, terms.as_of, claim_log)
        population.duplicates += judged.repeats + judged.stray_ends
        ready.append(_write(scratch, f"ordered-{len(ready):06d}", judged.events))
    return tuple(ready)


def _is_readable(part: SourceFile, population: Population) -> bool:
    """Return whether the rows of a Parquet file can be read: counts them, and what is wrong."""
    try:
        reject_rows(part, population)
    except SourceError as error:
        population.reject(Reject(part.name, "whole file", _UNREADABLE[error.code], error.what))
        return False
    return True


def _by_session(parts: Sequence[SourceFile], folder: Path, as_of: int | None) -> Iterator[pl.DataFrame]:
    """The rows of all parts, whole sessions at a time, by way of a folder that is gone afterwards."""
    if not parts:
        return
    folder.mkdir()
    count = bucket_count(sum(map(row_count, parts)), sum(map(bytes_of, parts)))
    for number, some in enumerate(passes(parts, SPAN_COLUMNS)):
        with reading(some.parts):
            frame = some.frame
            if as_of is not None:
                frame = frame.filter(~(pl.col("span_end").to_physical() > as_of).fill_null(False))
            write_buckets(frame, folder / f"{number:06d}", count)
    for frame in read_buckets(folder):
        yield frame.collect()
    shutil.rmtree(folder)


def _write(scratch: Path, name: str, events: pl.DataFrame) -> SourceFile:
    path = scratch / f"{name}.parquet"
    events.write_parquet(path, compression="lz4")
    return SourceFile(path, path.name, FileFormat.PARQUET)
