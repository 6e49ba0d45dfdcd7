"""The product of one rule's chain and its machine, perhaps with a pattern, as a graph over contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I64, Mask

GOAL_NODE, ENDED_NODE = -1, -2
"""Codes of `ChainGraph.targets`: a verdict against the agent, or a pattern that is true whatever comes; and
an end of the sequence without one, or a pattern that cannot become true."""


@dataclass(frozen=True, slots=True)
class ChainGraph:
    """The nodes of a chain, and the node after each next symbol.

    `probabilities[node, next]` is the probability of the next symbol, the end behind all others, and
    `targets[node, next]` is the node after it or a code of this module. `holds` are the nodes that are the
    goal where the horizon ends; None where none is.
    """

    probabilities: F64
    targets: I64
    holds: Mask | None = None

    @property
    def at_horizon(self) -> F64:
        """Return the values of the nodes where the horizon ends: 1 of those that are the goal then."""
        return np.zeros(len(self.targets)) if self.holds is None else self.holds.astype(np.float64)

    def gains(self, values: F64) -> F64:
        """Return by [node, next] the value after the symbol, from those of the nodes."""
        return _gains(self.targets, values)

    def gains_of(self, node: int, values: F64) -> F64:
        """Return one row of the gains."""
        return _gains(self.targets[node], values)

    def risks_within(self, within: int) -> F64:
        """Return the probability of the goal within so many events, by node."""
        values = self.at_horizon
        for _ in range(within):
            values = (self.probabilities * self.gains(values)).sum(axis=1)
        return values


def _gains(targets: I64, values: F64) -> F64:
    """Return the values of the targets: 1 of the goal, and 0 of an end."""
    found = values[np.maximum(targets, 0)]
    found[targets == GOAL_NODE] = 1.0
    found[targets == ENDED_NODE] = 0.0
    return found
