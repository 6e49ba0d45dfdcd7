"""Writing an archive: event Parquet by day, each file whole, synced, renamed, then in the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from ..schemas.event import Kind
from ..schemas.instrumentations.census import SpanCensus
from ..schemas.time import rfc3339
from .disk import digest_of, disk_errors, sync_path
from .manifest import (
    Manifest,
    ManifestEntry,
    ManifestSource,
    append_lines,
    file_name,
    open_manifest,
    read_manifest,
)

RULES_COLUMN = "rules"
"""The column of a live archive that names the rule set which judged an event: the set's digest."""
CHAIN_COLUMN = "chain"
"""The column of a live archive that names the chain which followed an event's session, null without one.

Files have it only where the rules in force name a chain.
"""
UNKNOWN_DAY = "unknown"
ROW_GROUP_ROWS = 100_000
_TEMPORARY = ".writing-"


@dataclass(slots=True)
class ArchiveWriter:
    """An archive to which one process writes, with its manifest in memory; `archive_writer` opens one."""

    root: Path
    manifest: Manifest
    _known: set[str]
    _file: BinaryIO | None = None

    def write(
        self, events: pl.DataFrame, source: ManifestSource, offsets: tuple[int, int]
    ) -> list[ManifestEntry]:
        """Write judged events (or candidates) to the archive, a file for each of their days.

        A file that the manifest lists already stays as it is, so writing the same again changes nothing.
        Rows are sorted by occurrence, session and place. Returns the entries of the files that were written:
        each was written, synced and renamed before it was entered, so a crash leaves no entry without a file.
        """
        entries = write_files(self.root, events, source, offsets, self._known)
        self._append(*map(asdict, entries), sync=bool(entries))
        self._known.update(entry.file for entry in entries)
        return entries

    def write_combined(self, events: pl.DataFrame, members: Sequence[ManifestSource]) -> list[ManifestEntry]:
        """Write all events of small sources to the same files, and enter that the sources are finished.

        The files belong to the combined source (`combined_source`), in which a member's offset is its place.
        The first line states that the range has started, the last one that it is finished: if a crash cuts
        them off, readers ignore the files and the next import reads the members again.
        """
        source, offsets = combined_source(members), (0, len(members) - 1)
        entries = write_files(self.root, events, source, offsets, self._known)
        started = {"archiving": offsets, "source": asdict(source)}
        finished = {"finished": asdict(source), "sources": [asdict(member) for member in members]}
        self._append(started, *map(asdict, entries), finished, sync=True)
        self._known.update(entry.file for entry in entries)
        return entries

    def finish(self, source: ManifestSource) -> None:
        """Enter that the archive contains all of a source, so that it is not read again.

        A crash may lose this line; then the source is read again and nothing of it is written twice.
        """
        self._append({"finished": asdict(source)}, sync=False)

    def count(self, source: ManifestSource, spans: SpanCensus) -> None:
        """Enter how many spans a dump holds, unless the manifest has the same count."""
        if self.manifest.spans.get(source) != spans:
            self._append({"spans": spans.as_json(), "source": asdict(source)}, sync=False)

    def mark(self, source: ManifestSource, watermark: int) -> None:
        """Enter that the archive has all that a live source judged up to a watermark (ns since the epoch).

        A crash may lose this line, but never the files that were entered before it.
        """
        self._append({"watermark": rfc3339(watermark), "source": asdict(source)}, sync=False)

    def close(self) -> None:
        """Sync the manifest. Raises SourceError (TRL409) if the disk rejects it."""
        if self._file is not None:
            try:
                append_lines(self._file, (), sync=True)
            finally:
                # Closing tries once more to write what the disk rejected.
                with suppress(OSError):
                    self._file.close()

    def _append(self, *lines: dict[str, Any], sync: bool) -> None:
        if self._file is None:
            self._file = open_manifest(self.root)
        append_lines(self._file, lines, sync=sync)


