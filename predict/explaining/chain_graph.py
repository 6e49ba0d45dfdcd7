"""The product of one rule's chain and its machine, as a graph over contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I64

VIOLATED_NODE, ENDED_NODE = -1, -2
"""Codes of `ChainGraph.targets`: a verdict against the agent, and an end of the sequence without one."""


@dataclass(frozen=True, slots=True)
class ChainGraph:
    """The nodes of a chain, and the node after each next symbol.

    `probabilities[node, next]` is the probability of the next symbol, the end as the last column, and
    `targets[node, next]` is the node after it or a code of this module.
    """

    probabilities: F64
    targets: I64

    def gains(self, values: F64) -> F64:
        """Return by [node, next] the value after the symbol, from those of the nodes."""
        return _gains(self.targets, values)

    def gains_of(self, node: int, values: F64) -> F64:
        """Return one row of the gains."""
        return _gains(self.targets[node], values)

    def risks_within(self, within: int) -> F64:
        """Return the probability of a verdict within so many events, by node."""
        values = np.zeros(len(self.targets))
        for _ in range(within):
            values = (self.probabilities * self.gains(values)).sum(axis=1)
        return values


def _gains(targets: I64, values: F64) -> F64:
    """Return the values of the targets: 1 of a verdict against the agent, and 0 of an end."""
    found = values[np.maximum(targets, 0)]
    found[targets == VIOLATED_NODE] = 1.0
    found[targets == ENDED_NODE] = 0.0
    return found
