"""The product of a learned chain and a rule's machine, written out as an explicit chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...rules.model.arrays import I64
from ..chain.contexts import START, Contexts
from ..chain.learned import Counted
from ..chain.steps import VIOLATED_STEP
from ..error import PredictError
from ..estimation.expectation import next_probabilities
from ..estimation.nested import NestedEstimate
from ..explicit.chain import ExplicitChain
from ..validation.model_chain import TRANSITIONS_MAX, joined_chain, model_chain
from .rule_risks import other_contexts


@dataclass(frozen=True, slots=True)
class StateName:
    """The meaning of a state: a context. The symbol is None for all that a row's counts lack."""

    state: int
    agent: str
    symbol: str | None
    memory: str
    machine_state: int
    residual: str


@dataclass(frozen=True, slots=True)
class ProductChain:
    """The product of one rule; the states of `contexts` are the first, the violated and the ended one last.

    A symbol of `contexts` above that of `start` stands for all contexts of the row that the counts lack.
    """

    counted: Counted
    contexts: Contexts
    chain: ExplicitChain

    def names(self) -> Iterator[StateName]:
        """Yield the meaning of each state that is a context."""
        counted, steps = self.counted, self.counted.steps
        symbols = (*counted.symbols.symbols, START, None)
        places: list[int] = self.contexts.symbols.tolist()
        rows: list[int] = self.contexts.states.tolist()
        agents: list[int] = self.contexts.agents.tolist()
        for state, (agent, symbol, row) in enumerate(zip(agents, places, rows, strict=True)):
            yield StateName(
                state,
                counted.agents[agent],
                symbols[symbol],
                steps.memory[row],
                int(steps.states[row]),
                steps.residuals[row],
            )


def product_chain(counted: Counted, estimate: NestedEstimate) -> ProductChain:
    """Return the product, in which the probability of coming to `violated` is the risk of a state's context.

    Raises PredictError (TRL810) where it has too many transitions.
    """
    others = other_contexts(counted)
    others = others.of(np.flatnonzero(others.symbols <= counted.symbols.boundary))
    contexts = Contexts(
        np.concatenate([counted.contexts.agents, others.agents]),
        np.concatenate([counted.contexts.symbols, others.symbols]),
        np.concatenate([counted.contexts.states, others.states]),
    )
    size, width = len(contexts), counted.symbols.boundary + 1
    if size * width > TRANSITIONS_MAX:
        what = f"{size * width:,} transitions of {counted.pack}/{counted.rule}"
        raise PredictError("TRL810", "chain", what, f"a written product may have {TRANSITIONS_MAX:,}")
    shares = next_probabilities(counted, estimate, contexts)
    targets = _targets(counted, contexts)
    # A context that nothing follows stays where it is.
    stays = np.flatnonzero(shares.sum(axis=1) == 0)
    shares[stays, 0], targets[stays, 0] = 1.0, stays
    sources, columns = np.nonzero(shares)
    taken = shares[sources, columns]
    chain = joined_chain(sources, targets[sources, columns], taken, taken, size, 0.0)
    return ProductChain(counted, contexts, _from_start(counted, contexts, chain))


def interval_product(counted: Counted, delta: float, least: float) -> ProductChain:
    """Return the product with the intervals of the counts; `least` is as in `model_chain`."""
    found, rows = model_chain(counted, delta, least), len(counted.steps.states)
    agents = max(1, len(counted.agents))
    every = np.arange(agents * rows, dtype=np.int32)
    contexts = Contexts(
        np.concatenate([counted.contexts.agents, every // rows]),
        np.concatenate([counted.contexts.symbols, np.full_like(every, counted.symbols.boundary + 1)]),
        np.concatenate([counted.contexts.states, every % rows]),
    )
    return ProductChain(counted, contexts, _from_start(counted, contexts, found.chain))


def _from_start(counted: Counted, contexts: Contexts, chain: ExplicitChain) -> ExplicitChain:
    """Return the chain with the first start of a sequence as its initial state."""
    starts = np.flatnonzero(contexts.symbols == counted.symbols.boundary)
    return replace(chain, initial=int(starts[0]) if len(starts) else 0)


def _targets(counted: Counted, contexts: Contexts) -> I64:
    """Return the state after each context and next symbol."""
    steps, size = counted.steps, len(contexts)
    rows, symbols = steps.next.shape
    numbers = np.full((max(1, len(counted.agents)), symbols + 1, rows), -1, dtype=np.int64)
    numbers[contexts.agents, contexts.symbols, contexts.states] = np.arange(size)
    found = np.empty((size, symbols + 1), dtype=np.int64)
    every = np.arange(symbols, dtype=np.int64)[None, :]
    found[:, :symbols] = numbers[contexts.agents[:, None], every, steps.next[contexts.states]]
    assert found[:, :symbols].min(initial=0) >= 0, "a context leads to one that cannot occur"
    found[:, :symbols][steps.verdicts[contexts.states] == VIOLATED_STEP] = size
    found[:, symbols] = np.where(steps.violates_at_end()[contexts.states], size, size + 1)
    found[steps.finals[contexts.states]] = size + 1
    return found
