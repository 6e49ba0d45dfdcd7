"""A slow second reading of a learned chain: nested estimates of every pair of a symbol and a row."""

from __future__ import annotations

import numpy as np
from tracline.predict.chain.contexts import FOLDS
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.steps import VIOLATED_STEP
from tracline.predict.explaining.chain_graph import ENDED_NODE, GOAL_NODE, ChainGraph


def tables(counted: Counted, folds: list[int]) -> np.ndarray:
    """Return the counts of these folds by symbol, row and next symbol."""
    width, rows = counted.symbols.boundary + 1, len(counted.steps.states)
    found = np.zeros((width, rows, width))
    chosen = np.isin(counted.counts.folds, folds)
    at = counted.counts.contexts[chosen]
    places = counted.contexts.symbols[at], counted.contexts.states[at], counted.counts.nexts[chosen]
    np.add.at(found, places, counted.counts.counts[chosen])
    return found


def nested_rows(counts: np.ndarray, of_symbol: float, of_row: float) -> np.ndarray:
    """Return the probabilities; with an infinite `of_row` the row decides nothing."""
    top = (counts.sum(axis=(0, 1)) + 0.5) / (counts.sum() + 0.5 * counts.shape[2])
    symbols = counts.sum(axis=1)
    middle = (symbols + of_symbol * top) / (symbols.sum(axis=1, keepdims=True) + of_symbol)
    if np.isinf(of_row):
        return np.repeat(middle[:, None, :], counts.shape[1], axis=1)
    return (counts + of_row * middle[:, None, :]) / (counts.sum(axis=2, keepdims=True) + of_row)


def dense_graph(counted: Counted, of_symbol: float, of_row: float) -> ChainGraph:
    """Return the graph whose node of symbol `s` and row `q` is `s * rows + q`."""
    probabilities = nested_rows(tables(counted, list(range(FOLDS))), of_symbol, of_row)
    width, rows = probabilities.shape[:2]
    steps = counted.steps
    targets = np.empty((rows, width), dtype=np.int64)
    targets[:, :-1] = np.arange(width - 1) * rows + steps.next
    targets[:, :-1][steps.verdicts == VIOLATED_STEP] = GOAL_NODE
    targets[:, -1] = np.where(steps.violates_at_end(), GOAL_NODE, ENDED_NODE)
    return ChainGraph(
        probabilities.reshape(width * rows, width), np.tile(targets, (width, 1)).reshape(width * rows, width)
    )
