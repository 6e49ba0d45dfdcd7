"""Isotonic calibration: the best map that never descends, fitted on other sessions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tracline.predict.validation.isotonic import cross_calibrated, isotonic


@pytest.mark.parametrize("seed", range(5))
def test_no_other_ascending_map_has_a_smaller_brier_score(seed: int) -> None:
    """Among all ascending maps of four risks to eighths, by brute force."""
    rng = np.random.default_rng(seed)
    risks = rng.choice([0.1, 0.2, 0.5, 0.9], 40)
    violated = rng.random(40) < risks[::-1]
    fitted = isotonic(risks, violated)
    best = ((fitted(risks) - violated) ** 2).sum()
    assert (np.diff(fitted.values) >= 0).all()
    places = np.searchsorted(fitted.risks, risks)
    for values in product(np.arange(9) / 8, repeat=4):
        if sorted(values) == list(values):
            assert ((np.array(values)[places] - violated) ** 2).sum() >= best - 1e-12


def test_between_fitted_risks_the_map_is_a_line_and_outside_constant() -> None:
    """As forecasts of few samples have few values."""
    fitted = isotonic(np.array([0.2, 0.4]), np.array([False, True]))
    assert fitted(np.array([0.0, 0.2, 0.3, 0.4, 1.0])).tolist() == pytest.approx([0, 0, 0.5, 1, 1])


def test_no_outcome_of_a_fold_decides_its_own_risks() -> None:
    """Turning its outcomes round changes only the other folds; a fold without others has none."""
    rng = np.random.default_rng(1)
    risks, violated, folds = rng.random(60), rng.random(60) < 0.5, np.repeat([0, 1, 2], 20)
    turned = np.where(folds == 1, ~violated, violated)
    before, after = cross_calibrated(risks, violated, folds), cross_calibrated(risks, turned, folds)
    assert (before[folds == 1] == after[folds == 1]).all()
    assert (before[folds == 0] != after[folds == 0]).any()
    assert np.isnan(cross_calibrated(risks, violated, np.zeros(60, dtype=np.int64))).all()
