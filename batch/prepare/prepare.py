"""Preparation of any source: event Parquet whose rows have their occurrence, order and ids."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from ...archive.error import SourceError
from ...schemas.frames.candidates import SPAN_COLUMNS, candidate_frame
from ...schemas.sessions.claim_log import ClaimLog
from ...schemas.sessions.order import session_order
from ..sources.discover import Population, Reject, SourceFile, Sources, discover
from ..sources.event_files import footer, null_count, reading, reject_rows
from ..sources.file_format import FileFormat
from .chat_frames import chat_frames
from .options import AuditOptions
from .session_ids import shared_ids
from .span_candidates import resolved
from .spill import bucket_count, passes, read_buckets, write_buckets

_UNREADABLE = {"TRL401": "parquet", "TRL402": "columns"}
"""The reason codes of files that are rejected whole."""
_READY = ("seq", "occurrence", "event_id")


def prepare(
    source: Sources,
    scratch: Path,
    population: Population,
    options: AuditOptions | None = None,
    claim_log: ClaimLog | None = None,
) -> tuple[SourceFile, ...]:
    """Return the source as files of judged events, whose rows have an occurrence, a seq and an event_id.

    Files that have these stay where they are. Chat logs, spans, and event Parquet without order or ids are
    written to `scratch` (an empty folder of the caller) in bounded memory. The population counts rows,
    duplicates and rejects, but sessions and events only of chat logs: the caller counts those that it judges.
    `claim_log` collects the outcome of each claim of one session. Raises SourceError if there is nothing to
    read or a column is wrong.
    """
    options = options or AuditOptions()
    ready: list[SourceFile] = []
    # The gaps of a night are the same once the archive has grown.
    gaps_until = None if options.previous_as_of is None else options.as_of
    found = discover(source, population, options.files, gaps_until=gaps_until)
    chats = [part for part in found if part.format is FileFormat.CHAT]
    known = shared_ids(chats, options.zone, options.chat)
    for frame in chat_frames(chats, population, known, options.zone, options.chat):
        ready.append(_write(scratch, f"chat-{len(ready):06d}", frame))
    rest: list[SourceFile] = []
    spans = [part for part in found if part.format is FileFormat.SPANS]
    traces = resolved(spans, population, scratch / "traces", options.scope, options.as_of, claim_log)
    for block in traces if spans else ():
        if block:
            frame = candidate_frame([located.candidate for located in block])
            rest.append(_write(scratch, f"spans-{len(rest):06d}", frame))
    for part in found:
        if part.format is FileFormat.PARQUET and _is_readable(part, population):
            (ready if is_ready(part) else rest).append(part)
    for frame in _by_session(rest, scratch / "sessions", options.as_of):
        judged = session_order(frame, options.idle_s, options.as_of, claim_log)
        population.duplicates += judged.repeats + judged.stray_ends
        ready.append(_write(scratch, f"ordered-{len(ready):06d}", judged.events))
    return tuple(ready)


def _is_readable(part: SourceFile, population: Population) -> bool:
    """Count the rows and rejects of a Parquet file, and return whether the file can be read."""
    try:
        reject_rows(part, population)
    except SourceError as error:
        population.reject(Reject(part.name, "whole file", _UNREADABLE[error.code], error.what))
        return False
    return True


def is_ready(part: SourceFile) -> bool:
    """Return whether each row of a file has an occurrence, a `seq` and an id."""
    facts = footer(part)
    return all(null_count(part, facts, name) == 0 for name in _READY)


def _by_session(parts: Sequence[SourceFile], folder: Path, as_of: int | None) -> Iterator[pl.DataFrame]:
    """Yield the rows of all parts by whole sessions, through a folder that is deleted afterwards."""
    if not parts:
        return
    folder.mkdir()
    facts = [footer(part) for part in parts]
    count = bucket_count(sum(found.rows for found in facts), sum(found.size for found in facts))
    for number, one_pass in enumerate(passes(parts, SPAN_COLUMNS)):
        with reading(one_pass.parts):
            frame = one_pass.frame
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
