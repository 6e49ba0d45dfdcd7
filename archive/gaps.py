"""Gaps of an archive: offset ranges of its sources that its manifest does not list."""

from __future__ import annotations

from collections.abc import Iterable

from .manifest import Manifest


def gaps(manifest: Manifest) -> int:
    """Return how many ranges of offsets are missing between the files of each source and partition.

    A range may be in several files, one for each day. The offsets before the first range are missing only in
    a source that was imported whole, whose offsets start at 0; those after the last range are unknown.
    """
    ranges: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for entry in manifest.entries:
        source = entry.source
        ranges.setdefault((source.name, source.sha256, source.partition), []).append(entry.offsets)
    whole = {(source.name, source.sha256, source.partition) for source in manifest.finished}
    return sum(_holes(listed, 0 if source in whole else None) for source, listed in ranges.items())


def _holes(ranges: Iterable[tuple[int, int]], start: int | None) -> int:
    """Return how many ranges (first and last offset) begin after the expected offset, at first `start`."""
    holes, expected = 0, start
    for first, last in sorted(ranges):
        holes += expected is not None and first > expected
        expected = max(last + 1, expected or 0)
    return holes
