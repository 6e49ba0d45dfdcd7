"""Minimisation: states and letters that nothing can tell apart become one.

Moore's partition refinement. The first partition separates what a state shows: its closing reading, its
residual and its row of outputs; `eventually p` would otherwise close wrongly after a restart.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .limits import Work


def blocks(shown: Sequence[Hashable], rows: Sequence[Sequence[int]], work: Work) -> list[int]:
    """The block of each state, numbered in the order of the states; state 0 is in block 0.

    `shown[s]` is what tells states apart at once and `rows[s]` the successor for each letter.
    """
    block = _numbered(shown)
    edges = sum(map(len, rows))
    while True:
        work.spend(1 + (len(rows) + edges) // 4)
        refined = _numbered([(block[s], tuple(block[t] for t in row)) for s, row in enumerate(rows)])
        if refined == block:
            return block
        block = refined


def columns(rows: Sequence[Sequence[Hashable]]) -> list[int]:
    """The class of each column: columns that agree in every row share one."""
    return _numbered([tuple(column) for column in zip(*rows, strict=True)])


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    number: dict[Hashable, int] = {}
    return [number.setdefault(key, len(number)) for key in keys]
