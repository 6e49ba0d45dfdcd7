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
            arrays = {name: getattr(part, name) for name in _ARRAYS}
            np.savez(self._path(rule, number), **arrays)

    def parts(self, rule: int) -> Iterator[WalkPart]:
        """Read the parts of a rule in the order in which they were written."""
        for number in range(self.counts.get(rule, 0)):
            with np.load(self._path(rule, number)) as arrays:
                yield WalkPart(**{name: arrays[name] for name in _ARRAYS})

    def _path(self, rule: int, number: int) -> Path:
        return self.folder / f"walks-{rule:05d}-{number:06d}.npz"
