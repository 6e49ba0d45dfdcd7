"""The most probable continuations to a goal, such as a verdict: the shortest paths over -log P.

The search goes through partial paths by the probability of their best completion. That is exact, because the
best completions are computed first, backwards from the goal (A*; Hart, Nilsson and Raphael, 1968).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from ...rules.model.arrays import F64
from .chain_graph import GOAL_NODE, ChainGraph

PATHS_MAX = 100
"""The most paths of one risk."""


@dataclass(frozen=True, slots=True)
class GoalPath:
    """One continuation from a node to the goal: its next symbols, and the nodes that it comes to before."""

    nexts: tuple[int, ...]
    nodes: tuple[int, ...]
    probability: float


def likeliest_paths(graph: ChainGraph, start: int, within: int | None, number: int) -> list[GoalPath]:
    """Return so many of the most probable continuations to the goal within the horizon, the likeliest first.

    Equally probable ones come the shorter first, then by the numbers of their symbols.
    """
    assert 0 < number <= PATHS_MAX
    best = _best_completions(graph, within)
    found: list[GoalPath] = []
    # Of the ways to one node with as many events left, no further ones than these can be among the likeliest.
    ways: Counter[tuple[int, int]] = Counter()
    # Probability of the best completion, events, next symbols, nodes, and the probability so far.
    heap: list[tuple[float, int, tuple[int, ...], tuple[int, ...], float]] = [(-1.0, 0, (), (start,), 1.0)]
    while heap and len(found) < number:
        _, length, nexts, nodes, probability = heappop(heap)
        if nodes[-1] == GOAL_NODE or length == within:
            between = nodes[1:-1] if nodes[-1] == GOAL_NODE else nodes[1:]
            found.append(GoalPath(nexts, between, probability))
            continue
        state = nodes[-1], 0 if within is None else length
        ways[state] += 1
        if ways[state] > number:
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
    values = [np.zeros(len(graph.targets)) if within is None else graph.at_horizon]
    while within is None or len(values) <= within:
        values.append((graph.probabilities * graph.gains(values[-1])).max(axis=1, initial=0.0))
        if within is None and np.array_equal(values[-1], values[-2]):
            return values[-1:]
    return values