@contextmanager
def archive_writer(root: Path) -> Generator[ArchiveWriter]:
    """Open the archive at `root` for writing, and create it if it does not exist.

    Raises SourceError (TRL403) if its manifest cannot be read.
    """
    manifest = read_manifest(root)
    writer = ArchiveWriter(root, manifest, {entry.file for entry in manifest.entries})
    try:
        yield writer
    finally:
        writer.close()


def combined_source(members: Sequence[ManifestSource]) -> ManifestSource:
    """Return the source that represents several: its digest is that of their digests, in their order."""
    digest = hashlib.sha256("".join(member.sha256 for member in members).encode()).hexdigest()
    name = f"{members[0].name} and {len(members) - 1} more"
    return ManifestSource(name, digest, members[0].timezone)


def day_of(time: pl.Expr) -> pl.Expr:
    """Return the day (UTC) of an event time, as the archive's folders name it: `2026-02-17`, or `unknown`.

    Conversations without times get synthetic ones from the epoch on, so a day of 1970 is no day.
    """
    day = time.dt.strftime("%Y-%m-%d")
    return pl.when(time.dt.year() == 1970).then(pl.lit(UNKNOWN_DAY)).otherwise(day)


def write_files(
    root: Path, events: pl.DataFrame, source: ManifestSource, offsets: tuple[int, int], known: Container[str]
) -> list[ManifestEntry]:
    """Write events to a file for each of their days, except `known` files, and return the new entries.

    Raises SourceError (TRL409) if the disk rejects a file.
    """
    days = events.with_columns(day_of(pl.col("time")).alias("day")).sort(
        "day", "occurrence", "session_id", "seq"
    )
    entries: list[ManifestEntry] = []
    try:
        for (day,), rows in days.group_by("day", maintain_order=True):
            file = f"day={day}/{file_name(source, offsets)}"
            if file not in known:
                entries.append(_write(root, file, rows.drop("day"), source, offsets))
        for folder in {(root / entry.file).parent for entry in entries}:
            sync_path(folder)
    except BaseException:
        # No manifest lists them: a reader would report them as cut off for as long as they exist.
        for entry in entries:
            (root / entry.file).unlink(missing_ok=True)
        raise
    return entries


def _write(
    root: Path, file: str, rows: pl.DataFrame, source: ManifestSource, offsets: tuple[int, int]
) -> ManifestEntry:
    """Write a file whole and sync it; its folder is not synced yet."""
    path = root / file
    temporary = path.with_name(_TEMPORARY + path.name)
    try:
        with disk_errors(path):
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True)
                sync_path(root)
            write_rows(temporary, rows)
            entry = entry_of(temporary, file, rows, source, offsets)
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return entry


def write_rows(path: Path, rows: pl.DataFrame) -> None:
    """Write rows to a file and sync it. Raises OSError if the disk rejects it."""
    try:
        rows.write_parquet(path, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    except pl.exceptions.PolarsError:
        # Polars calls a file on a full disk out of specification.
        raise OSError from None
    sync_path(path)


def entry_of(
    written: Path,
    file: str,
    rows: pl.DataFrame,
    source: ManifestSource,
    offsets: tuple[int, int],
    before: ManifestEntry | None = None,
) -> ManifestEntry:
    """Return the entry of a file that was written under a temporary name.

    A file without rows has the times of the entry `before`.
    """
    times: Any = rows.select(
        pl.col("time").min().to_physical(), pl.col("time").max().to_physical().alias("max")
    )
    first, last = times.row(0)
    return ManifestEntry(
        file=file,
        sha256=digest_of(written),
        bytes=written.stat().st_size,
        rows=rows.height,
        events=rows.filter(pl.col("kind") != Kind.END).height,
        first_time=rfc3339(first) if before is None or rows.height else before.first_time,
        last_time=rfc3339(last) if before is None or rows.height else before.last_time,
        offsets=offsets,
        source=source,
    )
