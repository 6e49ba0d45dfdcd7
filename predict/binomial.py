"""Confidence limits of a rate from counts."""

from __future__ import annotations

import math
from statistics import NormalDist

from .continued_fraction import nonzero

_STEPS = 100
_SUMMANDS_MAX = 10_000


def lower_limit(successes: int, trials: int, confidence: float) -> float:
    """Return the one-sided lower Clopper-Pearson limit of a rate (Clopper and Pearson 1934).

    It is the least rate at which that many successes are not less likely than 1 - confidence. It exceeds the
    true rate with at most that probability, whatever the rate and the number of trials: that does not hold of
    limits from the normal distribution, such as Wilson's, for rates near 0.
    """
    assert 0 <= successes <= trials
    assert 0 < confidence < 1
    if successes == 0:
        return 0.0
    low, high = 0.0, successes / trials
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if at_least(successes, trials, middle) < 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def at_least(successes: int, trials: int, rate: float) -> float:
    """Return the probability of at least that many successes in independent trials of that rate.

    It is the regularised incomplete beta function I_rate(successes, trials - successes + 1), by its continued
    fraction (Abramowitz and Stegun, 26.5.8; evaluated by Lentz's method).
    """
    if successes <= 0 or rate >= 1:
        return 1.0
    if successes > trials or rate <= 0:
        return 0.0
    a, b = float(successes), trials - successes + 1.0
    if rate > (a + 1) / (a + b + 2):
        # I_x(a, b)  =  1 - I_(1-x)(b, a): the fraction converges fast on this side only.
        return 1 - _beta(1 - rate, b, a)
    return _beta(rate, a, b)


def _beta(x: float, a: float, b: float) -> float:
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / nonzero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _SUMMANDS_MAX):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = fraction
        for coefficient in (even, odd):
            d = 1 / nonzero(1 + coefficient * d)
            c = nonzero(1 + coefficient / c)
            fraction *= c * d
        if abs(fraction - before) <= 1e-14 * abs(fraction):
            break
    return math.exp(scale) * fraction / a


def wilson(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return Wilson's interval of a rate, from 0 to 1 without a trial (Wilson 1927).

    It is short where trials are few, and holds rates near 0 and 1 less often than its confidence; the limits
    of `lower_limit` always hold it.
    """
    assert 0 <= successes <= trials
    if not trials:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = successes / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    return (
        0.0 if successes == 0 else max(0.0, middle - half),
        1.0 if successes == trials else min(1.0, middle + half),
    )
