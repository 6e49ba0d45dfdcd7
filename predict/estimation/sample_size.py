"""The sample sizes of Pro2Guard's stopping rule (algorithm 1 and theorem 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def pac_local(counts: Sequence[Sequence[int]], eps: float = 0.1, delta: float = 0.05) -> list[float | None]:
    """Return H*_p for each state p, or None for a state that was never left.

    H*_p = max_q (2 / eps^2) ln(2 / delta') [1/4 - (|1/2 - n_pq / n_p| - 2 eps / 3)^2], delta' = delta / |S|.
    The maximum stands outside the bracket, as in the paper's proof: inside, as printed in the algorithm, it
    takes the smallest bound. n_p must be at least (1.1 B)^2 H*_p, where B bounds how far errors spread.
    """
    if not (0 < eps < 1 and 0 < delta < 1):
        raise ValueError("eps and delta lie between 0 and 1")
    # The square of a small eps is 0.
    scale = 2 / eps / eps * math.log(2 * len(counts) / delta) if counts else 0.0
    return [_bound(row, scale, eps) if sum(row) else None for row in counts]


def _bound(counts: Sequence[int], scale: float, eps: float) -> float:
    total = sum(counts)
    return scale * max(0.25 - (abs(0.5 - count / total) - 2 * eps / 3) ** 2 for count in counts)


def spread(rows: Sequence[Sequence[float]]) -> float:
    """Return B of the rule: the greatest, over targets, of |S| / Cond; infinite where some Cond is 0.

    For a target, the undecided states are the other states that can reach it. Cond is the least probability,
    over these, of having left the undecided states within |S| steps. The paper leaves the definition to its
    reference.
    """
    matrix = np.array(rows, dtype=np.float64)
    size = len(matrix)
    worst = 0.0
    for target in range(size):
        undecided = _can_reach(matrix, target)
        undecided[target] = False
        if not undecided.any():
            continue
        inner = matrix[np.ix_(undecided, undecided)]
        staying = np.ones(len(inner))
        for _ in range(size):
            staying = inner @ staying
        leaving = 1 - float(staying.max())
        worst = max(worst, size / leaving if leaving > 0 else math.inf)
    return worst


def _can_reach(matrix: NDArray[np.float64], target: int) -> NDArray[np.bool_]:
    """Return which states have a path to the target."""
    found = np.zeros(len(matrix), dtype=np.bool_)
    found[target] = True
    for _ in range(len(matrix)):
        found |= (matrix[:, found] > 0).any(axis=1)
    return found
