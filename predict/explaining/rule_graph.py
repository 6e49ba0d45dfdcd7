"""The graph of one rule from a context on: all that may come after it."""

from __future__ import annotations

import numpy as np

from ...rules.model.arrays import F64, I64
from ..chain.contexts import Contexts
from ..chain.learned import Counted
from ..chain.steps import CUT_STEP, VIOLATED_STEP
from ..error import PredictError
from ..estimation.expectation import NextSymbolChain
from ..risk.solve import RiskSolver
from .chain_graph import ENDED_NODE, GOAL_NODE, ChainGraph
from .explanation import ExplainedChain

CELLS_MAX = 50_000_000
"""The most pairs of a node and a next symbol."""


def explained_chain(
    counted: Counted,
    chain: NextSymbolChain,
    start: tuple[int, int, int],
    within: int | None,
    unseen: F64 | None = None,
) -> ExplainedChain:
    """Return the graph of what comes after an agent, symbol and row; that is its node 0.

    The symbol `boundary + 1` is one that the chain lacks: `unseen` is the distribution of the next symbol
    after it by [row, next] (`unseen_shares`). Raises PredictError (TRL810) where the graph is too large.
    """
    nodes = _reachable(counted, start)
    check_cells(counted, len(nodes))
    contexts, probabilities = known_contexts(counted, chain, start, nodes, unseen)
    graph = ChainGraph(probabilities, _targets(counted, nodes))
    if within is not None:
        risks, after = graph.risks_within(within), graph.risks_within(within - 1)
    else:
        risks = RiskSolver(counted, chain).ever()[contexts.agents, contexts.symbols, contexts.states]
        if start[1] > counted.symbols.boundary:
            risks[0] = probabilities[0] @ graph.gains_of(0, risks)
        after = risks
    return ExplainedChain(graph, contexts.states, counted.symbols, counted.steps, within, risks, after)


def check_cells(counted: Counted, nodes: int) -> None:
    """Raise PredictError (TRL810) where a graph of so many nodes is too large."""
    width = counted.symbols.boundary + 1
    if nodes * width > CELLS_MAX:
        what = f"{counted.pack}/{counted.rule}: {nodes:,} contexts of {width:,} next symbols"
        raise PredictError("TRL810", "chain", what, f"an explanation may have {CELLS_MAX:,} pairs")


def known_contexts(
    counted: Counted, chain: NextSymbolChain, start: tuple[int, int, int], nodes: I64, unseen: F64 | None
) -> tuple[Contexts, F64]:
    """Return the contexts of nodes, pairs of a symbol and a row, and what follows them, by [node, next].

    The first is the start, the others have its agent. A symbol that the chain lacks is another one there.
    """
    symbols, rows = nodes[:, 0].astype(np.int32), nodes[:, 1].astype(np.int32)
    is_unseen = start[1] > counted.symbols.boundary
    # The node of a symbol that the chain lacks has the distribution of its row, whatever is estimated here.
    symbols[0] = 0 if is_unseen else symbols[0]
    contexts = Contexts(np.full(len(nodes), start[0], dtype=np.int32), symbols, rows)
    probabilities = chain.probabilities(contexts)
    if is_unseen:
        assert unseen is not None, "the symbol is of the chain, or what follows others is given"
        probabilities[0] = unseen[start[2]]
    return contexts, probabilities


def _reachable(counted: Counted, start: tuple[int, int, int]) -> I64:
    """Return the pairs of a symbol and a row that come after the start, which is the first."""
    _, symbol, row = start
    found: dict[tuple[int, int], None] = {(symbol, row): None}
    rows, waiting = {row}, [row]
    while waiting:
        following: list[int] = counted.steps.next[waiting.pop()].tolist()
        found |= dict.fromkeys(enumerate(following))
        waiting += [target for target in dict.fromkeys(following) if target not in rows]
        rows.update(following)
    return np.array(list(found), dtype=np.int64)


def _targets(counted: Counted, nodes: I64) -> I64:
    steps, pairs = counted.steps, nodes.tolist()
    number: dict[tuple[int, int], int] = {(pair[0], pair[1]): place for place, pair in enumerate(pairs)}
    rows = sorted({row for _, row in number})
    table = np.full((len(steps.states), counted.symbols.boundary + 1), ENDED_NODE, dtype=np.int64)
    for row in rows:
        if not steps.finals[row]:
            table[row, :-1] = [number[pair] for pair in enumerate(steps.next[row].tolist())]
    table[:, :-1][steps.verdicts == VIOLATED_STEP] = GOAL_NODE
    table[:, :-1][steps.verdicts == CUT_STEP] = ENDED_NODE
    table[steps.violates_at_end(), -1] = GOAL_NODE
    table[steps.finals] = ENDED_NODE
    return table[nodes[:, 1]]
