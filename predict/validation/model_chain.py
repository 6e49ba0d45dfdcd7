"""The interval chain of a rule: every distribution of the next symbol that the counts do not exclude.

Each transition from a context has the Clopper-Pearson interval of its count, with the error shared among all
transitions, those never seen included: so with that confidence the true chain over these contexts is among
those within the intervals. A context without a count may have any successor. A symbol at which the rule
becomes unjudged does not follow: the chain is that of sequences that go on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64, I64
from ..chain.learned import Counted
from ..chain.steps import CUT_STEP, VIOLATED_STEP
from ..error import PredictError
from ..explicit.chain import ExplicitChain
from ..explicit.intervals import reach_bounds, reach_bounds_within
from .context_intervals import binomial_interval

TRANSITIONS_MAX = 2_000_000
"""The most transitions of an interval chain, before those to the same state are joined."""

LABEL = "violated"


@dataclass(frozen=True, slots=True)
class ModelChain:
    """The interval chain of one rule.

    The first states are the contexts of the counts, in their order; then come the contexts without a count,
    one for each agent and row of the step table, the verdict against the agent, and the end of the sequence.
    """

    chain: ExplicitChain
    contexts: int

    def bounds(self, within: int | None) -> tuple[F64, F64]:
        """Return for each context the least and the greatest risk over all chains within the intervals.

        With a horizon each event may choose a chain of its own. Where the rule has stopped both are 0.
        """
        targets = self.chain.mask(self.chain.labels[LABEL])
        if within is None:
            low, high = reach_bounds(self.chain, targets)
        else:
            low, high = reach_bounds_within(self.chain, targets, within)
        return low[: self.contexts], high[: self.contexts]


def model_chain(counted: Counted, delta: float, least: float = 0.0) -> ModelChain:
    """Return the interval chain that the true one is in with a confidence of 1 - delta.

    `least` is a lower end to take instead of a smaller one, for readers that want none of 0. Raises
    PredictError (TRL810) where the chain has too many transitions.
    """
    contexts, rows = len(counted.contexts), len(counted.steps.states)
    nexts, agents = counted.symbols.boundary + 1, max(1, len(counted.agents))
    unseen = agents * rows
    if (contexts + unseen) * nexts > TRANSITIONS_MAX:
        what = f"{(contexts + unseen) * nexts:,} transitions of {counted.pack}/{counted.rule}"
        raise PredictError("TRL810", "chain", what, f"an interval chain may have {TRANSITIONS_MAX:,}")
    counts = np.zeros((contexts + unseen, nexts), dtype=np.int64)
    np.add.at(counts, (counted.counts.contexts, counted.counts.nexts), counted.counts.counts)
    cells = np.concatenate(
        [counted.contexts.agents.astype(np.int64) * rows + counted.contexts.states, np.arange(unseen)]
    )
    can_follow = np.ones((rows, nexts), dtype=np.bool_)
    can_follow[:, :-1] = counted.steps.verdicts != CUT_STEP
    used = can_follow[cells % rows]
    counts *= used
    totals = np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape)
    error = delta / max(contexts * nexts, 1)
    low, high = binomial_interval(counts[used], totals[used], error)
    sources, columns = np.nonzero(used)
    targets = _targets(counted, agents)[cells[sources], columns]
    return ModelChain(joined_chain(sources, targets, low, high, contexts + unseen, least), contexts)


def _targets(counted: Counted, agents: int) -> I64:
    """Return the state after each next symbol, by (agent and row, next symbol)."""
    steps, contexts = counted.steps, counted.contexts
    rows, symbols = steps.next.shape
    known = len(contexts)
    violated = known + agents * rows
    # A context that the counts lack is one without a count in its row.
    unseen = known + np.arange(agents * rows, dtype=np.int64).reshape(agents, 1, rows)
    places = np.repeat(unseen, symbols, axis=1)
    is_event = contexts.symbols < symbols
    at = contexts.agents[is_event], contexts.symbols[is_event], contexts.states[is_event]
    places[at] = np.flatnonzero(is_event)
    found = np.empty((agents, rows, symbols + 1), dtype=np.int64)
    found[:, :, :symbols] = places[:, np.arange(symbols)[None, :], steps.next]
    found[:, :, :symbols][:, steps.verdicts == VIOLATED_STEP] = violated
    found[:, :, symbols] = np.where(steps.violates_at_end(), violated, violated + 1)
    found[:, steps.finals, :] = violated + 1
    return found.reshape(agents * rows, symbols + 1)


def joined_chain(sources: I64, targets: I64, low: F64, high: F64, size: int, least: float) -> ExplicitChain:
    """Return the chain of these states, the verdict against the agent, and the end.

    The intervals of transitions to the same state are added up.
    """
    states = size + 2
    keys = sources * states + targets
    # The last two states stay where they are.
    absorbing = np.array([size, size + 1])
    distinct, places = np.unique(np.concatenate([keys, absorbing * (states + 1)]), return_inverse=True)
    lows = np.bincount(places, np.concatenate([low, [1.0, 1.0]]))
    highs = np.minimum(np.bincount(places, np.concatenate([high, [1.0, 1.0]])), 1.0)
    starts = np.zeros(states + 1, dtype=np.int64)
    np.cumsum(np.bincount(distinct // states, minlength=states), out=starts[1:])
    only = (np.diff(starts) == 1)[distinct // states]
    return ExplicitChain(
        starts=starts,
        targets=distinct % states,
        low=np.where(only, 1.0, np.maximum(lows, least)),
        high=np.where(only, 1.0, np.maximum(highs, least)),
        labels={LABEL: np.array([size]), "end": np.array([size + 1])},
        initial=0,
        absorbing=absorbing,
    )
