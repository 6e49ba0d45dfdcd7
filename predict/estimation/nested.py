"""Nested estimation: each level of what is remembered leans on the coarser one above it.

P(w | g) = (n(g, w) + kappa P(w | parent of g)) / (n(g) + kappa), from all contexts together at the top
(Jeffreys' prior) to single contexts. Each kappa is chosen by the log score of five folds of sessions, each
predicted from the others, one level after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I32, I64
from ..chain.contexts import FOLDS
from ..chain.learned import Counted

KAPPAS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""The weights to choose from."""

JEFFREYS = 0.5


@dataclass(frozen=True, slots=True)
class NestedLevel:
    """One level: the columns that its groups agree in, and the weight of the level above.

    Columns are `symbol`, `state`, `row` and `agent`; a row has the state and what the memory formulas
    remember. Where `successors` has the number of valid successors of each symbol, the weight is for each of
    them.
    """

    columns: tuple[str, ...]
    kappa: float
    successors: tuple[int, ...] = ()

    def weights(self, symbols: I32 | I64) -> F64:
        """Return the weight of the level above at contexts of these symbols."""
        if not self.successors:
            return np.full(len(symbols), self.kappa)
        return self.kappa * np.array(self.successors, dtype=np.float64)[symbols]


@dataclass(frozen=True, slots=True)
class NestedEstimate:
    """The weights of all levels, the coarsest first, and the distribution above them.

    `top[symbol, next]` has a row for the symbol of each context; only the paper's smoothing over valid
    successors has rows that differ.
    """

    top: F64
    levels: tuple[NestedLevel, ...]


def nested(counted: Counted, *, has_history: bool = True) -> NestedEstimate:
    """Return the estimate of a rule's counts; without history the machine's state decides nothing."""
    return chosen_weights(counted, dividing(counted, levels_of(counted, has_history=has_history)))


def dividing(counted: Counted, levels: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the levels without those that divide no counts further than the level before.

    So a memory formula that the state of the rule decides changes no probability.
    """
    groups = [len(np.unique(groups_of(counted, names)[counted.counts.contexts])) for names in levels]
    return [names for place, names in enumerate(levels) if not place or groups[place] > groups[place - 1]]


def over_labels(counted: Counted) -> NestedEstimate:
    """Return the estimate of the chain over labels, which knows of a context its symbol alone."""
    return chosen_weights(counted, [("symbol",)])


def chosen_weights(counted: Counted, columns: Sequence[tuple[str, ...]]) -> NestedEstimate:
    """Return the estimate of these levels with the weights of the best log score."""
    counts = counted.counts
    parent = _top_without(counted)
    levels: list[NestedLevel] = []
    for names in columns:
        pairs, sums = _without_fold(counted, groups_of(counted, names)[counts.contexts])
        scores = [
            float(counts.counts @ np.log((pairs + kappa * parent) / (sums + kappa))) for kappa in KAPPAS
        ]
        kappa = KAPPAS[int(np.argmax(scores))]
        levels.append(NestedLevel(names, kappa))
        parent = (pairs + kappa * parent) / (sums + kappa)
    return NestedEstimate(jeffreys_top(counted), tuple(levels))


def jeffreys_top(counted: Counted) -> F64:
    """Return the distribution of all next symbols together with Jeffreys' prior, for each symbol alike."""
    width = counted.symbols.boundary + 1
    total = np.bincount(counted.counts.nexts, counted.counts.counts, width)
    shares = (total + JEFFREYS) / (total.sum() + JEFFREYS * width)
    return np.tile(shares, (width, 1))


def levels_of(counted: Counted, *, has_history: bool) -> list[tuple[str, ...]]:
    """Return the columns of the levels, without memory and agents where there are none."""
    with_memory = any(counted.steps.memory)
    levels: list[tuple[str, ...]] = [("symbol",)]
    if has_history:
        levels.append(("symbol", "state"))
    if with_memory:
        levels.append(("symbol", "row") if has_history else ("symbol", "memory"))
    if len(counted.agents) > 1:
        levels.append((*levels[-1], "agent"))
    return levels


def groups_of(counted: Counted, columns: Sequence[str]) -> I64:
    """Return the number of the group of each context, in the order of their columns; 0 without any."""
    if not columns:
        return np.zeros(len(counted.contexts), dtype=np.int64)
    texts = {text: number for number, text in enumerate(sorted(set(counted.steps.memory)))}
    memory = np.array([texts[text] for text in counted.steps.memory], dtype=np.int64)
    rows = counted.contexts.states
    values = {
        "symbol": counted.contexts.symbols,
        "state": counted.steps.states[rows],
        "memory": memory[rows],
        "row": rows,
        "agent": counted.contexts.agents,
    }
    keys = np.zeros(len(counted.contexts), dtype=np.int64)
    for column in columns:
        # One number for each group is sorted ten times as fast as a row of numbers.
        keys = keys * (int(values[column].max(initial=0)) + 1) + values[column]
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _top_without(counted: Counted) -> F64:
    """Return for each transition the probability of its next symbol from the other folds."""
    counts, width = counted.counts, counted.symbols.boundary + 1
    cells = np.zeros((FOLDS, width))
    np.add.at(cells, (counts.folds, counts.nexts), counts.counts)
    rest = cells.sum(axis=0) - cells
    shares = (rest + JEFFREYS) / (rest.sum(axis=1, keepdims=True) + JEFFREYS * width)
    return shares[counts.folds, counts.nexts]


def _without_fold(counted: Counted, groups: I64) -> tuple[F64, F64]:
    """Return for each transition the counts in the other folds: of its group and symbol, and of its group."""
    counts, width = counted.counts, counted.symbols.boundary + 1
    return (
        _others(groups * width + counts.nexts, counts.folds, counts.counts),
        _others(groups, counts.folds, counts.counts),
    )


def _others(keys: I64, folds: np.ndarray, counts: I64) -> F64:
    _, places = np.unique(keys, return_inverse=True)
    _, cells = np.unique(places * FOLDS + folds, return_inverse=True)
    return (np.bincount(places, counts)[places] - np.bincount(cells, counts)[cells]).astype(np.float64)
