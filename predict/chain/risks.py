"""Risks of a rule by context and horizon."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...rules.model.arrays import F64

EVER = None
"""The horizon that reaches to the session's end."""

HORIZON_MAX = 1_000
"""Events of the longest horizon but that of ever."""

DIGITS = 9
"""Decimals of a stored risk."""


class Basis(StrEnum):
    """The counts that a risk rests on.

    They are those of the context itself; for a context without a visit those of its symbol; for a symbol that
    the chain lacks those of the row.
    """

    CONTEXT = "context"
    SYMBOL = "symbol"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class RiskTable:
    """The probability of a verdict against the agent within each horizon, after each context.

    `horizons` ascend, with `EVER` last. `values[context, horizon]` is NaN where there is no risk, because the
    rule stopped.
    """

    horizons: tuple[int | None, ...]
    values: F64
