"""Solving x = T x + b with a certificate from both sides, for a T that is given by its products alone.

T is nonnegative and its rows add up to at most 1; from every unknown, the chain leaves the unknowns with
certainty. If d - T d >= 1 and |x' - (T x' + b)| <= r, roundings included, then x' - r d and x' + r d are
bounds of x: the difference e = x' - x has e - T e <= r <= r (d - T d), so e <= r d, and likewise from below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy

from ...rules.model.arrays import F64

GAP_MAX = 1e-9
"""The most that the two bounds of a risk of ever may differ by."""

ROUNDING = 2.0**-53
"""The relative rounding of one operation."""

ROUNDS_MAX = 200
"""Rounds after which the bounds must be that near."""

_PLAIN_STEPS = 4
_KRYLOV_STEPS = 20
_BETTER = 0.5


@dataclass(frozen=True, slots=True)
class CertifiedSolution:
    """A solution and the greatest distance of its two bounds from it."""

    values: F64
    error: float
    rounds: int


def solved(product: Callable[[F64], F64], constant: F64, summands: int) -> CertifiedSolution | None:
    """Return the solution of x = product(x) + constant, or None where no certificate is near enough.

    Each value of the product is a sum of that many terms, which bounds its rounding.
    """
    if not len(constant):
        return CertifiedSolution(constant, 0.0, 0)
    steps, _ = _refined(product, np.ones(len(constant)), 0.1)
    decrease = float((steps - product(steps)).min())
    if decrease <= 0 or float(steps.min()) < 0:
        return None
    bound = float(steps.max()) / decrease
    values, rounds = _refined(product, constant, GAP_MAX / 4 / bound)
    residual = float(np.abs(product(values) + constant - values).max()) + 2 * summands * ROUNDING
    error = residual * bound
    return CertifiedSolution(values, error, rounds) if error <= GAP_MAX / 2 else None


def _refined(product: Callable[[F64], F64], constant: F64, residual_max: float) -> tuple[F64, int]:
    """Return an approximate solution whose residual is at most that, or as small as it gets.

    Each round corrects the solution by a Krylov method, and smooths it by plain steps.
    """
    size = len(constant)

    def less(values: F64) -> F64:
        return values - product(values)

    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=less, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    values, best, smallest = constant.copy(), constant, np.inf
    stalled = 0
    for done in range(ROUNDS_MAX):
        rest = constant - less(values)
        largest = float(np.abs(rest).max())
        stalled = 0 if largest < smallest * _BETTER else stalled + 1
        if largest < smallest:
            best, smallest = values, largest
        if smallest <= residual_max or stalled > 10:
            return best, done
        correction, _ = scipy.sparse.linalg.bicgstab(operator, rest, rtol=1e-6, maxiter=_KRYLOV_STEPS)
        values = best + cast("F64", correction) if largest <= smallest else best
        for _ in range(_PLAIN_STEPS):
            values = product(values) + constant
    return best, ROUNDS_MAX
