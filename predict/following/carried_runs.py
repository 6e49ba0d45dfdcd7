"""The runs that the sessions of a batch had before it, as arrays by slot and rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...rules.model.arrays import I32, I64, U8
from .follow_loop import NO_SYMBOL_YET
from .followed_session import BETWEEN, FollowedSession


class CarriedRuns:
    """The runs of the slots that go on: `slots` are these, and the other arrays have a row for each.

    Their symbols have numbers below `NO_SYMBOL_YET`, since events of the batch have numbers from 0 on.
    """

    def __init__(self, states: Sequence[FollowedSession | None], rules: int) -> None:
        self._states = [(slot, state) for slot, state in enumerate(states) if state is not None]
        self.slots: I64 = np.array([slot for slot, _ in self._states], dtype=np.int64)
        self._texts: list[str] = []
        bases: list[int] = []
        for _, state in self._states:
            bases.append(len(self._texts))
            self._texts += state.symbols
        self._bases = bases
        shape = len(self._states), rules
        data = b"".join([state.flags for _, state in self._states])
        self.flags: U8 = np.frombuffer(data, dtype=np.uint8).reshape(shape)
        places: I64 = np.array([state.lasts for _, state in self._states], dtype=np.int64).reshape(shape)
        numbers = NO_SYMBOL_YET - 1 - np.array(bases, dtype=np.int64)[:, None] - places
        self.symbols: I32 = np.where(places < 0, NO_SYMBOL_YET, numbers).astype(np.int32)
        named = [state.rows.split(BETWEEN) for _, state in self._states]
        self.rows: list[tuple[str, ...]] = list(zip(*named, strict=True)) if named else [()] * rules

    def slices(self, place: int) -> list[tuple[int, str, str, int, int]]:
        """Return slot, value, row, symbol and flags of each slice of the rule at a place."""
        found: list[tuple[int, str, str, int, int]] = []
        for (slot, state), base in zip(self._states, self._bases, strict=True):
            for value, run in state.slices.get(place, {}).items():
                symbol = NO_SYMBOL_YET if run.symbol < 0 else NO_SYMBOL_YET - 1 - base - run.symbol
                found.append((slot, value, run.row, symbol, run.flags))
        return found

    def text(self, number: int) -> str | None:
        """Return the symbol with a number below 0, None where there is none yet."""
        return None if number == NO_SYMBOL_YET else self._texts[NO_SYMBOL_YET - 1 - number]
