"""Walks of an archive in files, so that memory does not grow with the archive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from ...predict.counting.walk_parts import WalkPart

_ARRAYS = tuple(each.name for each in fields(WalkPart))


@dataclass(slots=True)
class WalkFiles:
    """A store of walks in a folder, which exists and is the caller's."""

    folder: Path
    counts: dict[int, int] = field(default_factory=dict[int, int])

    def append(self, rule: int, part: WalkPart) -> None:
        """Write a part, unless it has no sequence."""
        if len(part.lengths):
            number = self.counts.get(rule, 0)
            self.counts[rule] = number + 1
            # An archive of arrays would have a checksum of each.
            with self._path(rule, number).open("wb") as out:
                for name in _ARRAYS:
                    np.save(out, getattr(part, name))

    def parts(self, rule: int) -> Iterator[WalkPart]:
        """Read the parts of a rule in the order in which they were written."""
        for number in range(self.counts.get(rule, 0)):
            with self._path(rule, number).open("rb") as arrays:
                yield WalkPart(**{name: np.load(arrays) for name in _ARRAYS})

    def _path(self, rule: int, number: int) -> Path:
        return self.folder / f"walks-{rule:05d}-{number:06d}.npy"
