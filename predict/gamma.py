"""Quantiles of gamma distributions."""

from __future__ import annotations

import math

from .continued_fraction import TINY, nonzero

SHAPE_MAX = 1e6
"""The greatest shape used: at larger ones the deviation is below a thousandth of the mean."""

_SUMMANDS_MAX = 10_000
_STEPS = 64


def quantile(probability: float, shape: float, mean: float) -> float:
    """Return the value that a gamma variable of that shape and mean stays below with that probability.

    Bisect the logarithm of the value, since shapes below 1 concentrate their mass at 0.
    """
    assert 0 < probability < 1
    assert shape > 0
    shape = min(shape, SHAPE_MAX)
    low, high = -700.0, math.log(shape + 10 * math.sqrt(shape) + 50)
    while below(math.exp(high), shape) < probability:
        high += 1
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if below(math.exp(middle), shape) < probability:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2) * mean / shape


def below(x: float, shape: float) -> float:
    """Return the regularised lower incomplete gamma function P(shape, x).

    Use the power series where x < shape + 1, else one minus the continued fraction (Abramowitz and Stegun,
    6.5.29 and 6.5.31; evaluated by Lentz's method).
    """
    if x <= 0:
        return 0.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        return min(front * _series(x, shape), 1.0)
    return max(1.0 - front * _fraction(x, shape), 0.0)


def _series(x: float, shape: float) -> float:
    term = total = 1 / shape
    for n in range(1, _SUMMANDS_MAX):
        term *= x / (shape + n)
        total += term
        if term < total * 1e-16:
            break
    return total


def _fraction(x: float, shape: float) -> float:
    b = x + 1 - shape
    c, d = 1 / TINY, 1 / b
    result = d
    for n in range(1, _SUMMANDS_MAX):
        a = n * (shape - n)
        b += 2
        d = 1 / (nonzero(a * d + b))
        c = nonzero(b + a / c)
        result *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return result
