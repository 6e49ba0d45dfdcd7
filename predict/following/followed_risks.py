"""The risks of one rule within one horizon by symbol, machine state and memory, as following reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I32, I64
from ..chain.contexts import UNSEEN

NO_RISK = -1
"""The place of a context without a risk."""


@dataclass(frozen=True, slots=True)
class ContextRisk:
    """A context's risk, with the interval of its held-out sessions and the basis of the estimate.

    `next_high` is the upper end of the interval for one event, NaN where it is not known.
    """

    symbol: str
    state: int
    memory: str
    risk: float
    low: float
    high: float
    sessions: int
    basis: str
    next_high: float = math.nan


class FollowedRisks:
    """The risks of a rule, and the threshold at which a session is at risk.

    A context that the chain lacks has the risk of `UNSEEN` in its state and memory, or none.
    """

    def __init__(
        self,
        pack: str,
        rule: str,
        rule_digest: str,
        within: int | None,
        threshold: float,
        contexts: Iterable[ContextRisk],
    ) -> None:
        self.pack, self.rule, self.rule_digest = pack, rule, rule_digest
        self.within, self.threshold = within, threshold
        self.contexts: tuple[ContextRisk, ...] = tuple(contexts)
        symbols = dict.fromkeys(each.symbol for each in self.contexts)
        rows = dict.fromkeys((each.state, each.memory) for each in self.contexts)
        self._symbols = {symbol: number for number, symbol in enumerate(symbols)}
        self._rows = {row: number for number, row in enumerate(rows)}
        places = np.full((len(symbols) + 1, len(rows) + 1), NO_RISK, dtype=np.int32)
        for place, each in enumerate(self.contexts):
            places[self._symbols[each.symbol], self._rows[each.state, each.memory]] = place
        unseen = places[self._symbols.get(UNSEEN, len(symbols))]
        self.table: I32 = np.where(places == NO_RISK, unseen, places).astype(np.int32)
        """The places of contexts in `contexts`, or `NO_RISK`, by the numbers of symbols and of rows."""
        self._unseen = self._symbols.get(UNSEEN, len(symbols))
        # The last values are those of `NO_RISK`.
        self.values: F64 = np.array([*(each.risk for each in self.contexts), np.nan])
        self.next_highs: F64 = np.array([*(each.next_high for each in self.contexts), np.nan])

    def at(self, place: int) -> ContextRisk | None:
        """Return the context at a place, None where there is no risk."""
        return None if np.isnan(self.values[place]) else self.contexts[place]

    def knows(self, symbol: str) -> bool:
        """Return whether the chain has the symbol."""
        return symbol in self._symbols

    def symbol_number(self, symbol: str) -> int:
        """Return the number of a symbol in `table`."""
        return self._symbols.get(symbol, self._unseen)

    def row_number(self, state: int, memory: str) -> int:
        """Return the number of a state and memory in `table`."""
        return self._rows.get((state, memory), len(self._rows))

    def places(self, symbols: Sequence[str], states: Iterable[int], memory: Iterable[str]) -> I32:
        """Return by symbol and row the place of the context in `contexts`, or `NO_RISK`."""
        numbers: I64 = np.array([*map(self.symbol_number, symbols)], dtype=np.int64)
        rows: I64 = np.array([*map(self.row_number, states, memory)], dtype=np.int64)
        return np.ascontiguousarray(self.table[np.ix_(numbers, rows)])
