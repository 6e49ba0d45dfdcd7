"""The Clopper-Pearson limit against exact sums of binomial probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from tracline.predict.binomial import at_least, lower_limit


def exactly(successes: int, trials: int, rate: Fraction) -> Fraction:
    """Return the probability of at least that many successes, as a sum of fractions."""
    return sum(
        (math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes, trials + 1)),
        Fraction(0),
    )


@pytest.mark.parametrize("trials", [1, 2, 7, 40])
@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(1, 20), Fraction(1, 2), Fraction(99, 100)])
def test_tails_are_those_of_exact_sums(trials: int, rate: Fraction) -> None:
    """Every count, from none to all."""
    for successes in range(trials + 2):
        exact = float(exactly(successes, trials, rate))
        assert at_least(successes, trials, float(rate)) == pytest.approx(exact, rel=1e-9, abs=1e-15)


def test_limits_are_where_the_count_becomes_likely() -> None:
    """At the limit the tail has the probability that the confidence leaves; 1 of 1 gives it itself."""
    assert lower_limit(1, 1, 0.95) == pytest.approx(0.05)
    assert lower_limit(0, 50, 0.95) == 0
    for successes, trials in ((1, 30), (5, 100), (100, 100), (3_000, 2_000_000)):
        limit = lower_limit(successes, trials, 0.95)
        assert 0 < limit < successes / trials
        assert at_least(successes, trials, limit) == pytest.approx(0.05, rel=1e-6)


def test_the_limit_is_too_high_for_at_most_one_in_twenty() -> None:
    """For every rate on a grid the exact probability of a limit above the rate is at most 5%."""
    trials = 25
    limits = [lower_limit(successes, trials, 0.95) for successes in range(trials + 1)]
    for percent in range(1, 100):
        rate = Fraction(percent, 100)
        first = next((k for k, limit in enumerate(limits) if limit > float(rate)), trials + 1)
        assert exactly(first, trials, rate) <= Fraction(1, 20)
