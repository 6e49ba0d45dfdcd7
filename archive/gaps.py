"""Gaps of an archive: offset ranges of its sources that its manifest says nothing of."""

from __future__ import annotations

from collections.abc import Iterable

from .writer import Manifest


def gaps(manifest: Manifest) -> int:
    """Return how many ranges of offsets are missing between the files of each source and partition.

    A range may stand in several files, one for each day. What lies before the first range is missing only
    in a source that was imported whole, whose offsets begin at 0; what lies after the last is not known.
    """
    ranges: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for entry in manifest.entries:
        source = entry.source
        ranges.setdefault((source.name, source.sha256, source.partition), []).append(entry.offsets)
    whole = {(source.name, source.sha256, source.partition) for source in manifest.finished}
    return sum(_holes(own, 0 if source in whole else None) for source, own in ranges.items())


def _holes(ranges: Iterable[tuple[int, int]], begin: int | None) -> int:
    """How often a range (first and last offset) begins after the one expected next; at first `begin`."""
    holes, expected = 0, begin
    for first, last in sorted(ranges):
        holes += expected is not None and first > expected
        expected = max(last + 1, expected or 0)
    return holes
