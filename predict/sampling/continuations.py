"""Continuations drawn from a learned chain; the share that violates the rule estimates its solved risk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I32, I64, Mask
from ..chain.contexts import END, Contexts
from ..chain.learned import Counted
from ..chain.steps import VIOLATED_STEP
from ..estimation.expectation import next_probabilities
from ..estimation.nested import NestedEstimate


@dataclass(frozen=True, slots=True)
class SampledContinuation:
    """The symbols of a continuation, `end` for the session's close.

    It ends with the close, with a verdict against the agent, which makes it `violated`, or after the horizon.
    """

    symbols: tuple[str, ...]
    violated: bool


@dataclass(frozen=True, slots=True)
class ContinuationStart:
    """The context that continuations start from, and the estimate of its next symbol."""

    agent: int
    symbol: int
    row: int
    estimate: NestedEstimate


def sampled_continuations(
    counted: Counted,
    estimate: NestedEstimate,
    start: ContinuationStart,
    within: int,
    n: int,
    generator: np.random.Generator,
) -> tuple[SampledContinuation, ...]:
    """Return `n` continuations of at most `within` symbols; a rule that has stopped has empty ones."""
    boundary, steps = counted.symbols.boundary, counted.steps
    symbols = np.full(n, start.symbol, dtype=np.int32)
    rows = np.full(n, start.row, dtype=np.int32)
    violated = np.zeros(n, dtype=np.bool_)
    goes_on: Mask = ~steps.finals[rows]
    drawn = np.full((n, within), -1, dtype=np.int64)
    for place in range(within):
        places = np.flatnonzero(goes_on)
        if not len(places):
            break
        taken = start.estimate if place == 0 else estimate
        found = _next(counted, taken, start.agent, symbols[places], rows[places], generator)
        drawn[places, place] = found
        follows = found >= 0
        places, found = places[follows], found[follows]
        at_end, before = found == boundary, rows[places]
        inside = np.where(at_end, 0, found)
        verdict = np.where(
            at_end, steps.violates_at_end()[before], steps.verdicts[before, inside] == VIOLATED_STEP
        )
        violated[places] = verdict
        symbols[places], rows[places] = found, steps.next[before, inside]
        goes_on[:] = False
        goes_on[places] = ~at_end & ~verdict & ~steps.finals[rows[places]]
    rows_drawn: list[list[int]] = drawn.tolist()
    names = (*counted.symbols.symbols, END)
    return tuple(
        SampledContinuation(tuple(names[number] for number in row if number >= 0), is_violated)
        for row, is_violated in zip(rows_drawn, violated.tolist(), strict=True)
    )


def _next(
    counted: Counted,
    estimate: NestedEstimate,
    agent: int,
    symbols: I32,
    rows: I32,
    generator: np.random.Generator,
) -> I64:
    """Return a next symbol for each context, -1 where none may follow; equal contexts are drawn together."""
    pairs, of_pair = np.unique(np.stack([symbols, rows], axis=1), axis=0, return_inverse=True)
    agents = np.full(len(pairs), agent, dtype=np.int32)
    shares: F64 = next_probabilities(counted, estimate, Contexts(agents, pairs[:, 0], pairs[:, 1]))
    found = np.full(len(rows), -1, dtype=np.int64)
    for number, share in enumerate(shares):
        places = np.flatnonzero(of_pair.reshape(-1) == number)
        if share.any():
            found[places] = generator.choice(len(share), size=len(places), p=share / share.sum())
    return found
