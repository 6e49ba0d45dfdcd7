"""Small sources that an import writes into the archive together: a file a day for all, not one for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from ...archive.manifest import ManifestEntry, ManifestSource
from ...archive.writer import ArchiveWriter
from ...schemas.frames.events import event_frame
from ..prepare.chat_frames import FRAME_CHARS_MAX, FRAME_EVENTS_MAX, ChatBatch

SMALL_ROWS = 1_000
"""Events of a source from which on it has files of its own: then a file costs little beside its content."""
MEMBERS_MAX = 10_000
"""Sources that are written together at most."""


@dataclass(slots=True)
class SmallChats:
    """Chat logs that were read and are not written yet; `write` writes them."""

    archive: ArchiveWriter
    members: list[tuple[ManifestSource, ChatBatch | None]] = field(
        default_factory=list[tuple[ManifestSource, ChatBatch | None]]
    )
    size: int = 0
    chars: int = 0

    def add(self, origin: ManifestSource, batch: ChatBatch | None) -> list[ManifestEntry]:
        """Add a whole chat log, None where nothing of it is to be judged; entries where that wrote files."""
        self.members.append((origin, batch))
        if batch is not None:
            self.size += batch.size
            self.chars += batch.chars
        full = self.size >= FRAME_EVENTS_MAX or self.chars >= FRAME_CHARS_MAX
        return self.write() if full or len(self.members) >= MEMBERS_MAX else []

    def write(self) -> list[ManifestEntry]:
        """Write what was added, and enter that it is in the archive whole."""
        members, self.members, self.size, self.chars = self.members, [], 0, 0
        told = [(origin, batch) for origin, batch in members if batch is not None]
        entries: list[ManifestEntry] = []
        if len(told) == 1:
            (origin, batch), *_ = told
            entries = self.archive.write(event_frame(batch.events), origin, (batch.first, batch.last))
        elif told:
            events = event_frame([event for _, batch in told for event in batch.events])
            entries = self.archive.write_combined(events, [origin for origin, _ in told])
        for origin, batch in members:
            if batch is None or len(told) == 1:
                self.archive.finish(origin)
        return entries


def together(rows: Sequence[int], rows_max: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges (first, last) of dumps that are written at once, given how many rows each has.

    A dump that is not small is a range of its own.
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
    """Return how many rows each of the files has in `candidates`, by its column `file`."""
    counted = candidates.group_by("file").len().collect(engine="streaming")
    rows: dict[int, int] = dict(counted.iter_rows())
    return [rows.get(number, 0) for number in range(files)]
