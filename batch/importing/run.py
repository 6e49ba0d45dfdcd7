"""`tracline import`: convert chat logs and span dumps to an archive, each source once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from ...archive.disk import digest_of
from ...archive.error import SourceError
from ...archive.manifest import Manifest, ManifestEntry, ManifestSource
from ...archive.writer import ArchiveWriter, archive_writer
from ...schemas.chat.decode import END_CONVERSATION
from ...schemas.chat.reading import AS_LOGGED, ChatReading
from ...schemas.event import Kind
from ...schemas.frames.candidates import candidate_frame
from ...schemas.frames.events import event_frame
from ..prepare.chat_frames import chat_batches
from ..prepare.session_ids import KnownConversations, shared_ids
from ..prepare.span_candidates import resolved
from ..prepare.timezone import zone_of
from ..sources.discover import Population, Reject, SourceFile, Sources, discover, each_source
from ..sources.file_format import FileFormat
from .small_sources import SMALL_ROWS, SmallChats, rows_by_file, together

SPAN_ROWS = 50_000
"""Rows of candidates per file of the archive (a request is never split)."""


@dataclass(slots=True)
class ImportResult:
    """The result of an import: the population, the files written, and the sources that were known.

    `spans` is how many of `population.rows` are spans.
    """

    population: Population
    spans: int = 0
    written: list[ManifestEntry] = field(default_factory=list[ManifestEntry])
    known: list[str] = field(default_factory=list[str])


def silent(_name: str) -> None:
    """Report no file."""


def import_source(
    source: Sources,
    out: Path,
    timezone: str = "UTC",
    scope: Sequence[str] = (),
    on_file: Callable[[str], None] = silent,
    chat: ChatReading = AS_LOGGED,
) -> ImportResult:
    """Read the chat logs and span dumps of a source and write their events to the archive at `out`.

    `timezone` (an IANA name) is that of times without an offset; `scope` are the resource attributes that
    prefix a span's session id; `chat` has the other options for chat logs. A file that was imported whole,
    identified by its content, is not read again, whatever the options. A file with rejects or without a
    readable span is read again, and an interrupted import is resumed. A conversation that the archive has
    from another source is a duplicate; one with the id and start of another conversation there is rejected.
    Spans become candidates, because their sessions may continue in the next file; an audit assembles the
    sessions. `on_file` is called with the name of each file before it is read. Raises SourceError for an
    unknown source or time zone, and for a source that was imported with another time zone; also OSError.
    """
    zone = zone_of(timezone)
    imported = ImportResult(Population())
    parts = _readable(source, out, imported.population)
    with archive_writer(out) as archive:
        new: dict[FileFormat, list[tuple[SourceFile, ManifestSource]]] = {
            FileFormat.CHAT: [],
            FileFormat.SPANS: [],
        }
        for part, source_id, is_finished in _identified(parts, timezone, archive.manifest):
            if is_finished:
                imported.known.append(part.name)
            else:
                new[part.format].append((part, source_id))
        _import_chats(new[FileFormat.CHAT], archive, imported, zone, on_file, chat)
        _import_spans(new[FileFormat.SPANS], archive, imported, scope, on_file)
    return imported


def _import_chats(
    new: Sequence[tuple[SourceFile, ManifestSource]],
    archive: ArchiveWriter,
    imported: ImportResult,
    zone: ZoneInfo,
    on_file: Callable[[str], None],
    chat: ChatReading,
) -> None:
    """Write the judged events of chat logs, small ones together."""
    known = shared_ids([part for part, _ in new], zone, chat)
    _add_archived(known, archive.root, archive.manifest, to_be_read={source.sha256 for _, source in new})
    small = SmallChats(archive)
    for part, source in new:
        on_file(part.name)
        rejected = imported.population.rejected.total()
        batches = chat_batches(part, imported.population, known, zone, chat)
        first = next(batches, None)
        is_small = first is None or (first.size < SMALL_ROWS and not first.is_full)
        if is_small and imported.population.rejected.total() == rejected:
            imported.written.extend(small.add(source, first))
            continue
        # A duplicate in this file may be of a small one: small ones must be in the archive first.
        imported.written.extend(small.write())
        for batch in chain([first] if first else [], batches):
            offsets = (batch.first, batch.last)
            imported.written.extend(archive.write(event_frame(batch.events), source, offsets))
        if imported.population.rejected.total() == rejected:
            archive.finish(source)
    imported.written.extend(small.write())


def _import_spans(
    new: Sequence[tuple[SourceFile, ManifestSource]],
    archive: ArchiveWriter,
    imported: ImportResult,
    scope: Sequence[str],
    on_file: Callable[[str], None],
) -> None:
    """Write the candidates of span dumps, resolved together: a trace may be in several dumps."""
    if not new:
        return
    rejected, before = imported.population.rejected.total(), imported.population.rows
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        blocks = resolved([part for part, _ in new], imported.population, scratch / "traces", scope)
        for number, block in enumerate(blocks):
            numbers = {"file": [item.file for item in block], "request": [item.request for item in block]}
            each = pl.Series([len(item.candidate.claims) for item in block])
            places = pl.DataFrame(numbers, {"file": pl.Int64, "request": pl.Int64}).select(
                pl.all().repeat_by(each).explode(empty_as_null=False)
            )
            frame = candidate_frame([item.candidate for item in block]).hstack(places)
            frame.write_ipc(scratch / f"{number:06d}.ipc")
        imported.spans = imported.population.rows - before
        for part, source in new:
            archive.count(source, imported.population.spans_in(part.name))
        held = pl.scan_ipc(scratch / "*.ipc")
        if imported.population.rejected.total() == rejected:
            _write_whole_dumps(held, new, archive, imported, on_file)
        else:
            _write_dumps(held, new, archive, imported, on_file)


def _write_whole_dumps(
    held: pl.LazyFrame,
    new: Sequence[tuple[SourceFile, ManifestSource]],
    archive: ArchiveWriter,
    imported: ImportResult,
    on_file: Callable[[str], None],
) -> None:
    """Write the candidates of dumps without rejects, small ones together."""
    rows = rows_by_file(held, len(new))
    for begin, last in together(rows, SPAN_ROWS):
        members = [number for number in range(begin, last + 1) if rows[number]]
        if len(members) > 1:
            for part, _ in new[begin : last + 1]:
                on_file(part.name)
            candidates = held.filter(pl.col("file").is_between(begin, last)).drop("file", "request")
            sources = [new[number][1] for number in members]
            imported.written.extend(archive.write_combined(candidates.collect(engine="streaming"), sources))
        else:
            _write_dumps(held, new[begin : last + 1], archive, imported, on_file, begin)
        for number in range(begin, last + 1):
            part, source = new[number]
            is_entered = len(members) > 1 and rows[number]
            # A later release may read spans that this one does not.
            if not is_entered and not imported.population.spans_in(part.name).is_unread:
                archive.finish(source)


def _write_dumps(
    held: pl.LazyFrame,
    new: Sequence[tuple[SourceFile, ManifestSource]],
    archive: ArchiveWriter,
    imported: ImportResult,
    on_file: Callable[[str], None],
    begin: int = 0,
) -> None:
    """Write the candidates of each dump to separate files; `begin` is the number of the first dump."""
    for number, (part, source) in enumerate(new, begin):
        on_file(part.name)
        candidates = held.filter(pl.col("file") == number)
        for first, last in _ranges(candidates):
            rows = candidates.filter(pl.col("request").is_between(first, last)).drop("file", "request")
            imported.written.extend(archive.write(rows.collect(), source, (first, last)))


def _ranges(rows: pl.LazyFrame) -> Iterator[tuple[int, int]]:
    """Yield ranges of a file's requests, each with about `SPAN_ROWS` rows."""
    counts = rows.group_by("request").len().sort("request").collect(engine="streaming")
    first = size = 0
    for request, count in counts.iter_rows():
        size += count
        if size >= SPAN_ROWS:
            yield first, request
            first, size = request + 1, 0
    if size:
        yield first, counts["request"][-1]


