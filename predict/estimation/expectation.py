"""Expectations over the next symbol of every pair of a symbol and a row, without writing out the product.

The levels of an estimate are applied one after another: that of symbols as one dense product, finer ones as
sparse corrections of the pairs that have counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ...rules.model.arrays import F64, I32, I64
from ..chain.contexts import Contexts
from ..chain.learned import Counted
from ..chain.steps import CUT_STEP
from .nested import NestedEstimate, groups_of


@dataclass(frozen=True, slots=True)
class _Correction:
    """One level at the nodes that have counts: their totals, and the counts by [node, value]."""

    nodes: I64
    counts: sparse.csr_array[Any, Any]
    totals: F64
    kappa: float


class NextSymbolChain:
    """The distribution of the next symbol after each agent, symbol and row.

    A symbol at which the rule becomes unjudged does not follow: the chain is that of sequences that go on.
    """

    def __init__(self, counted: Counted, estimate: NestedEstimate) -> None:
        self._counted, self._estimate = counted, estimate
        self.agents, self.width = max(1, len(counted.agents)), counted.symbols.boundary + 1
        self.rows = len(counted.steps.states)
        self._nodes = _every_node(self.agents, self.width, self.rows)
        self._corrections = [self._correction(level.columns, level.kappa) for level in estimate.levels]
        can_follow = np.ones((self.rows, self.width), dtype=np.float64)
        can_follow[:, :-1] = counted.steps.verdicts != CUT_STEP
        self._can_follow = can_follow
        masks = np.broadcast_to(can_follow.T, (self.agents, self.width, self.rows))
        self._mass = self._expectations(masks)

    def expectations(self, values: F64) -> F64:
        """Return by [agent, symbol, row] the mean of `values[agent, next, row]` over the next symbol."""
        found = self._expectations(values * self._can_follow.T)
        return np.divide(found, self._mass, out=np.zeros_like(found), where=self._mass > 0)

    def probabilities(self, contexts: Contexts) -> F64:
        """Return by [context, next] the distribution of the next symbol of any contexts of the rule."""
        joined = replace(self._counted, contexts=_joined(self._counted.contexts, contexts))
        size = len(self._counted.contexts)
        found = np.tile(self._estimate.top, (len(contexts), 1))
        counts = self._counted.counts
        for level in self._estimate.levels:
            groups = groups_of(joined, level.columns)
            table = sparse.coo_array(
                (counts.counts, (groups[counts.contexts], counts.nexts)), (int(groups.max()) + 1, self.width)
            ).tocsr()
            taken = table[groups[size:]].toarray()
            totals = taken.sum(axis=1, keepdims=True) + level.kappa
            found = np.divide(taken + level.kappa * found, totals, out=np.zeros_like(found), where=totals > 0)
        found *= self._can_follow[contexts.states]
        mass = found.sum(axis=1, keepdims=True)
        return np.divide(found, mass, out=np.zeros_like(found), where=mass > 0)

    def _expectations(self, values: F64) -> F64:
        top = np.einsum("w,awq->aq", self._estimate.top, values)
        found = np.repeat(top[:, None, :], self.width, axis=1).reshape(-1)
        flat = np.ascontiguousarray(values).reshape(-1)
        for each in self._corrections:
            totals = each.totals + each.kappa
            summed = each.counts @ flat + each.kappa * found[each.nodes]
            found[each.nodes] = np.divide(summed, totals, out=np.zeros_like(summed), where=totals > 0)
        return found.reshape(self.agents, self.width, self.rows)

    def _correction(self, columns: tuple[str, ...], kappa: float) -> _Correction:
        """Return a level's counts at all nodes of its groups; without a weight at every node."""
        counted, size = self._counted, len(self._counted.contexts)
        groups = groups_of(replace(counted, contexts=_joined(counted.contexts, self._nodes)), columns)
        counts = counted.counts
        table = sparse.coo_array(
            (counts.counts, (groups[counts.contexts], counts.nexts)), (int(groups.max()) + 1, self.width)
        ).tocsr()
        totals = np.asarray(table.sum(axis=1)).reshape(-1)[groups[size:]]
        nodes = np.flatnonzero((totals > 0) | (kappa == 0))
        taken = table[groups[size:][nodes]].tocoo()
        node = nodes[taken.row]
        place = (node // (self.width * self.rows) * self.width + taken.col) * self.rows + node % self.rows
        shape = len(nodes), len(self._nodes)
        matrix = sparse.coo_array((taken.data.astype(np.float64), (taken.row, place)), shape).tocsr()
        return _Correction(nodes, matrix, totals[nodes].astype(np.float64), kappa)


def _every_node(agents: int, width: int, rows: int) -> Contexts:
    """Return all triples of an agent, a symbol and a row, in order."""
    agent, symbol, row = (axis.reshape(-1).astype(np.int32) for axis in np.indices((agents, width, rows)))
    return Contexts(agent, symbol, row)


def _joined(first: Contexts, second: Contexts) -> Contexts:
    def both(name: str) -> I32:
        return np.concatenate([getattr(first, name), getattr(second, name)])

    return Contexts(both("agents"), both("symbols"), both("states"))
