"""Contexts whose next symbol has changed: G-tests of two sets of counts, with few false discoveries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy

from ...rules.model.arrays import F64, I64, Mask

FALSE_DISCOVERIES = 0.05
"""The expected share of contexts named as changed that are not."""


@dataclass(frozen=True, slots=True)
class ChangedContexts:
    """The tests of all contexts that both sets came to; other contexts have a p-value of NaN."""

    p_values: F64
    is_changed: Mask


def changed_contexts(
    before: tuple[I64, I64, I64], after: tuple[I64, I64, I64], contexts: int
) -> ChangedContexts:
    """Return the contexts in which the next symbol of `after` is distributed otherwise than in `before`.

    Each is given as contexts, next symbols and counts; both number them alike. The statistic is G, twice the
    logarithm of the likelihood ratio of homogeneity, with one degree of freedom less than the context has
    next symbols. The false discovery rate is that of Benjamini and Hochberg (1995).
    """
    width = 1 + max((int(nexts.max(initial=0)) for _, nexts, _ in (before, after)), default=0)
    keys = [where.astype(np.int64) * width + nexts for where, nexts, _ in (before, after)]
    distinct, places = np.unique(np.concatenate(keys), return_inverse=True)
    side = np.repeat([0, 1], [len(each) for each in keys])
    numbers = np.concatenate([before[2], after[2]])
    table = np.bincount(places * 2 + side, numbers, 2 * len(distinct)).astype(np.float64).reshape(-1, 2)
    table, distinct = table[table.sum(axis=1) > 0], distinct[table.sum(axis=1) > 0]
    where = distinct // width
    totals = np.stack([np.bincount(where, table[:, each], contexts) for each in (0, 1)], axis=1).astype(float)
    # G = 2 (sum n_ij ln n_ij - sum of rows - sum of columns + n ln n), each as x ln x.
    g = np.bincount(where, _entropy(table).sum(axis=1) - _entropy(table.sum(axis=1)), contexts)
    g = 2 * (g - _entropy(totals).sum(axis=1) + _entropy(totals.sum(axis=1)))
    symbols = np.bincount(where, minlength=contexts)
    tested = (totals > 0).all(axis=1)
    p_values = np.full(contexts, np.nan)
    freedom = np.maximum(symbols[tested] - 1, 0)
    p_values[tested] = np.where(
        freedom > 0,
        cast("F64", scipy.special.chdtrc(np.maximum(freedom, 1), np.maximum(g[tested], 0.0))),
        1.0,
    )
    return ChangedContexts(p_values, discoveries(p_values, FALSE_DISCOVERIES))


def discoveries(p_values: F64, rate: float) -> Mask:
    """Return the tests to reject with that false discovery rate; a p-value of NaN is no test."""
    tests = np.flatnonzero(~np.isnan(p_values))
    ordered = np.sort(p_values[tests])
    passing = np.flatnonzero(ordered <= rate * np.arange(1, len(tests) + 1) / max(len(tests), 1))
    limit = ordered[passing[-1]] if len(passing) else -1.0
    return np.nan_to_num(p_values, nan=2.0) <= limit


def _entropy(counts: F64) -> F64:
    return cast("F64", scipy.special.xlogy(counts, counts))
