"""Random chain graphs for tests, and every continuation of a node by plain enumeration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tracline.predict.explaining.chain_graph import ENDED_NODE, GOAL_NODE, ChainGraph


def random_graph(rng: np.random.Generator, nodes: int = 5, symbols: int = 3) -> ChainGraph:
    """Return a random graph with some impossible symbols; the last column is the end."""
    probabilities = rng.dirichlet(np.ones(symbols + 1), nodes) * (rng.random((nodes, symbols + 1)) < 0.8)
    probabilities[:, -1] += 1 - probabilities.sum(axis=1)
    targets = rng.integers(0, nodes, (nodes, symbols + 1))
    targets[rng.random(targets.shape) < 0.2] = GOAL_NODE
    targets[:, -1] = rng.choice([ENDED_NODE, GOAL_NODE], nodes, p=[0.8, 0.2])
    return ChainGraph(probabilities, targets.astype(np.int64))


def continuations(graph: ChainGraph, node: int, within: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the next symbols and the probability of every continuation that violates within the horizon."""
    if not within:
        return
    for place, probability in enumerate(graph.probabilities[node].tolist()):
        target = int(graph.targets[node, place])
        if target == GOAL_NODE:
            yield (place,), probability
        elif target != ENDED_NODE:
            for nexts, rest in continuations(graph, target, within - 1):
                yield (place, *nexts), probability * rest
