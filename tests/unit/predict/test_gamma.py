"""Quantiles of gamma distributions, against tables and Poisson sums."""

from __future__ import annotations

import math

import pytest
from tracline.predict.gamma import below, quantile

CHI_SQUARE_95 = {1: 3.841458820694124, 2: 5.991464547107979, 5: 11.070497693516351, 10: 18.307038053275146,
                 30: 43.77297182574219, 100: 124.34211340400407}  # fmt: skip
"""The 0.95 quantile of the chi-square distribution by degrees of freedom, from tables."""


@pytest.mark.parametrize("freedom", CHI_SQUARE_95)
def test_quantiles_are_those_of_the_tables(freedom: int) -> None:
    """A chi-square variable is a gamma variable of half as large a shape, and of its freedom as mean."""
    assert quantile(0.95, freedom / 2, freedom) == pytest.approx(CHI_SQUARE_95[freedom], rel=1e-10)


@pytest.mark.parametrize("shape", [1, 2, 7, 40])
def test_whole_shapes_agree_with_poisson_sums(shape: int) -> None:
    """That a sum of exponentials is above x is that fewer than `shape` Poisson events of mean x come."""
    for x in (0.01, 0.5, shape / 2, shape, shape + 1, 3 * shape + 10):
        fewer = math.fsum(math.exp(-x + i * math.log(x) - math.lgamma(i + 1)) for i in range(shape))
        assert below(x, shape) == pytest.approx(1 - fewer, abs=1e-12)


@pytest.mark.parametrize("shape", [0.05, 0.3, 4.0, 1e4, 1e6])
def test_a_quantile_has_its_probability(shape: float) -> None:
    """As much as was asked for lies below a quantile, for small shapes and for large."""
    for probability in (0.05, 0.5, 0.95, 0.999):
        x = quantile(probability, shape, shape)
        assert below(x, shape) == pytest.approx(probability, rel=1e-6)
