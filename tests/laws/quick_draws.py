"""Values of a Hypothesis strategy that cost one choice of Hypothesis, however much is in them.

Hypothesis records each choice of an example for its shrinking, which takes some twenty times as long as to
make it. For a large value that is most of a law's time. `quickly` draws the seed of a generator, and the
strategy draws its value from that. The examples stay fixed, and a failing one is printed; it is not shrunk.

The seed is bytes: Hypothesis likes to repeat an integer, or to replace it by a constant of the code.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from random import Random
from typing import Any, NoReturn, cast

from hypothesis import strategies as st
from hypothesis.control import _current_build_context
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies._internal.lazy import unwrap_strategies

SIZE_GROWS = 0.8
"""The probability that another character follows."""
USUAL = 256
"""Most characters are of the first ones of an alphabet: those of ASCII, and a few others."""
TRIES_MAX = 1_000
SPECIAL = (
    *(0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 1 / 3, 0.1 + 0.2, 1e16, -1e16, 1e308, 5e-324, 2.2250738585072014e-308),
    *(1.7976931348623157e308, -1.7976931348623157e308, 9007199254740992.0, 9007199254740994.0),
    *(math.inf, -math.inf, math.nan),
)
"""Doubles at which arithmetic, and texts of numbers, change."""


def quickly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy of the same values; each costs one choice."""
    seeds = st.binary(min_size=8, max_size=8)
    return seeds.map(lambda seed: value_of(strategy, int.from_bytes(seed, "big")))


def value_of(strategy: st.SearchStrategy[Any], seed: int) -> Any:
    """Return the value of the strategy for a seed."""
    draws = QuickDraws(Random(seed))
    with _current_build_context.with_value(cast("Any", draws)):
        for _ in range(TRIES_MAX):
            with suppress(UnsatisfiedAssumption):
                return draws.draw(strategy)
    raise UnsatisfiedAssumption


@cache
def unwrapped(strategy: st.SearchStrategy[Any]) -> Any:
    """Return the strategy that a deferred one stands for, validated."""
    strategy.validate()
    return unwrap_strategies(strategy)


class QuickDraws:
    """The choices that strategies ask Hypothesis' `ConjectureData` for, made at once and not recorded.

    It is its own context of an example, too, in which Hypothesis would record what made which value.
    """

    frozen = avoid_realization = False
    hypothesis_runner = _last_rejected_filter = None

    def __init__(self, random: Random) -> None:
        self._random, self._next = random, random.random
        self.depth = self.unique_element_depth = 0
        self.events = dict[str, Any]()
        self._shared_strategy_draws = dict[Any, Any]()
        self.provider = self.data = self

    def record_call(self, *_: object, **__: object) -> None:
        """Forget what made a value."""

    def track_arg_label(self, _label: str) -> AbstractContextManager[dict[str, Any]]:
        """Forget where an argument begins."""
        return nullcontext({})

    def draw(self, strategy: st.SearchStrategy[Any], **_: object) -> Any:
        """Return a value of the strategy."""
        return unwrapped(strategy).do_draw(self)

    def mark_invalid(self, why: str | None = None, **_: object) -> NoReturn:
        """Give the value up."""
        raise UnsatisfiedAssumption(why)

    def last_rejected_filter_location(self) -> None:
        """Forget which filter gave a value up."""

    def start_span(self, _label: int) -> None:
        """Begin a part of the value."""
        self.depth += 1

    def stop_span(self, *, discard: bool = False) -> None:  # noqa: ARG002
        """End a part of the value."""
        self.depth -= 1

    def choice(self, values: Sequence[Any], **_: object) -> Any:
        """Return one of these."""
        return values[int(self._next() * len(values))]

    def draw_boolean(self, p: float = 0.5, *, forced: bool | None = None, **_: object) -> bool:
        """Return whether something of this probability happens."""
        return self._next() < p if forced is None else forced

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: Mapping[int, float] | None = None,
        forced: int | None = None,
        **_: object,
    ) -> int:
        """Return an integer; of a wide range one often lies at an end, and without an end it may be large."""
        if forced is not None:
            return forced
        if weights is not None:
            share = self._next()
            for value, weight in weights.items():
                share -= weight
                if share < 0:
                    return value
        if min_value is not None and max_value is not None:
            return self._between(min_value, max_value)
        size = self._random.getrandbits(self.choice((2, 4, 8, 8, 16, 32, 64, 128)))
        if min_value is not None:
            return min_value + size
        if max_value is not None:
            return max_value - size
        return size if self._next() < 0.5 else -size

    def _between(self, first: int, last: int) -> int:
        count = last - first + 1
        if count <= USUAL:
            return first + int(self._next() * count)
        share = self._next()
        if share < 0.05:
            return first + int(self._next() * 8)
        if share < 0.1:
            return last - int(self._next() * 8)
        if share < 0.4:
            small = self._random.getrandbits(self.choice((2, 4, 8))) * self.choice((1, -1))
            return min(max(small, first), last)
        return self._random.randint(first, last)

    def draw_float(
        self,
        min_value: float = -math.inf,
        max_value: float = math.inf,
        *,
        allow_nan: bool = True,
        smallest_nonzero_magnitude: float = 5e-324,
        **_: object,
    ) -> float:
        """Return a double: a special one, one of few digits, or any bits."""

        def fits(value: float) -> bool:
            if math.isnan(value):
                return allow_nan
            is_large = value == 0 or abs(value) >= smallest_nonzero_magnitude
            return min_value <= value <= max_value and is_large

        for _try in range(16):
            share = self._next()
            if share < 0.2:
                value = self.choice(SPECIAL)
            elif share < 0.4:
                value = float(self._between(-1_000, 1_000))
            elif share < 0.6:
                value = self._random.uniform(-1_000, 1_000)
            else:
                [value] = struct.unpack("<d", self._random.randbytes(8))
            if fits(value):
                return value
        value = self._random.uniform(max(min_value, -1e300), min(max_value, 1e300))
        return value if fits(value) else min_value

    def draw_string(self, intervals: Any, *, min_size: int = 0, max_size: int = 1 << 20, **_: object) -> str:
        """Return a text of characters of these intervals."""
        count = len(intervals)
        characters = list[str]()
        for _character in range(self._size(min_size, max_size)):
            among = USUAL if count > USUAL and self._next() < 0.7 else count
            characters.append(intervals.char_in_shrink_order(int(self._next() * among)))
        return "".join(characters)

    def draw_bytes(self, min_size: int = 0, max_size: int = 1 << 20, **_: object) -> bytes:
        """Return any bytes."""
        return self._random.randbytes(self._size(min_size, max_size))

    def _size(self, least: int, most: int) -> int:
        size = least
        while size < most and self._next() < SIZE_GROWS:
            size += 1
        return size
