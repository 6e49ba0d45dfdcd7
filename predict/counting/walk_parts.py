"""Walks as they are collected, a part at a time, and their order in the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ...rules.model.arrays import I32, I64, U8, Mask


@dataclass(frozen=True, slots=True)
class WalkPart:
    """Walks of some sequences, whose contexts are pairs of a symbol and a row as in `Sequences`."""

    symbols: I32
    rows: I32
    violated: Mask
    lengths: I64
    sessions: I32
    agents: I32
    endings: U8


class WalkStore(Protocol):
    """A store of the parts of walks by rule."""

    def append(self, rule: int, part: WalkPart) -> None:
        """Add a part."""
        ...

    def parts(self, rule: int) -> Iterator[WalkPart]:
        """Return the parts of a rule in the order in which they were added."""
        ...


@dataclass(slots=True)
class WalkMemory:
    """A store in memory."""

    found: dict[int, list[WalkPart]] = field(default_factory=dict[int, list[WalkPart]])

    def append(self, rule: int, part: WalkPart) -> None:
        """Add a part."""
        self.found.setdefault(rule, []).append(part)

    def parts(self, rule: int) -> Iterator[WalkPart]:
        """Return the parts of a rule in the order in which they were added."""
        return iter(self.found.get(rule, ()))


def joined(parts: Iterable[WalkPart], rank: I64) -> WalkPart:
    """Return all sequences, ordered by the ranks of their sessions; those of one session keep their order."""
    every = list(parts)
    sessions = np.concatenate([np.empty(0, dtype=np.int32), *(part.sessions for part in every)])
    lengths = np.concatenate([np.empty(0, dtype=np.int64), *(part.lengths for part in every)])
    order = np.argsort(rank[sessions], kind="stable")
    starts = np.cumsum(lengths) - lengths
    sizes = lengths[order]
    shift = np.repeat(starts[order] - (np.cumsum(sizes) - sizes), sizes)
    places = np.arange(int(sizes.sum()), dtype=np.int64) + shift
    return WalkPart(
        symbols=np.concatenate([np.empty(0, np.int32), *(part.symbols for part in every)])[places],
        rows=np.concatenate([np.empty(0, np.int32), *(part.rows for part in every)])[places],
        violated=np.concatenate([np.empty(0, np.bool_), *(part.violated for part in every)])[places],
        lengths=sizes,
        sessions=rank[sessions[order]].astype(np.int32),
        agents=np.concatenate([np.empty(0, np.int32), *(part.agents for part in every)])[order],
        endings=np.concatenate([np.empty(0, np.uint8), *(part.endings for part in every)])[order],
    )
