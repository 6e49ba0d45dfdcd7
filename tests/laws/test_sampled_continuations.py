"""Sampled = solved: continuations of a learned chain violate as often as the solved risk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest
from tracline.predict.chain.learned import Counted
from tracline.predict.estimation.expectation import NextSymbolChain
from tracline.predict.estimation.options import EstimateOptions, estimated
from tracline.predict.folder.load import load_chain
from tracline.predict.risk.solve import RiskSolver
from tracline.predict.sampling.continuations import (
    ContinuationStart,
    SampledContinuation,
    sampled_continuations,
)

from ..support.chains.counts import random_counted
from ..support.chains.small_chain import learned_chain

SAMPLES, SIZE = 4_000, 1e-6
"""Continuations of each context, and the size of each test: of 500 tests one fails in 2,000 seeds."""


def drawn(counted: Counted, context: int, within: int, seed: int) -> tuple[SampledContinuation, ...]:
    """Return continuations of a context of the counts."""
    estimate = estimated(counted, EstimateOptions())
    start = ContinuationStart(
        0, int(counted.contexts.symbols[context]), int(counted.contexts.states[context]), estimate
    )
    generator = np.random.default_rng(seed)
    return sampled_continuations(counted, estimate, start, within, SAMPLES, generator)


@pytest.mark.parametrize("seed", range(8))
def test_sampled_risks_are_the_solved_ones(seed: int) -> None:
    """For random machines and counts, in every context, within 1, 3 and 7 events."""
    counted = random_counted(np.random.default_rng(seed))
    solver = RiskSolver(counted, NextSymbolChain(counted, estimated(counted, EstimateOptions())))
    for within in (1, 3, 7):
        solved = solver.within(within)
        for context in range(len(counted.contexts)):
            found = drawn(counted, context, within, 100 * seed + context)
            hits = sum(each.violated for each in found)
            risk = solved[0, counted.contexts.symbols[context], counted.contexts.states[context]]
            assert binomtest(hits, SAMPLES, min(max(risk, 0.0), 1.0)).pvalue > SIZE, (within, context)


def test_a_continuation_ends_at_a_verdict_at_the_close_or_after_the_horizon() -> None:
    """And only there; the same seed gives the same continuations."""
    counted = random_counted(np.random.default_rng(3))
    found = drawn(counted, 0, 5, seed=1)
    assert found == drawn(counted, 0, 5, seed=1) != drawn(counted, 0, 5, seed=2)
    assert {len(each.symbols) for each in found} == set(range(1, 6))
    for each in found:
        assert "end" not in each.symbols[:-1]
        assert len(each.symbols) == 5 or each.violated or each.symbols[-1] == "end"


@pytest.mark.slow
def test_a_chain_samples_what_a_look_up_gives(tmp_path: Path) -> None:
    """Of known symbols and of one that the chain lacks, for a known agent and another one."""
    chain = load_chain(learned_chain(tmp_path, "--by", "agent"))
    for symbol in ("start", "user:p", "user:p,q", "user:r"):
        for agent in ("a", "c"):
            at = {"symbol": symbol, "state": 0, "agent": agent, "within": 5}
            risk = chain.risk("desk", "never-twice", **at)
            found = chain.sample("desk", "never-twice", **at, n=SAMPLES, seed=5)
            assert risk is not None
            assert found is not None
            assert binomtest(sum(each.violated for each in found), SAMPLES, risk.risk).pvalue > SIZE
            assert 0.001 < risk.risk < 0.999
    assert chain.sample("desk", "never-twice", symbol="start", state=99, within=5, n=1, seed=1) is None
