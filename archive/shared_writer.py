"""A live archive to which several processes write, each the partitions that it is assigned.

The manifest has a checkpoint for each partition. A line `archiving` names the range of offsets whose files
are written next, and `archived` closes it; if a process ends in between, the next one writes that range
again. A lock on the file `.lock` admits one process at a time. The operating system releases it when the
process ends; the folder must be on a file system that supports locks.
"""

from __future__ import annotations

import fcntl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import polars as pl

from ..schemas.frames.events import event_frame
from ..schemas.time import rfc3339
from .chunk import ArchiveCheckpoint, Chunk, RuleTexts
from .disk import disk_errors, sync_path
from .manifest import (
    LOCK,
    MANIFEST,
    CheckpointReached,
    ManifestEntry,
    ManifestSource,
    RangeStarted,
    append_lines,
    parse_line,
)
from .rule_sets import write_rule_set
from .writer import CHAIN_COLUMN, RULES_COLUMN, write_files


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files that a commit entered into the manifest: their number, bytes and rows."""

    files: int
    bytes: int
    rows: int


@dataclass(slots=True)
class _Partition:
    """The manifest's lines on one partition: its checkpoint, and the files that were entered after that."""

    checkpoint: ArchiveCheckpoint | None = None
    files: set[str] = field(default_factory=set[str])


class LiveArchive:
    """The archive in the folder `root`, as one of its writers sees it.

    `name` and `sha256` identify the source. Every method except `checkpoint` needs the `lock`.
    """

    def __init__(self, root: Path, name: str, sha256: str) -> None:
        self._root, self._name, self._sha256 = root, name, sha256
        self._partitions: dict[int, _Partition] = {}
        self._read = self._lines = 0
        self._manifest: BinaryIO | None = None
        self._files: list[ManifestEntry] = []

    @contextmanager
    def lock(self) -> Generator[None]:
        """Wait for the lock and hold it inside."""
        self._root.mkdir(parents=True, exist_ok=True)
        path = self._root / MANIFEST
        with (self._root / LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            is_new = not path.exists()
            # Closing the manifest flushes it.
            with disk_errors(path), path.open("ab") as self._manifest:
                if is_new:
                    sync_path(self._root)
                if self._refresh():
                    # The writer of this line crashed in the middle of it.
                    self._manifest.truncate(self._read)
                try:
                    yield
                finally:
                    self._manifest, self._files = None, []

    def checkpoint(self, partition: int) -> ArchiveCheckpoint | None:
        """Return the checkpoint of a partition, None if the archive has nothing of it."""
        self._refresh()
        return self._partition(partition).checkpoint

    def write_rules(self, digest: str, packs: RuleTexts) -> None:
        """Write a rule set to the archive unless it is there."""
        write_rule_set(self._root, digest, packs)

    def begin(self, chunk: Chunk) -> None:
        """Enter that the files of the chunk are written next."""
        self._append({"archiving": chunk.offsets, "source": asdict(self._source(chunk.partition))}, sync=True)

    def write(self, chunk: Chunk) -> None:
        """Write the files of the chunk, except those that are in the manifest; `commit` enters them."""
        columns = [pl.Series(RULES_COLUMN, chunk.rules, pl.String)]
        if chunk.chains:
            columns.append(pl.Series(CHAIN_COLUMN, chunk.chains, pl.String))
        events = event_frame(chunk.events).with_columns(columns)
        known = self._partition(chunk.partition).files
        self._files = write_files(self._root, events, self._source(chunk.partition), chunk.offsets, known)

    def commit(self) -> WrittenFiles:
        """Enter the written files into the manifest."""
        files, self._files = self._files, []
        self._append(*map(asdict, files), sync=True)
        return WrittenFiles(len(files), sum(file.bytes for file in files), sum(file.rows for file in files))

    def finish(self, chunk: Chunk) -> ArchiveCheckpoint:
        """Enter that the archive contains the chunk, and return its new checkpoint."""
        checkpoint = chunk.checkpoint
        self._append(
            {
                "archived": {"next": checkpoint.next, "first": checkpoint.first, "mark": checkpoint.mark},
                "watermark": None if chunk.watermark is None else rfc3339(chunk.watermark),
                "source": asdict(self._source(chunk.partition)),
            },
            sync=False,
        )
        return checkpoint

    def _source(self, partition: int) -> ManifestSource:
        return ManifestSource(self._name, self._sha256, partition=partition)

    def _partition(self, number: int) -> _Partition:
        return self._partitions.setdefault(number, _Partition())

    def _append(self, *lines: Mapping[str, object], sync: bool) -> None:
        assert self._manifest is not None, "needs the lock"
        append_lines(self._manifest, lines, sync=sync)

    def _refresh(self) -> bool:
        """Read the lines that are new, and return whether the last one is incomplete."""
        path = self._root / MANIFEST
        try:
            with path.open("rb") as manifest:
                manifest.seek(self._read)
                data = manifest.read()
        except FileNotFoundError:
            return False
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._lines += 1
            self._apply(line, f"{path}:{self._lines}")
        self._read += len(data) - len(rest)
        return bool(rest)

    def _apply(self, line: bytes, where: str) -> None:
        """Apply a line of the manifest, if it is of this source."""
        match parse_line(line, where):
            case ManifestEntry(file=file, source=source) if self._matches(source):
                self._partition(source.partition).files.add(file)
            case RangeStarted(source, offsets) if self._matches(source):
                partition = self._partition(source.partition)
                before = partition.checkpoint or ArchiveCheckpoint(offsets[0], offsets[0])
                partition.checkpoint = replace(before, pending=offsets)
            case CheckpointReached(source, checkpoint, _) if self._matches(source):
                self._partitions[source.partition] = _Partition(checkpoint)
            case _:
                pass

    def _matches(self, source: ManifestSource) -> bool:
        return (source.name, source.sha256) == (self._name, self._sha256)
