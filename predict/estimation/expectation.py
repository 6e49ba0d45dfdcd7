"""Expectations over the next symbol of every pair of a symbol and a row, without writing out the product.

The levels of an estimate are applied one after another. Levels at which the machine decides nothing make up
one dense matrix; finer ones are sparse corrections of the pairs that have counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
import scipy

from ...rules.model.arrays import F64, I32, I64
from ..chain.contexts import Contexts
from ..chain.learned import Counted
from ..chain.steps import CUT_STEP
from .nested import NestedEstimate, NestedLevel, groups_of

_COARSE = {"symbol", "memory", "agent"}
"""The columns at which the machine decides nothing."""


@dataclass(frozen=True, slots=True)
class _Correction:
    """One level at the nodes that have counts: their totals, and the counts by [node, value]."""

    nodes: I64
    counts: scipy.sparse.csr_array[Any, Any]
    totals: F64
    weights: F64


class NextSymbolChain:
    """The distribution of the next symbol after each agent, symbol and row.

    A symbol at which the rule becomes unjudged does not follow: the chain is that of sequences that go on.
    """

    def __init__(self, counted: Counted, estimate: NestedEstimate) -> None:
        self._counted, self._estimate = counted, estimate
        self.agents, self.width = max(1, len(counted.agents)), counted.symbols.boundary + 1
        self.rows = len(counted.steps.states)
        self._nodes = _every_node(self.agents, self.width, self.rows)
        coarse = list(takewhile(lambda level: _COARSE.issuperset(level.columns), estimate.levels))
        self._classes, self._matrices = self._coarse(coarse)
        finer = estimate.levels[len(coarse) :]
        self._corrections = [self._correction(level) for level in finer]
        self._can_follow = can_follow = _can_follow(counted)
        masks = np.broadcast_to(can_follow.T, (self.agents, self.width, self.rows))
        self._mass = self._expectations(masks)

    def expectations(self, values: F64) -> F64:
        """Return by [agent, symbol, row] the mean of `values[agent, next, row]` over the next symbol."""
        found = self._expectations(values * self._can_follow.T)
        return np.divide(found, self._mass, out=np.zeros_like(found), where=self._mass > 0)

    def probabilities(self, contexts: Contexts) -> F64:
        """Return by [context, next] the distribution of the next symbol of any contexts of the rule."""
        return next_probabilities(self._counted, self._estimate, contexts)

    def _expectations(self, values: F64) -> F64:
        found = np.empty((self.agents, self.width, self.rows))
        for agent in range(self.agents):
            for number, matrix in enumerate(self._matrices):
                rows = self._classes[agent] == number
                if rows.all():
                    np.matmul(matrix, values[agent], out=found[agent])
                elif rows.any():
                    found[agent][:, rows] = matrix @ values[agent][:, rows]
        found, flat = found.reshape(-1), np.ascontiguousarray(values).reshape(-1)
        for each in self._corrections:
            totals = each.totals + each.weights
            summed = each.counts @ flat + each.weights * found[each.nodes]
            found[each.nodes] = np.divide(summed, totals, out=np.zeros_like(summed), where=totals > 0)
        return found.reshape(self.agents, self.width, self.rows)

    def _coarse(self, levels: Sequence[NestedLevel]) -> tuple[I64, list[F64]]:
        """Return the class of each agent and row, and the next symbols of each class by symbol."""
        counted, counts = self._counted, self._counted.counts
        nodes = _every_node(self.agents, 1, self.rows)
        columns = sorted({name for level in levels for name in level.columns} - {"symbol"})
        joined = replace(counted, contexts=_joined(counted.contexts, nodes))
        size, classes = len(counted.contexts), groups_of(joined, columns)
        matrices: list[F64] = []
        for number in range(int(classes.max(initial=0)) + 1):
            found = self._estimate.top.copy()
            example = int(np.flatnonzero(classes == number)[0])
            for level in levels:
                groups = groups_of(joined, [name for name in level.columns if name != "symbol"])
                chosen = groups[counts.contexts] == groups[example]
                table = np.zeros((self.width, self.width))
                symbols = counted.contexts.symbols[counts.contexts[chosen]]
                np.add.at(table, (symbols, counts.nexts[chosen]), counts.counts[chosen])
                weights = level.weights(np.arange(self.width))[:, None]
                totals = table.sum(axis=1, keepdims=True) + weights
                summed = table + weights * found
                found = np.divide(summed, totals, out=np.zeros_like(summed), where=totals > 0)
            matrices.append(found)
        return classes[size:].reshape(self.agents, self.rows), matrices

    def _correction(self, level: NestedLevel) -> _Correction:
        """Return a level's counts at all nodes of its groups; without a weight at every node."""
        counted, size = self._counted, len(self._counted.contexts)
        groups = groups_of(replace(counted, contexts=_joined(counted.contexts, self._nodes)), level.columns)
        counts = counted.counts
        table = scipy.sparse.coo_array(
            (counts.counts, (groups[counts.contexts], counts.nexts)), (int(groups.max()) + 1, self.width)
        ).tocsr()
        totals = np.asarray(table.sum(axis=1)).reshape(-1)[groups[size:]]
        weights = level.weights(self._nodes.symbols)
        nodes = np.flatnonzero((totals > 0) | (weights == 0))
        taken = table[groups[size:][nodes]].tocoo()
        node = nodes[taken.row]
        place = (node // (self.width * self.rows) * self.width + taken.col) * self.rows + node % self.rows
        shape = len(nodes), len(self._nodes)
        matrix = scipy.sparse.coo_array((taken.data.astype(np.float64), (taken.row, place)), shape).tocsr()
        return _Correction(nodes, matrix, totals[nodes].astype(np.float64), weights[nodes])


def next_probabilities(counted: Counted, estimate: NestedEstimate, contexts: Contexts) -> F64:
    """Return by [context, next] the distribution of the next symbol; 0 throughout where none may follow."""
    joined = replace(counted, contexts=_joined(counted.contexts, contexts))
    size, width = len(counted.contexts), counted.symbols.boundary + 1
    found = estimate.top[contexts.symbols]
    counts = counted.counts
    for level in estimate.levels:
        groups = groups_of(joined, level.columns)
        table = scipy.sparse.coo_array(
            (counts.counts, (groups[counts.contexts], counts.nexts)), (int(groups.max()) + 1, width)
        ).tocsr()
        taken = table[groups[size:]].toarray()
        weights = level.weights(contexts.symbols)[:, None]
        totals = taken.sum(axis=1, keepdims=True) + weights
        found = np.divide(taken + weights * found, totals, out=np.zeros_like(found), where=totals > 0)
    found = found * _can_follow(counted)[contexts.states]
    mass = found.sum(axis=1, keepdims=True)
    return np.divide(found, mass, out=np.zeros_like(found), where=mass > 0)


def _can_follow(counted: Counted) -> F64:
    """Return 1 by row and next symbol where the sequence goes on, else 0."""
    found = np.ones((len(counted.steps.states), counted.symbols.boundary + 1))
    found[:, :-1] = counted.steps.verdicts != CUT_STEP
    return found


def _every_node(agents: int, width: int, rows: int) -> Contexts:
    """Return all triples of an agent, a symbol and a row, in order."""
    agent, symbol, row = (axis.reshape(-1).astype(np.int32) for axis in np.indices((agents, width, rows)))
    return Contexts(agent, symbol, row)


def _joined(first: Contexts, second: Contexts) -> Contexts:
    def both(name: str) -> I32:
        return np.concatenate([getattr(first, name), getattr(second, name)])

    return Contexts(both("agents"), both("symbols"), both("states"))
