"""The probability of reaching states: graph analysis, then sparse LU (Baier and Katoen 2008, 10.1)."""

from __future__ import annotations

import numpy as np
import scipy

from ...rules.model.arrays import F64, I64, Mask
from .chain import ExplicitChain


def reach(chain: ExplicitChain, targets: Mask) -> F64:
    """Return for each state the probability that a target is reached, itself included.

    The chain has no intervals. Whether a probability is 0 or 1 is decided on the graph, so it is exact.
    """
    assert not chain.has_intervals
    return reach_of_rows(chain.starts, chain.targets, chain.low, targets)


def reach_within(chain: ExplicitChain, targets: Mask, steps: int) -> F64:
    """Return for each state the probability that a target is reached after at most that many steps."""
    assert not chain.has_intervals
    matrix = _matrix(chain.starts, chain.targets, chain.low)
    values = targets.astype(np.float64)
    for _ in range(steps):
        values = np.where(targets, 1.0, matrix @ values)
    return values


def reach_of_rows(starts: I64, targets: I64, shares: F64, goal: Mask, never: Mask | None = None) -> F64:
    """Return the same for rows of probabilities; states of `never` are taken not to reach a goal."""
    used = shares > 0
    if never is not None:
        used &= ~np.repeat(never, np.diff(starts))
    sources = np.repeat(np.arange(len(goal)), np.diff(starts))[used]
    possible = can_reach(sources, targets[used], goal)
    inner = ~goal[sources]
    # Only a state that can first come to one without a path to a target may miss the targets.
    sure = ~can_reach(sources[inner], targets[used][inner], ~possible)
    values = sure.astype(np.float64)
    unsure = np.flatnonzero(possible & ~sure)
    if len(unsure):
        matrix = _matrix(starts, targets, shares)[unsure]
        system = scipy.sparse.identity(len(unsure), format="csc") - matrix[:, unsure].tocsc()
        values[unsure] = scipy.sparse.linalg.splu(system.tocsc()).solve(np.asarray(matrix @ values).ravel())
    return np.clip(values, 0.0, 1.0)


def can_reach(sources: I64, targets: I64, goal: Mask) -> Mask:
    """Return which states have a path to a goal over the transitions from `sources` to `targets`."""
    count = len(goal)
    goals = np.flatnonzero(goal)
    if not len(goals):
        return np.zeros(count, dtype=np.bool_)
    # One search from a node before all goals, over the transitions backwards.
    rows = np.concatenate([targets, np.full(len(goals), count)])
    columns = np.concatenate([sources, goals])
    graph = scipy.sparse.csr_matrix(
        (np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(count + 1, count + 1)
    )
    order = scipy.sparse.csgraph.breadth_first_order(graph, count, return_predecessors=False)
    found = np.zeros(count + 1, dtype=np.bool_)
    found[order] = True
    return found[:count]


def _matrix(starts: I64, targets: I64, shares: F64) -> scipy.sparse.csr_matrix:
    count = len(starts) - 1
    return scipy.sparse.csr_matrix((shares, targets, starts), shape=(count, count))
