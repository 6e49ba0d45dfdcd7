"""Risks by stepping chain and machine together.

With `W[q, w]` = 1 where the symbol `w` violates from row `q`, else the risk after it, and `W[q, end]` that of
the close, one event is the mean of W over the next symbol. `k` events give the risk within k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...rules.model.arrays import F64, Mask
from ..chain.learned import Counted
from ..chain.steps import CUT_STEP, VIOLATED_STEP
from ..error import PredictError
from ..estimation.expectation import NextSymbolChain
from .certified import GAP_MAX, solved


class RiskSolver:
    """The risks of one rule within any horizon, by agent, symbol and row."""

    def __init__(self, counted: Counted, chain: NextSymbolChain) -> None:
        self._counted, self._chain = counted, chain
        self._shape = chain.agents, chain.width, chain.rows
        self._symbols = np.arange(chain.width - 1)[:, None]

    def each_within(self, horizons: Iterable[int | None]) -> dict[int | None, tuple[F64, F64]]:
        """Return for each horizon the risks, and the risks one event earlier that they are the mean of."""
        wanted = set(horizons)
        found: dict[int | None, tuple[F64, F64]] = {}
        values = np.zeros(self._shape)
        for events in range(1, max((each for each in wanted if each is not None), default=0) + 1):
            before, values = values, self._chain.expectations(self.gains(values))
            if events in wanted:
                found[events] = values, before
        if None in wanted:
            ever = self.ever()
            found[None] = ever, ever
        return found

    def within(self, events: int) -> F64:
        """Return the probability of a verdict against the agent within so many events."""
        return self.each_within([events])[events][0]

    def ever(self) -> F64:
        """Return the probability of one before the end, certified to within half of `GAP_MAX`.

        The graph decides which nodes have 0 and 1; the others are solved for.
        """
        can = self._reaching(self.gains)
        safe = ~can | self._reaching(lambda values: self._safe(np.maximum(values, ~can)))
        values = (can & ~safe).astype(np.float64)
        open_nodes = can & safe
        constant = self._chain.expectations(self.gains(values))[open_nodes]
        zero = self._chain.expectations(self.gains(np.zeros(self._shape)))[open_nodes]

        def product(unknowns: F64) -> F64:
            padded = np.zeros(self._shape)
            padded[open_nodes] = unknowns
            return self._chain.expectations(self.gains(padded))[open_nodes] - zero

        solution = solved(product, constant, self._chain.width)
        if solution is None:
            what = (
                f"{self._counted.pack}/{self._counted.rule}: sessions end too rarely to solve to {GAP_MAX:g}"
            )
            raise PredictError("TRL810", "chain", what, "learn from more sessions that end")
        values[open_nodes] = solution.values
        return values

    def gains(self, values: F64) -> F64:
        """Return by [agent, next, row] the risk after each next symbol, 1 where it violates."""
        return self._after(values, violated=1.0, end=self._counted.steps.violates_at_end(), final=0.0)

    def _safe(self, values: F64) -> F64:
        """Return the same for the probability of coming to the end or a stop without a verdict."""
        return self._after(values, violated=0.0, end=~self._counted.steps.violates_at_end(), final=1.0)

    def _after(self, values: F64, violated: float, end: Mask, final: float) -> F64:
        steps = self._counted.steps
        found = np.empty(self._shape)
        found[:, :-1, :] = values[:, self._symbols, steps.next.T]
        found[:, :-1, :][:, steps.verdicts.T == VIOLATED_STEP] = violated
        found[:, :-1, :][:, steps.verdicts.T == CUT_STEP] = 0.0
        found[:, -1, :] = end
        found[:, :, steps.finals] = final
        return found

    def _reaching(self, gains: Callable[[F64], F64]) -> Mask:
        """Return the nodes from which the gain has a positive probability."""
        found = np.zeros(self._shape, dtype=np.bool_)
        while True:
            wider = found | (self._chain.expectations(gains(found.astype(np.float64))) > 0)
            if np.array_equal(wider, found):
                return found
            found = wider
