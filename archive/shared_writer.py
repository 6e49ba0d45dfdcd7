"""An archive to which several live processes add in turns, each the partitions that it has then.

The manifest says how far the archive has come with every partition. A line `archiving` names the range of
offsets of which files are written next, and `archived` closes it; so a process that ends in between leaves
behind which range is to be written again. Only one process at a time has its turn, by a lock on the file
`.lock`, which the system lets go when the process ends; the folder must be on a file system that locks.
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
from .rule_sets import write_rule_set
from .writer import (
    MANIFEST,
    RULES_COLUMN,
    CheckpointReached,
    ManifestEntry,
    ManifestSource,
    RangeStarted,
    disk_errors,
    enter,
    read_line,
    sync_path,
    write_files,
)

_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """What was entered into the manifest: files, their bytes and rows."""

    files: int
    bytes: int
    rows: int


@dataclass(slots=True)
class _Known:
    """What the manifest says of a partition: how far it is, and the files that were entered behind that."""

    standing: ArchiveCheckpoint | None = None
    files: set[str] = field(default_factory=set[str])


class LiveArchive:
    """The archive in the folder `root`, as one process adds to it what it reads of a source.

    `name` and `sha256` identify the source. Every method but `standing` is to be called inside a `turn`.
    """

    def __init__(self, root: Path, name: str, sha256: str) -> None:
        self._root, self._name, self._sha256 = root, name, sha256
        self._known: dict[int, _Known] = {}
        self._read = self._lines = 0
        self._manifest: BinaryIO | None = None
        self._files: list[ManifestEntry] = []

    @contextmanager
    def turn(self) -> Generator[None]:
        """Wait for the turn and have it: nobody else adds to the archive inside."""
        self._root.mkdir(parents=True, exist_ok=True)
        path = self._root / MANIFEST
        with (self._root / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            is_new = not path.exists()
            # To close the manifest writes what is left of it.
            with disk_errors(path), path.open("ab") as self._manifest:
                if is_new:
                    sync_path(self._root)
                if self._refresh():
                    # Who wrote this line has ended in the middle of it.
                    self._manifest.truncate(self._read)
                try:
                    yield
                finally:
                    self._manifest, self._files = None, []

    def standing(self, partition: int) -> ArchiveCheckpoint | None:
        """Return how far the archive has come with a partition, None where it has nothing of it."""
        self._refresh()
        return self._of(partition).standing

    def keep_rules(self, digest: str, packs: RuleTexts) -> None:
        """Write a rule set into the archive, where it is not there yet."""
        write_rule_set(self._root, digest, packs)

    def begin(self, piece: Chunk) -> None:
        """Enter that files of the piece are written next."""
        self._enter({"archiving": piece.offsets, "source": asdict(self._origin(piece.partition))}, sync=True)

    def put(self, piece: Chunk) -> None:
        """Write the files of the piece, but for those that were entered before; `enter` enters them."""
        rules = pl.Series(RULES_COLUMN, piece.rules, pl.String)
        events = event_frame(piece.events).with_columns(rules)
        known = self._of(piece.partition).files
        self._files = write_files(self._root, events, self._origin(piece.partition), piece.offsets, known)

    def enter(self) -> WrittenFiles:
        """Enter the files that were put."""
        files, self._files = self._files, []
        self._enter(*map(asdict, files), sync=True)
        return WrittenFiles(len(files), sum(file.bytes for file in files), sum(file.rows for file in files))

    def finish(self, piece: Chunk) -> ArchiveCheckpoint:
        """Enter that the piece is in the archive; gives how far that has come."""
        standing = piece.standing
        self._enter(
            {
                "archived": {"next": standing.next, "first": standing.first, "mark": standing.mark},
                "watermark": None if piece.watermark is None else rfc3339(piece.watermark),
                "source": asdict(self._origin(piece.partition)),
            },
            sync=False,
        )
        return standing

    def _origin(self, partition: int) -> ManifestSource:
        return ManifestSource(self._name, self._sha256, partition=partition)

    def _of(self, partition: int) -> _Known:
        return self._known.setdefault(partition, _Known())

    def _enter(self, *lines: Mapping[str, object], sync: bool) -> None:
        assert self._manifest is not None, "only inside a turn"
        enter(self._manifest, lines, sync=sync)

    def _refresh(self) -> bool:
        """Read what was entered since the last time; says whether a line is there in part."""
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
            self._learn(line, f"{path}:{self._lines}")
        self._read += len(data) - len(rest)
        return bool(rest)

    def _learn(self, line: bytes, where: str) -> None:
        """Know what a line of the manifest says of this source."""
        match read_line(line, where):
            case ManifestEntry(file=file, source=source) if self._is_own(source):
                self._of(source.partition).files.add(file)
            case RangeStarted(source, offsets) if self._is_own(source):
                known = self._of(source.partition)
                known.standing = replace(
                    known.standing or ArchiveCheckpoint(offsets[0], offsets[0]), writing=offsets
                )
            case CheckpointReached(source, standing, _) if self._is_own(source):
                self._known[source.partition] = _Known(standing)
            case _:
                pass

    def _is_own(self, source: ManifestSource) -> bool:
        return (source.name, source.sha256) == (self._name, self._sha256)
