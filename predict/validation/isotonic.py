"""Calibration of risks by isotonic regression (Zadrozny and Elkan, 2002), fitted on other sessions only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from ...rules.model.arrays import F64, I32, I64, Mask


@dataclass(frozen=True, slots=True)
class IsotonicMap:
    """A map of risks that never descends: the fitted `values` at distinct `risks`, and lines between them.

    Below the least fitted risk and above the greatest it is constant.
    """

    risks: F64
    values: F64

    def __call__(self, risks: F64) -> F64:
        """Return the calibrated risks."""
        return np.interp(risks, self.risks, self.values)


def isotonic(risks: F64, violated: Mask) -> IsotonicMap:
    """Return the map with the least Brier score on these risks and outcomes, of which there must be some."""
    assert len(risks), "a map needs risks to be fitted on"
    distinct, places = np.unique(risks, return_inverse=True)
    visits = np.bincount(places)
    rates = np.bincount(places, violated.astype(np.float64)) / visits
    return IsotonicMap(distinct, scipy.optimize.isotonic_regression(rates, weights=visits).x)


def cross_calibrated(risks: F64, violated: Mask, folds: I32 | I64) -> F64:
    """Return the risks of each fold by the map of the others; NaN where these have none.

    The sessions of a fold must be whole, so that no risk is calibrated by the outcome of its own session.
    """
    found = np.full(len(risks), np.nan)
    for fold in np.unique(folds):
        inside = folds == fold
        if not inside.all():
            found[inside] = isotonic(risks[~inside], violated[~inside])(risks[inside])
    return found
