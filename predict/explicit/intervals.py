"""The least and the greatest probability of reaching states, over all chains within intervals.

In each state a distribution within the row's intervals is chosen. The best choice is found by strategy
iteration: the values of the present choices are solved for exactly, and a row chooses again only where that
improves its value strictly (Puterman 1994, 7.2). For a maximum the first choice reaches a target from each
state that can, and for a minimum the states that can avoid the targets for ever are 0 from the outset; so the
values of all choices are those of proper ones.
"""

from __future__ import annotations

import numpy as np

from ...rules.model.arrays import F64, I64, Mask
from .chain import ExplicitChain
from .solve import can_reach, reach_of_rows

_BETTER = 1e-12
"""The least improvement for which a row chooses again."""
_ROUNDING = 1e-12
"""Differences of probabilities up to this one are taken as 0; numbers of a file are not, however small."""
_ROUNDS_MAX = 10_000


def reach_bounds(chain: ExplicitChain, targets: Mask) -> tuple[F64, F64]:
    """Return for each state the least and the greatest probability that a target is reached."""
    rows = _Rows(chain)
    return rows.least(targets), rows.greatest(targets)


def reach_bounds_within(chain: ExplicitChain, targets: Mask, steps: int) -> tuple[F64, F64]:
    """Return the same for at most that many steps; each step has a choice of its own."""
    rows = _Rows(chain)
    ends: list[F64] = []
    for sign in (1.0, -1.0):
        values = targets.astype(np.float64)
        for _ in range(steps):
            values = np.where(targets, 1.0, rows.expected(rows.choose(sign * values), values))
        ends.append(values)
    return ends[0], ends[1]


class _Rows:
    """The rows of a chain of intervals, each end as near as the other ends of its row allow."""

    def __init__(self, chain: ExplicitChain) -> None:
        self._starts, self._targets, self._sources = chain.starts, chain.targets, chain.sources
        least = np.add.reduceat(chain.low, chain.starts[:-1])[self._sources] - chain.low
        most = np.add.reduceat(chain.high, chain.starts[:-1])[self._sources] - chain.high
        self._low = np.maximum(chain.low, _rounded(1 - most))
        slack = _rounded(1 - least - self._low)
        self._high = np.maximum(self._low, np.minimum(chain.high, self._low + slack))

    def least(self, targets: Mask) -> F64:
        """Return the least probability of reaching a target from each state."""
        avoiding = self._avoiding(targets)
        distance = np.where(avoiding, 0.0, 1.0)
        return self._best(targets, avoiding, self.choose(distance), 1.0)

    def greatest(self, targets: Mask) -> F64:
        """Return the greatest probability of reaching a target from each state."""
        used = self._high > 0
        possible = can_reach(self._sources[used], self._targets[used], targets)
        distance = _distances(self._sources[used], self._targets[used], targets)
        return self._best(targets, ~possible, self.choose(distance), -1.0)

    def _best(self, targets: Mask, never: Mask, shares: F64, sign: float) -> F64:
        """Return the values of the best choices, which make `sign` times the value least."""
        for _ in range(_ROUNDS_MAX):
            values = reach_of_rows(self._starts, self._targets, shares, targets, never)
            chosen = self.choose(sign * values)
            gain = sign * (values - self.expected(chosen, values))
            better = (gain > _BETTER) & ~targets & ~never
            if not better.any():
                return values
            shares = np.where(better[self._sources], chosen, shares)
        raise AssertionError("strategy iteration did not end")

    def _avoiding(self, targets: Mask) -> Mask:
        """Return the states of which some choice never reaches a target: the greatest such set."""
        inside = ~targets
        while True:
            stays = (
                np.add.reduceat(np.where(inside[self._targets], self._high, 0.0), self._starts[:-1])
                >= 1 - _ROUNDING
            )
            leaves = np.bincount(self._sources, weights=(self._low > 0) & ~inside[self._targets]) > 0
            smaller = inside & stays & ~leaves
            if (smaller == inside).all():
                return inside
            inside = smaller

    def choose(self, costs: F64) -> F64:
        """Return in each row the distribution of the least expected cost."""
        order = np.lexsort((costs[self._targets], self._sources))
        room = (self._high - self._low)[order]
        before = np.cumsum(room) - room
        before -= np.repeat(before[self._starts[:-1]], np.diff(self._starts))
        left = (1 - np.add.reduceat(self._low, self._starts[:-1]))[self._sources]
        shares = self._low.copy()
        shares[order] += np.minimum(_rounded(left - before), room)
        return shares

    def expected(self, shares: F64, values: F64) -> F64:
        """Return the expected value after one step from each state."""
        return np.add.reduceat(shares * values[self._targets], self._starts[:-1])


def _rounded(differences: F64) -> F64:
    """Return differences without those that rounding may have made."""
    return np.where(differences > _ROUNDING, differences, 0.0)


def _distances(sources: I64, targets: I64, goal: Mask) -> F64:
    """Return the fewest transitions from each state to a goal; infinite where there is no path."""
    distances = np.where(goal, 0.0, np.inf)
    while True:
        nearer = distances.copy()
        np.minimum.at(nearer, sources, distances[targets] + 1)
        if (nearer == distances).all():
            return distances
        distances = nearer
