"""Risks by stepping chain and machine together.

With `W[q, w]` = 1 where the symbol `w` violates from row `q`, else the risk after it, and `W[q, end]` that of
the close, one event is the mean of W over the next symbol. `k` events give the risk within k.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...rules.model.arrays import F64, Mask
from ..chain.learned import Counted
from ..chain.risks import RiskTable
from ..chain.steps import CUT_STEP, VIOLATED_STEP
from ..error import PredictError
from ..estimation.expectation import NextSymbolChain

GAP_MAX = 1e-9
"""The most that the two sides of a risk of ever may differ by."""

EVENTS_MAX = 1_000_000
"""Events after which the two sides must have come together."""


class RiskSolver:
    """The risks of one rule within any horizon, by agent, symbol and row."""

    def __init__(self, counted: Counted, chain: NextSymbolChain) -> None:
        self._counted, self._chain = counted, chain

    def within(self, events: int) -> F64:
        """Return the probability of a verdict against the agent within so many events."""
        values = np.zeros((self._chain.agents, self._chain.width, self._chain.rows))
        for _ in range(events):
            values = self._chain.expectations(self.gains(values))
        return values

    def ever(self) -> F64:
        """Return the probability of one before the end; from below and above, to within `GAP_MAX`.

        Nodes that cannot violate are 0 on both sides, which is what makes the two sides meet.
        """
        can = self._can_violate()
        low, high = np.zeros(can.shape), can.astype(np.float64)
        for _ in range(EVENTS_MAX):
            low = np.maximum(low, self._chain.expectations(self.gains(low)))
            high = np.minimum(high, self._chain.expectations(self.gains(high)))
            if float((high - low).max()) <= GAP_MAX:
                return (low + high) / 2
        what = f"{self._counted.pack}/{self._counted.rule}: no end of the sessions in {EVENTS_MAX:,} events"
        raise PredictError("TRL810", "chain", what, "learn from sessions that end")

    def gains(self, values: F64) -> F64:
        """Return by [agent, next, row] the risk after each next symbol, 1 where it violates."""
        steps = self._counted.steps
        found = np.zeros((self._chain.agents, self._chain.width, self._chain.rows))
        symbols = np.arange(self._chain.width - 1)[:, None]
        found[:, :-1, :] = values[:, symbols, steps.next.T]
        found[:, :-1, :][:, steps.verdicts.T == VIOLATED_STEP] = 1.0
        found[:, :-1, :][:, steps.verdicts.T == CUT_STEP] = 0.0
        found[:, -1, :] = steps.violates_at_end()
        found[:, :, steps.finals] = 0.0
        return found

    def _can_violate(self) -> Mask:
        """Return the nodes from which a verdict has a positive probability."""
        found = np.zeros((self._chain.agents, self._chain.width, self._chain.rows), dtype=np.bool_)
        while True:
            wider = found | (self._chain.expectations(self.gains(found.astype(np.float64))) > 0)
            if np.array_equal(wider, found):
                return found
            found = wider


def risk_table(counted: Counted, chain: NextSymbolChain, horizons: Iterable[int | None]) -> RiskTable:
    """Return the risks of the contexts within each horizon, the least first and that of ever last."""
    ordered = sorted(set(horizons), key=lambda each: (each is None, each))
    solver = RiskSolver(counted, chain)
    where = counted.contexts.agents, counted.contexts.symbols, counted.contexts.states
    columns = [(solver.ever() if each is None else solver.within(each))[where] for each in ordered]
    values = np.clip(np.stack(columns, axis=1), 0.0, 1.0)
    values[counted.steps.finals[counted.contexts.states]] = np.nan
    return RiskTable(tuple(ordered), values, chain.probabilities(counted.contexts))
