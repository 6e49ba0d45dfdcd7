"""The interval chain of a rule: its bounds hold for every chain within the intervals, and are reached."""

from __future__ import annotations

import numpy as np
import pytest
from tracline.predict.binomial import lower_limit
from tracline.predict.chain.steps import CUT_STEP, PENDING_STEP, VIOLATED_STEP
from tracline.predict.error import PredictError
from tracline.predict.validation import model_chain as module
from tracline.predict.validation.model_chain import ModelChain, model_chain

from ...support.chains.counts import counted_of, random_counted, steps_of


def test_one_context_by_hand() -> None:
    """Of 20 transitions from the start 3 violate and 17 end: Clopper-Pearson limits of 3 in 20."""
    steps = steps_of([[0]], [[VIOLATED_STEP]], [0])
    found = model_chain(counted_of(steps, 1, {(1, 0, 0): 3, (1, 0, 1): 17}), 0.1)
    low, high = found.bounds(1)
    # The error is shared among two transitions, and each has two sides.
    assert low[0] == pytest.approx(lower_limit(3, 20, 1 - 0.1 / 4))
    assert high[0] == pytest.approx(1 - lower_limit(17, 20, 1 - 0.1 / 4))
    assert found.bounds(None)[0][0] == pytest.approx(low[0])


def test_a_context_without_a_count_may_do_anything() -> None:
    """Symbol 1 was never seen; after it anything may follow, so it adds its whole share to the maximum."""
    steps = steps_of([[0, 1], [1, 1]], [[PENDING_STEP] * 2, [VIOLATED_STEP, PENDING_STEP]], [0, 0])
    found = model_chain(counted_of(steps, 2, {(2, 0, 2): 50}), 0.05)
    low, high = found.bounds(None)
    missing = 1 - (0.05 / 3 / 2) ** (1 / 50)
    assert low[0] == 0
    assert high[0] == pytest.approx(missing)
    # Symbol 1 does not violate by itself.
    assert found.bounds(1)[1][0] == 0


def test_a_symbol_that_cuts_does_not_follow() -> None:
    """Transitions at which the rule becomes unjudged leave the others their whole probability."""
    steps = steps_of([[0, 0]], [[VIOLATED_STEP, CUT_STEP]], [0])
    without = model_chain(counted_of(steps, 2, {(2, 0, 0): 3, (2, 0, 2): 17}), 0.1)
    with_cut = model_chain(counted_of(steps, 2, {(2, 0, 0): 3, (2, 0, 1): 40, (2, 0, 2): 17}), 0.1)
    assert with_cut.bounds(1)[1][0] == without.bounds(1)[1][0] < 0.5


def sampled_rows(rng: np.random.Generator, found: ModelChain) -> np.ndarray:
    """Return the matrix of a chain within the intervals, each row filled in a random order."""
    chain = found.chain
    matrix = np.zeros((chain.states, chain.states))
    for state in range(chain.states):
        entries = rng.permutation(np.arange(chain.starts[state], chain.starts[state + 1]))
        shares = chain.low[entries].copy()
        for at, entry in enumerate(entries):
            room = min(chain.high[entry] - chain.low[entry], 1 - shares.sum())
            shares[at] += room * (1.0 if rng.random() < 0.5 else rng.random())
        for at, entry in enumerate(entries):
            shares[at] += max(0.0, min(chain.high[entry] - shares[at], 1 - shares.sum()))
        matrix[state, chain.targets[entries]] = shares
    assert matrix.sum(axis=1) == pytest.approx(np.ones(chain.states))
    return matrix


@pytest.mark.parametrize("seed", range(20))
def test_every_chain_within_the_intervals_is_between_the_bounds(seed: int) -> None:
    """Risks of sampled chains, by powers of their matrices, for two horizons and in the long run."""
    rng = np.random.default_rng(seed)
    found = model_chain(random_counted(rng), 0.1)
    bounds = {within: found.bounds(within) for within in (1, 4, None)}
    goal = int(found.chain.labels["violated"][0])
    for _ in range(10):
        matrix = sampled_rows(rng, found)
        for within, (low, high) in bounds.items():
            risks = np.linalg.matrix_power(matrix, within or 2**12)[: found.contexts, goal]
            assert (risks <= high + 1e-9).all()
            assert within is None or (risks >= low - 1e-9).all()
    assert (bounds[1][1] <= bounds[4][1] + 1e-12).all()
    assert (bounds[4][1] <= bounds[None][1] + 1e-12).all()


def test_too_many_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL810 names the rule."""
    monkeypatch.setattr(module, "TRANSITIONS_MAX", 3)
    steps = steps_of([[0]], [[VIOLATED_STEP]], [0])
    with pytest.raises(PredictError, match="TRL810 4 transitions of p/r"):
        model_chain(counted_of(steps, 1, {(1, 0, 0): 3}), 0.1)