def _readable(source: Sources, out: Path, population: Population) -> list[SourceFile]:
    """Return the chat logs and span dumps of a source, which must not contain the archive."""
    target, roots = out.resolve(), [Path(part).resolve() for part in each_source(source)]
    if any(target == root or root in target.parents for root in roots):
        hint = "choose an --out outside the source"
        raise SourceError("TRL401", str(out), "is inside the source", hint)
    found: list[SourceFile] = []
    for part in discover(source, population):
        if part.format is not FileFormat.PARQUET:
            found.append(part)
        else:
            text = "is event Parquet, which `tracline audit` reads directly"
            population.reject(Reject(part.name, "whole file", "source-kind", text))
    return found


def _identified(
    parts: Sequence[SourceFile], timezone: str, manifest: Manifest
) -> Iterator[tuple[SourceFile, ManifestSource, bool]]:
    """Yield each file with its manifest source, and whether the archive contains all of it.

    Raises SourceError (TRL404) if it was imported with another time zone.
    """
    archived = (*manifest.finished, *(entry.source for entry in manifest.entries))
    zones = {source.sha256: source.timezone for source in archived}
    finished = {source.sha256 for source in manifest.finished}
    for part in parts:
        source = ManifestSource(part.name, digest_of(part.path), timezone)
        zone = zones.get(source.sha256, timezone)
        if zone != timezone:
            hint = f"use --timezone {zone}, or import into another archive"
            raise SourceError("TRL404", part.name, f"was imported with --timezone {zone} before", hint)
        yield part, source, source.sha256 in finished


def _add_archived(known: KnownConversations, out: Path, manifest: Manifest, to_be_read: set[str]) -> None:
    """Add the archive's conversations, which its `end` rows list."""
    for again in (False, True):
        files = [
            out / entry.file
            for entry in manifest.entries
            if (entry.source.sha256 in to_be_read) == again
            and Path(entry.file).name not in manifest.unfinished
        ]
        if not files:
            continue
        ends: Any = (
            pl.scan_parquet(files, hive_partitioning=False)
            .filter(pl.col("kind") == Kind.END)
            .select(
                "session_id",
                pl.col("occurrence").to_physical(),
                pl.col("attributes").map.get(END_CONVERSATION).alias("digest"),
            )
            .filter(pl.col("digest").is_not_null())
            .collect(engine="streaming")
            .iter_rows()
        )
        for session_id, occurrence, digest in ends:
            known.add_archived(session_id, occurrence, digest, is_read_again=again)
