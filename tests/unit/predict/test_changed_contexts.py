"""Contexts whose next symbol has changed, against SciPy's test, and how often equal ones are named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from tracline.predict.validation.changed_contexts import changed_contexts, discoveries


def entries(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the non-zero counts of a table by context and next symbol, split into two entries each."""
    where, nexts = np.nonzero(table)
    counts = table[where, nexts]
    half = counts // 2
    order = np.random.default_rng(0).permutation(2 * len(where))
    both = np.tile(where, 2), np.tile(nexts, 2), np.concatenate([half, counts - half])
    return both[0][order], both[1][order], both[2][order]


@pytest.mark.slow
def test_p_values_are_those_of_the_g_test() -> None:
    """SciPy's log-likelihood ratio without Yates's correction, over the symbols that the context has."""
    rng = np.random.default_rng(4)
    before, after = rng.integers(0, 9, (30, 5)), rng.integers(0, 9, (30, 5))
    before[3], after[4] = 0, 0
    before[5], after[5] = [7, 0, 0, 0, 0], [9, 0, 0, 0, 0]
    found = changed_contexts(entries(before), entries(after), 30)
    assert np.flatnonzero(np.isnan(found.p_values)).tolist() == [3, 4]
    assert found.p_values[5] == 1
    for context in (0, 1, 2, *range(6, 30)):
        table = np.stack([before[context], after[context]])
        table = table[:, table.sum(axis=0) > 0]
        expected = scipy.stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").pvalue
        assert found.p_values[context] == pytest.approx(expected)


@pytest.mark.slow
def test_discoveries_are_those_of_benjamini_and_hochberg() -> None:
    """SciPy's adjusted p-values below the rate; NaN is no test."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        p_values = rng.random(20) ** 3
        expected = scipy.stats.false_discovery_control(p_values) <= 0.05
        with_none = np.append(p_values, np.nan)
        assert discoveries(with_none, 0.05).tolist() == [*expected.tolist(), False]
    assert not discoveries(np.array([np.nan]), 0.05).any()


def test_a_changed_context_is_named_and_equal_ones_rarely() -> None:
    """Of 100 repetitions with 20 equal contexts at most a few name one; the changed one is always named."""
    rng = np.random.default_rng(2)
    named, found_changed = 0, 0
    shares = rng.dirichlet(np.ones(4), 21)
    later = np.vstack([shares[:20], [[0.97, 0.01, 0.01, 0.01]]])
    shares[20] = 0.25
    for _ in range(100):
        before = np.stack([rng.multinomial(2_000, row) for row in shares])
        after = np.stack([rng.multinomial(2_000, row) for row in later])
        found = changed_contexts(entries(before), entries(after), 21)
        named += int(found.is_changed[:20].any())
        found_changed += int(found.is_changed[20])
    assert found_changed == 100
    assert named <= 20
