"""Gaps of an archive: offset ranges of its sources that its manifest does not list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..schemas.time import parse_time
from .manifest import Manifest, ManifestEntry, ManifestSource


def gaps(manifest: Manifest, as_of: int | None = None) -> int:
    """Return how many ranges of offsets are missing between the files of each source and partition.

    A range may be in several files, one for each day. The offsets before the first range are missing only in
    a source that was imported whole, whose offsets start at 0; those after the last range are unknown.
    With `as_of`, the last range of a live source is that of its last file with a row up to then, so that the
    number is the same once the archive has grown.
    """
    ranges: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for entry in manifest.entries if as_of is None else _entries_until(manifest, as_of):
        source = entry.source
        ranges.setdefault((source.name, source.sha256, source.partition), []).append(entry.offsets)
    whole = {(source.name, source.sha256, source.partition) for source in manifest.finished}
    return sum(_holes(listed, 0 if source in whole else None) for source, listed in ranges.items())


def _entries_until(manifest: Manifest, as_of: int) -> Iterator[ManifestEntry]:
    """Yield the entries; those of a live source up to its last one with a row up to a time."""
    last: dict[ManifestSource, int] = {}
    for entry in manifest.entries:
        if (parse_time(entry.first_time) or 0) <= as_of:
            last[entry.source] = max(entry.offsets[1], last.get(entry.source, -1))
    for entry in manifest.entries:
        is_live = entry.source in manifest.watermarks
        if not is_live or entry.offsets[0] <= last.get(entry.source, -1):
            yield entry


def _holes(ranges: Iterable[tuple[int, int]], start: int | None) -> int:
    """Return how many ranges (first and last offset) begin after the expected offset, at first `start`."""
    holes, expected = 0, start
    for first, last in sorted(ranges):
        holes += expected is not None and first > expected
        expected = max(last + 1, expected or 0)
    return holes
