"""The most probable violating continuations: the shortest paths over -log P to the verdict.

The search goes through partial paths by the probability of their best completion. That is exact, because the
best completions are computed first, backwards from the verdict (A*; Hart, Nilsson and Raphael, 1968).
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from ...rules.model.arrays import F64
from .chain_graph import VIOLATED_NODE, ChainGraph

PATHS_MAX = 100
"""The most paths of one risk."""


@dataclass(frozen=True, slots=True)
class ViolatingPath:
    """One continuation from a node to the next verdict: its next symbols and the nodes between them."""

    nexts: tuple[int, ...]
    nodes: tuple[int, ...]
    probability: float


def likeliest_paths(graph: ChainGraph, start: int, within: int | None, number: int) -> list[ViolatingPath]:
    """Return so many of the most probable continuations that violate within the horizon, the likeliest first.

    Equally probable ones come the shorter first, then by the numbers of their symbols.
    """
    assert 0 < number <= PATHS_MAX
    best = _best_completions(graph, within)
    found: list[ViolatingPath] = []
    # Probability of the best completion, events, next symbols, nodes, and the probability so far.
    heap: list[tuple[float, int, tuple[int, ...], tuple[int, ...], float]] = [(-1.0, 0, (), (start,), 1.0)]
    while heap and len(found) < number:
        _, length, nexts, nodes, probability = heappop(heap)
        if nodes[-1] == VIOLATED_NODE:
            found.append(ViolatingPath(nexts, nodes[1:-1], probability))
            continue
        if within is not None and length == within:
            continue
        left = best[0] if within is None else best[within - length - 1]
        gains = graph.probabilities[nodes[-1]] * graph.gains_of(nodes[-1], left)
        for place in np.argsort(-gains, kind="stable")[:number].tolist():
            if gains[place] <= 0:
                break
            step = float(graph.probabilities[nodes[-1], place])
            target = int(graph.targets[nodes[-1], place])
            bound = -probability * float(gains[place])
            heappush(heap, (bound, length + 1, (*nexts, place), (*nodes, target), probability * step))
    return found


def _best_completions(graph: ChainGraph, within: int | None) -> list[F64]:
    """Return the probability of the best completion by node: for 0 events, 1 event and so on, or for ever."""
    values = [np.zeros(len(graph.targets))]
    while within is None or len(values) <= within:
        values.append((graph.probabilities * graph.gains(values[-1])).max(axis=1, initial=0.0))
        if within is None and np.array_equal(values[-1], values[-2]):
            return values[-1:]
    return values
