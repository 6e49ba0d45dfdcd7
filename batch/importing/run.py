"""`tracline import`: chat logs and span dumps into an archive, each source once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from ...archive.disk import digest_of
from ...archive.error import SourceError
from ...archive.manifest import Manifest, ManifestEntry, ManifestSource
from ...archive.writer import ArchiveWriter, archive_writer
from ...schemas.chat.decode import END_CONVERSATION
from ...schemas.event import Kind
from ...schemas.frames.candidates import candidate_frame
from ...schemas.frames.events import event_frame
from ..prepare.chat_frames import chat_batches
from ..prepare.session_ids import KnownConversations, shared_ids
from ..prepare.span_candidates import resolved
from ..sources.discover import FileFormat, Population, Reject, SourceFile, discover
from .small_sources import SMALL_ROWS, SmallChats, rows_by_file, together

SPAN_ROWS = 50_000
"""Rows of candidates after which a file of the archive is full (a request is never split)."""


@dataclass(slots=True)
class ImportResult:
    """What an import did: what it read, the files that it wrote, the sources that it had imported before.

    `spans` counts those of `population.rows` that are spans.
    """

    population: Population
    spans: int = 0
    written: list[ManifestEntry] = field(default_factory=list[ManifestEntry])
    known: list[str] = field(default_factory=list[str])


def import_source(
    source: str | Path,
    out: Path,
    timezone: str = "UTC",
    scope: Sequence[str] = (),
    tell: Callable[[str], None] | None = None,
) -> ImportResult:
    """Read the chat logs and span dumps of a source and write their events into the archive at `out`.

    `timezone` (an IANA name) is that of times without an offset, `scope` are the resource attributes that
    go before a span's session id. A source file that was imported whole, told by its content, is not read
    again; one of which something was rejected, or no span is read, is, and one whose import was cut off is
    finished. A
    conversation that the archive has from another source is a duplicate; one with the id and start of
    another one there is rejected. Spans become candidates: their sessions may go on in tomorrow's file, and
    are put together when the archive is judged. `tell` hears the name of each file when its turn comes.
    Raises SourceError for a source or a time zone that is not there, for a source that was imported with
    another time zone, and OSError.
    """
    zone = zone_of(timezone)
    imported = ImportResult(Population())
    parts = _sources(source, out, imported.population)
    with archive_writer(out) as archive:
        new: dict[FileFormat, list[tuple[SourceFile, ManifestSource]]] = {
            FileFormat.CHAT: [],
            FileFormat.SPANS: [],
        }
        for part, origin, is_whole in _origins(parts, timezone, archive.manifest):
            if is_whole:
                imported.known.append(part.name)
            else:
                new[part.format].append((part, origin))
        _import_chats(new[FileFormat.CHAT], archive, imported, zone, tell)
        _import_spans(new[FileFormat.SPANS], archive, imported, scope, tell)
    return imported


def _import_chats(
    new: Sequence[tuple[SourceFile, ManifestSource]],
    archive: ArchiveWriter,
    imported: ImportResult,
    zone: ZoneInfo,
    tell: Callable[[str], None] | None,
) -> None:
    """Write the judged events of chat logs, small ones together."""
    met = shared_ids([part for part, _ in new], zone)
    _add_archived(met, archive.root, archive.manifest, to_be_read={origin.sha256 for _, origin in new})
    small = SmallChats(archive)
    for part, origin in new:
        if tell is not None:
            tell(part.name)
        rejected = imported.population.rejected.total()
        batches = chat_batches(part, imported.population, met, zone)
        first = next(batches, None)
        is_small = first is None or (first.size < SMALL_ROWS and not first.is_full)
        if is_small and imported.population.rejected.total() == rejected:
            imported.written.extend(small.add(origin, first))
            continue
        # What is a repeat here may stand in those: they are in the archive before this one is.
        imported.written.extend(small.write())
        for batch in chain([first] if first else [], batches):
            offsets = (batch.first, batch.last)
            imported.written.extend(archive.write(event_frame(batch.events), origin, offsets))
        if imported.population.rejected.total() == rejected:
            archive.finish(origin)
    imported.written.extend(small.write())


def _import_spans(
    new: Sequence[tuple[SourceFile, ManifestSource]],
    archive: ArchiveWriter,
    imported: ImportResult,
    scope: Sequence[str],
    tell: Callable[[str], None] | None,
) -> None:
    """Write the candidates of span dumps, which are resolved all together: a trace may stand in several."""
    if not new:
        return
    rejected, before = imported.population.rejected.total(), imported.population.rows
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        told = resolved([part for part, _ in new], imported.population, scratch / "traces", scope)
        for number, some in enumerate(told):
            numbers = {"file": [one.file for one in some], "request": [one.request for one in some]}
            each = pl.Series([len(one.candidate.claims) for one in some])
            places = pl.DataFrame(numbers, {"file": pl.Int64, "request": pl.Int64}).select(
                pl.all().repeat_by(each).explode(empty_as_null=False)
            )
            frame = candidate_frame([one.candidate for one in some]).hstack(places)
            frame.write_ipc(scratch / f"{number:06d}.ipc")
        imported.spans = imported.population.rows - before
        for part, origin in new:
            archive.count(origin, imported.population.spans_in(part.name))
        held = pl.scan_ipc(scratch / "*.ipc")
        if imported.population.rejected.total() == rejected:
            _write_whole_dumps(held, new, archive, imported, tell)
        else:
            _write_dumps(held, new, archive, imported, tell)


def _write_whole_dumps(
    held: pl.LazyFrame,
    new: Sequence[tuple[SourceFile, ManifestSource]],
    archive: ArchiveWriter,
    imported: ImportResult,
    tell: Callable[[str], None] | None,
) -> None:
    """Write the candidates of dumps of which nothing was rejected, small ones together."""
    rows = rows_by_file(held, len(new))
    for begin, last in together(rows, SPAN_ROWS):
        members = [number for number in range(begin, last + 1) if rows[number]]
        if len(members) > 1:
            for part, _ in new[begin : last + 1]:
                if tell is not None:
                    tell(part.name)
            own = held.filter(pl.col("file").is_between(begin, last)).drop("file", "request")
            origins = [new[number][1] for number in members]
            imported.written.extend(archive.write_combined(own.collect(engine="streaming"), origins))
        else:
            _write_dumps(held, new[begin : last + 1], archive, imported, tell, begin)
        for number in range(begin, last + 1):
            part, origin = new[number]
            is_entered = len(members) > 1 and rows[number]
            # Another release may read what this one does not.
            if not is_entered and not imported.population.spans_in(part.name).is_unread:
                archive.finish(origin)


def _write_dumps(
    held: pl.LazyFrame,
    new: Sequence[tuple[SourceFile, ManifestSource]],
    archive: ArchiveWriter,
    imported: ImportResult,
    tell: Callable[[str], None] | None,
    begin: int = 0,
) -> None:
    """Write the candidates of dumps, of which the first has the number `begin`, into files of their own."""
    for number, (part, origin) in enumerate(new, begin):
        if tell is not None:
            tell(part.name)
        own = held.filter(pl.col("file") == number)
        for first, last in _ranges(own):
            rows = own.filter(pl.col("request").is_between(first, last)).drop("file", "request")
            imported.written.extend(archive.write(rows.collect(), origin, (first, last)))


def _ranges(rows: pl.LazyFrame) -> Iterator[tuple[int, int]]:
    """The requests of a file from its first on, in ranges of which none has many more rows than it may."""
    counts = rows.group_by("request").len().sort("request").collect(engine="streaming")
    first = size = 0
    for request, count in counts.iter_rows():
        size += count
        if size >= SPAN_ROWS:
            yield first, request
            first, size = request + 1, 0
    if size:
        yield first, counts["request"][-1]


def zone_of(name: str) -> ZoneInfo:
    """The time zone of an IANA name. Raises SourceError where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "use a name of the IANA data base, such as UTC, Europe/Berlin or America/New_York"
        raise SourceError("TRL405", "--timezone", "there is no time zone of that name", hint) from None


