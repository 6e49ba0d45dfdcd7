"""Small sources that an import writes to the archive together: one file per day for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from ...archive.manifest import ManifestEntry, ManifestSource
from ...archive.writer import ArchiveWriter
from ...schemas.frames.events import event_frame
from ..prepare.chat_frames import FRAME_CHARS_MAX, FRAME_EVENTS_MAX, ChatBatch

SMALL_ROWS = 1_000
"""Minimum events of a source with separate files: then the cost of a file is small."""
MEMBERS_MAX = 10_000
"""Maximum number of sources that are written together."""


@dataclass(slots=True)
class SmallChats:
    """Chat logs that were read but not yet written; `write` writes them."""

    archive: ArchiveWriter
    members: list[tuple[ManifestSource, ChatBatch | None]] = field(
        default_factory=list[tuple[ManifestSource, ChatBatch | None]]
    )
    size: int = 0
    chars: int = 0

    def add(self, source: ManifestSource, batch: ChatBatch | None) -> list[ManifestEntry]:
        """Add a whole chat log (None if it has no events), and return the entries of files written."""
        self.members.append((source, batch))
        if batch is not None:
            self.size += batch.size
            self.chars += batch.chars
        full = self.size >= FRAME_EVENTS_MAX or self.chars >= FRAME_CHARS_MAX
        return self.write() if full or len(self.members) >= MEMBERS_MAX else []

    def write(self) -> list[ManifestEntry]:
        """Write the added sources, and enter that they are finished."""
        members, self.members, self.size, self.chars = self.members, [], 0, 0
        filled = [(source, batch) for source, batch in members if batch is not None]
        entries: list[ManifestEntry] = []
        if len(filled) == 1:
            (source, batch), *_ = filled
            entries = self.archive.write(event_frame(batch.events), source, (batch.first, batch.last))
        elif filled:
            events = event_frame([event for _, batch in filled for event in batch.events])
            entries = self.archive.write_combined(events, [source for source, _ in filled])
        for source, batch in members:
            if batch is None or len(filled) == 1:
                self.archive.finish(source)
        return entries


def together(rows: Sequence[int], rows_max: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges (first, last) of dumps to write together, given the rows of each.

    A dump that is not small is a separate range.
    """
    first = size = 0
    for number, count in enumerate(rows):
        is_small = count < SMALL_ROWS
        if number > first and (not is_small or size >= rows_max or number - first >= MEMBERS_MAX):
            yield first, number - 1
            first, size = number, 0
        size += count
        if not is_small:
            yield number, number
            first, size = number + 1, 0
    if first < len(rows):
        yield first, len(rows) - 1


def rows_by_file(candidates: pl.LazyFrame, files: int) -> list[int]:
    """Return the number of rows of each file in `candidates`, by the column `file`."""
    counted = candidates.group_by("file").len().collect(engine="streaming")
    rows: dict[int, int] = dict(counted.iter_rows())
    return [rows.get(number, 0) for number in range(files)]
