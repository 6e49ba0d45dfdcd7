"""Risks of a learned chain, against a second reading that writes out the product of chain and machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tracline.predict.chain.contexts import FOLDS, Contexts
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.steps import HELD_CLOSING, PENDING_STEP, VIOLATED_STEP
from tracline.predict.error import PredictError
from tracline.predict.estimation.expectation import NextSymbolChain, next_probabilities
from tracline.predict.estimation.nested import KAPPAS, nested
from tracline.predict.estimation.options import EstimateOptions, estimated
from tracline.predict.estimation.smoothing import laplace
from tracline.predict.risk.rule_risks import RiskOptions, rule_risks
from tracline.predict.risk.solve import RiskSolver

from ...support.chains.counts import counted_of, random_counted, steps_of
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
    found = rule_risks(counted, RiskOptions((1, None, 5)))
    table, estimate = found.table, found.estimate
    assert table.horizons == (1, 5, None)
    assert (np.diff(table.values, axis=1) >= 0).all()
    graph = dense_graph(counted, *(level.kappa for level in estimate.levels))
    nodes = counted.contexts.symbols * len(counted.steps.states) + counted.contexts.states
    assert table.values[:, 1] == pytest.approx(graph.risks_within(5)[nodes], abs=1e-9)
    shares = next_probabilities(counted, estimate, counted.contexts)
    assert shares == pytest.approx(graph.probabilities[nodes])
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(nodes)))


LOOPS = (0.5, 1e-3, 1e-6)


@pytest.mark.parametrize("leaving", LOOPS)
def test_long_loops_are_solved_to_the_stated_gap(leaving: float) -> None:
    """A symbol that nearly always repeats: of the sessions that leave it, 30 % violate."""
    many = round(0.7 / leaving) * 10
    counted = counted_of(
        steps_of([[0, 0]], [[PENDING_STEP, VIOLATED_STEP]], [HELD_CLOSING]),
        2,
        {(2, 0, 0): 5, (0, 0, 0): many, (0, 0, 1): 3, (0, 0, 2): 7},
    )
    found = rule_risks(counted, RiskOptions((None,), EstimateOptions(alpha=0.0)))
    assert found.table.values[:, 0] == pytest.approx([0.3, 0.3], abs=1e-9)


def test_a_chain_that_hardly_ends_has_no_certified_risk() -> None:
    """Where the two bounds cannot come near enough, no risk is stated."""
    counted = counted_of(
        steps_of([[0, 0]], [[PENDING_STEP, VIOLATED_STEP]], [HELD_CLOSING]),
        2,
        {(2, 0, 0): 5, (0, 0, 0): 10**14, (0, 0, 1): 3, (0, 0, 2): 7},
    )
    with pytest.raises(PredictError, match="TRL810"):
        rule_risks(counted, RiskOptions((None,), EstimateOptions(alpha=0.0)))


def test_too_many_agents_and_states_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every triple of an agent, a symbol and a row has a risk, so a limit names their number."""
    counted = random_counted(np.random.default_rng(1))
    monkeypatch.setattr("tracline.predict.risk.rule_risks.NODES_MAX", 11)
    with pytest.raises(PredictError, match="p/r: TRL810 1 agents, 4 symbols and 3 states together"):
        rule_risks(counted, RiskOptions())


@pytest.mark.parametrize("seed", range(6))
def test_smoothing_over_valid_successors_is_equation_1(seed: int) -> None:
    """The probabilities of contexts are the rows of `laplace`, with pairs that cannot occur."""
    counted = in_folds(np.random.default_rng(seed))
    names = counted.symbols.symbols
    counts = tables(counted, list(range(FOLDS)))
    never = {(w, n) for w, n in zip(*np.nonzero(counts.sum(axis=1) == 0), strict=True)}
    before, after = (*names, "start"), (*names, "end")
    impossible = frozenset((before[w], after[n]) for w, n in never)
    options = EstimateOptions(alpha=0.7, impossible=impossible)
    found = next_probabilities(counted, estimated(counted, options), counted.contexts)
    for context, (symbol, row) in enumerate(
        zip(counted.contexts.symbols, counted.contexts.states, strict=True)
    ):
        valid = [[(symbol, n) not in never for n in range(len(after))]] * len(after)
        square = np.zeros((len(after), len(after)), dtype=int)
        square[0] = counts[symbol, row]
        assert found[context] == pytest.approx(laplace(square.tolist(), 0.7, valid)[0])


def test_without_history_the_risk_is_that_of_the_product_of_labels_and_rule() -> None:
    """The chain over symbols alone, multiplied with the machine, gives the same risk in every row."""
    counted = in_folds(np.random.default_rng(3))
    options = EstimateOptions(alpha=0.0, has_history=False)
    found = rule_risks(counted, RiskOptions((4,), options)).table
    counts = tables(counted, list(range(FOLDS))).sum(axis=1)
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    steps = counted.steps

    def risk(symbol: int, row: int, events: int) -> float:
        if not events:
            return 0.0
        last = float(shares[symbol, -1] * steps.violates_at_end()[row])
        return last + sum(
            float(shares[symbol, w])
            * (
                1.0
                if steps.verdicts[row, w] == VIOLATED_STEP
                else risk(w, int(steps.next[row, w]), events - 1)
            )
            for w in range(len(counted.symbols.symbols))
        )

    expected = [
        risk(int(s), int(q), 4)
        for s, q in zip(counted.contexts.symbols, counted.contexts.states, strict=True)
    ]
    assert found.values[:, 0] == pytest.approx(expected, abs=1e-9)


def test_other_contexts_rest_on_their_symbol_or_their_row() -> None:
    """The risk of a context without a visit, and of a symbol that the chain lacks, has its basis."""
    counted = counted_of(
        steps_of([[1, 0], [1, 0]], [[PENDING_STEP, VIOLATED_STEP], [PENDING_STEP] * 2], [HELD_CLOSING] * 2),
        2,
        {(2, 0, 0): 8, (0, 1, 2): 8, (1, 0, 1): 4},
    )
    found = rule_risks(counted, RiskOptions((1,)))
    keys = list(zip(found.others.symbols.tolist(), found.others.states.tolist(), strict=True))
    assert keys == [(3, 0), (3, 1)]
    assert found.bases() == (["context"] * 3, ["state"] * 2)
    share = next_probabilities(counted, found.unseen, Contexts(*np.zeros((3, 1), dtype=np.int32)))[0, 1]
    assert found.other_risks[:, 0] == pytest.approx([share, 0.0], abs=1e-9)