def _sources(source: str | Path, out: Path, population: Population) -> list[SourceFile]:
    """The chat logs and span dumps of a source, which must not be the archive itself."""
    target, root = out.resolve(), Path(source).resolve()
    if target == root or root in target.parents:
        hint = "name an --out that is not inside the source"
        raise SourceError("TRL401", str(out), "lies inside the source that is to be imported", hint)
    found: list[SourceFile] = []
    for part in discover(source, population):
        if part.format is not FileFormat.PARQUET:
            found.append(part)
        else:
            text = "is event Parquet already, which audit reads as it is"
            population.reject(Reject(part.name, "whole file", "source-kind", text))
    return found


def _origins(
    parts: Sequence[SourceFile], timezone: str, manifest: Manifest
) -> Iterator[tuple[SourceFile, ManifestSource, bool]]:
    """Each file with its origin, and whether the archive has its content whole.

    Raises SourceError where another time zone read it.
    """
    told = (*manifest.finished, *(entry.source for entry in manifest.entries))
    zones = {origin.sha256: origin.timezone for origin in told}
    whole = {origin.sha256 for origin in manifest.finished}
    for part in parts:
        origin = ManifestSource(part.name, digest_of(part.path), timezone)
        zone = zones.get(origin.sha256, timezone)
        if zone != timezone:
            hint = f"use --timezone {zone}, or import into another archive"
            raise SourceError("TRL404", part.name, f"was imported with --timezone {zone} before", hint)
        yield part, origin, origin.sha256 in whole


def _add_archived(met: KnownConversations, out: Path, manifest: Manifest, to_be_read: set[str]) -> None:
    """Add the conversations that the archive has, by their `end` rows."""
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
            met.archived(session_id, occurrence, digest, told=not again)
