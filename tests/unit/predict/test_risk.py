"""Risks of a learned chain, against a second reading that writes out the product of chain and machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tracline.predict.chain.contexts import FOLDS
from tracline.predict.chain.learned import Counted
from tracline.predict.estimation.expectation import NextSymbolChain
from tracline.predict.estimation.nested import KAPPAS, nested
from tracline.predict.risk.solve import RiskSolver, risk_table

from ...support.chains.counts import random_counted
from ...support.chains.dense_chain import dense_graph, nested_rows, tables


def in_folds(rng: np.random.Generator) -> Counted:
    """Return random counts with a random fold for each transition."""
    counted = random_counted(rng)
    folds = rng.integers(0, FOLDS, len(counted.counts.folds)).astype(np.int32)
    return replace(counted, counts=replace(counted.counts, folds=folds))


@pytest.mark.parametrize("has_history", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_risks_are_those_of_the_written_product(seed: int, has_history: bool) -> None:
    """Within 1, 3 and 8 events, at every pair of a symbol and a row, visited or not; ever is their limit."""
    counted = in_folds(np.random.default_rng(seed))
    estimate = nested(counted, has_history=has_history)
    kappas = [level.kappa for level in estimate.levels]
    graph = dense_graph(counted, kappas[0], kappas[1] if has_history else np.inf)
    solver = RiskSolver(counted, NextSymbolChain(counted, estimate))
    for within in (1, 3, 8):
        assert solver.within(within).reshape(-1) == pytest.approx(graph.risks_within(within), abs=1e-12)
    assert solver.ever().reshape(-1) == pytest.approx(graph.risks_within(5_000), abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_weights_are_those_of_the_best_log_score(seed: int) -> None:
    """That of the symbols first, then that of the states with it, each fold predicted from the others."""
    counted = in_folds(np.random.default_rng(seed))
    folds = [tables(counted, [fold]) for fold in range(FOLDS)]

    def score(of_symbol: float, of_row: float) -> float:
        return sum(
            float((each * np.log(nested_rows(sum(folds) - each, of_symbol, of_row))).sum()) for each in folds
        )

    first, second = (level.kappa for level in nested(counted).levels)
    assert score(first, np.inf) == pytest.approx(max(score(kappa, np.inf) for kappa in KAPPAS))
    assert score(first, second) == pytest.approx(max(score(first, kappa) for kappa in KAPPAS))


@pytest.mark.parametrize("seed", range(6))
def test_a_table_has_the_contexts_risks_and_distributions(seed: int) -> None:
    """Risks grow with the horizon up to ever's, and distributions add up to 1."""
    counted = in_folds(np.random.default_rng(seed))
    estimate = nested(counted)
    table = risk_table(counted, NextSymbolChain(counted, estimate), (1, None, 5))
    assert table.horizons == (1, 5, None)
    assert (np.diff(table.values, axis=1) >= -1e-9).all()
    graph = dense_graph(counted, *(level.kappa for level in estimate.levels))
    nodes = counted.contexts.symbols * len(counted.steps.states) + counted.contexts.states
    assert table.values[:, 1] == pytest.approx(graph.risks_within(5)[nodes], abs=1e-12)
    assert table.next_probabilities == pytest.approx(graph.probabilities[nodes])
    assert table.next_probabilities.sum(axis=1) == pytest.approx(np.ones(len(nodes)))
