"""Minimisation: equivalent states, and equivalent letters, become one.

It is Moore's partition refinement. The first partition separates states by closing reading, residual and row
of outputs; `eventually p` would otherwise close wrongly after a restart.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .limits import Work


def blocks(visible: Sequence[Hashable], rows: Sequence[Sequence[int]], work: Work) -> list[int]:
    """Return the block of each state, numbered in the order of the states; state 0 is in block 0.

    States with different `visible[s]` are never equivalent; `rows[s]` has the successor for each letter.
    """
    block = _numbered(visible)
    edges = sum(map(len, rows))
    while True:
        work.spend(1 + (len(rows) + edges) // 4)
        refined = _numbered([(block[s], tuple(block[t] for t in row)) for s, row in enumerate(rows)])
        if refined == block:
            return block
        block = refined


def columns(rows: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the class of each column: columns that agree in every row share a class."""
    return _numbered([tuple(column) for column in zip(*rows, strict=True)])


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    number: dict[Hashable, int] = {}
    return [number.setdefault(key, len(number)) for key in keys]
