"""The estimates to choose from: nested, smoothing over valid successors, and plain frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64
from ..chain.contexts import END, START
from ..chain.learned import Counted
from .nested import JEFFREYS, NestedEstimate, NestedLevel, levels_of, nested

NESTED = "nested"
SMOOTHINGS = (NESTED, "laplace:A", "jeffreys", "none")
"""The texts of all estimates; A is a number above 0."""

ALPHA_MAX = 1e9
"""The greatest weight of an estimate; with greater ones counts are lost in roundings."""


@dataclass(frozen=True, slots=True)
class EstimateOptions:
    """The estimate of a chain.

    `alpha` is None for nested levels, else that of Pro2Guard's equation 1, and 0 for plain frequencies.
    Without `has_history` the next symbol does not depend on the machine's state. `impossible` are pairs of a
    context's symbol and a next one that cannot follow it, which only an alpha uses.
    """

    alpha: float | None = None
    has_history: bool = True
    impossible: frozenset[tuple[str, str]] = frozenset()


def alpha_of(smoothing: str) -> float | None:
    """Return the alpha of an estimate's text, None for nested levels. Raises ValueError for another text."""
    if smoothing == NESTED:
        return None
    if smoothing in ("jeffreys", "none"):
        return JEFFREYS if smoothing == "jeffreys" else 0.0
    name, separator, number = smoothing.partition(":")
    alpha = float(number) if name == "laplace" and separator else math.nan
    if not 0 < alpha <= ALPHA_MAX:
        known = f"{', '.join(SMOOTHINGS)} with A up to {ALPHA_MAX:g}"
        raise ValueError(f"unknown smoothing `{smoothing}`: use {known}")
    return alpha


def estimated(counted: Counted, options: EstimateOptions) -> NestedEstimate:
    """Return the estimate of a rule's counts.

    P(w | c) = (n(c, w) + A) / (n(c) + k A) over the k valid successors of the context c is one level that
    leans on their uniform distribution with the weight k A. Where the valid successors differ by symbol the
    counts of a context lean on that of its symbol. Raises ValueError for a count of an impossible pair.
    """
    if options.alpha is None:
        return nested(counted, has_history=options.has_history)
    finest = levels_of(counted, has_history=options.has_history)[-1]
    valid = _valid(counted, options.impossible)
    counts = counted.counts
    if not valid[counted.contexts.symbols[counts.contexts], counts.nexts].all():
        raise ValueError(f"{counted.pack}/{counted.rule}: an impossible pair of symbols occurs")
    successors = valid.sum(axis=1)
    tops = valid / np.maximum(successors, 1)[:, None]
    return NestedEstimate(tops, (NestedLevel(finest, options.alpha, tuple(successors.tolist())),))


def _valid(counted: Counted, impossible: frozenset[tuple[str, str]]) -> F64:
    """Return 1 by symbol and next symbol where the pair is possible, else 0."""
    symbols = counted.symbols.symbols
    before = {name: place for place, name in enumerate((*symbols, START))}
    after = {name: place for place, name in enumerate((*symbols, END))}
    valid = np.ones((len(before), len(after)))
    for first, second in impossible:
        if first in before and second in after:
            valid[before[first], after[second]] = 0.0
    return valid
