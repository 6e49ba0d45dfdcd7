"""Pro2Guard's sample sizes for the contexts of a learned chain, as a report that claims only what is met."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I64
from ..chain.learned import Counted
from ..chain.steps import CUT_STEP
from ..estimation.sample_size import pac_local, spread

SPREAD_STATES_MAX = 60
"""Contexts up to which the factor for how far errors spread is computed."""


@dataclass(frozen=True, slots=True)
class SampleSizes:
    """The sample sizes of the contexts of one rule, by context.

    `left` counts the transitions from each context, `local` is H* of it, NaN where it was never left.
    `factor` is B, NaN where it was not computed: that is only done where every context has its local size.
    """

    left: I64
    local: F64
    factor: float

    @property
    def required(self) -> F64:
        """Return the sizes that the rule requires; without B they are at least the local ones."""
        return self.local if np.isnan(self.factor) else (1.1 * self.factor) ** 2 * self.local

    @property
    def local_sufficient(self) -> int:
        """Return the number of contexts that were left at least H* times."""
        return int((self.left >= self.local).sum())

    @property
    def is_sufficient(self) -> bool:
        """Return whether the rule's guarantee holds: every context has its size, and B is known."""
        return not np.isnan(self.factor) and bool((self.left >= self.required).all())


def sample_sizes(counted: Counted, eps: float, delta: float) -> SampleSizes:
    """Return the sample sizes of a rule's contexts, those that only held-out sessions came to included."""
    contexts, width = len(counted.contexts), counted.symbols.boundary + 1
    counts = counted.counts
    keys, places = np.unique(counts.contexts.astype(np.int64) * width + counts.nexts, return_inverse=True)
    sums = np.bincount(places.reshape(-1), counts.counts, len(keys)).astype(np.int64)
    rows: list[list[int]] = [[] for _ in range(contexts)]
    pairs: list[int] = keys.tolist()
    for key, count in zip(pairs, sums.tolist(), strict=True):
        rows[key // width].append(count)
    left = np.array([sum(row) for row in rows], dtype=np.int64)
    # Of the successors that never followed one stands for all: they have the same bound.
    found = pac_local([row if len(row) == width else [*row, 0] for row in rows], eps, delta)
    local = np.array([np.nan if bound is None else bound for bound in found], dtype=np.float64)
    is_local = bool(contexts) and bool((left >= local).all())
    frequencies = _frequencies(counted) if is_local and contexts <= SPREAD_STATES_MAX else None
    return SampleSizes(left, local, np.nan if frequencies is None else spread(frequencies))


def _frequencies(counted: Counted) -> list[list[float]] | None:
    """Return the frequencies of transitions between contexts; the last state is the end, which stays.

    There are none where a transition leads to a context that was never left: only an open session came to it.
    """
    contexts, steps, end = counted.contexts, counted.steps, len(counted.contexts)
    columns = contexts.agents.tolist(), contexts.symbols.tolist(), contexts.states.tolist()
    number = {key: place for place, key in enumerate(zip(*columns, strict=True))}
    matrix = np.zeros((end + 1, end + 1))
    matrix[end, end] = 1
    counts = counted.counts
    flat = zip(counts.contexts.tolist(), counts.nexts.tolist(), counts.counts.tolist(), strict=True)
    for context, following, count in flat:
        row, target = int(contexts.states[context]), end
        if following < counted.symbols.boundary and steps.verdicts[row, following] != CUT_STEP:
            key = int(contexts.agents[context]), following, int(steps.next[row, following])
            if key not in number:
                return None
            target = number[key]
        matrix[context, target] += count
    rows: list[list[float]] = (matrix / matrix.sum(axis=1, keepdims=True)).tolist()
    return rows
