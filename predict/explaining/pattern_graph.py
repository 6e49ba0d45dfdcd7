"""The graph of one rule and a pattern of its verdicts from a context on: all that may come after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...rules.model.arrays import F64, I64, Mask
from ..chain.learned import Counted
from ..estimation.expectation import NextSymbolChain
from ..risk.pattern import CLOSE_COLUMNS, EVENT_COLUMNS, NO_NAME, Pattern
from .chain_graph import ENDED_NODE, GOAL_NODE, ChainGraph
from .explanation import ExplainedChain
from .rule_graph import check_cells, known_contexts

_Node = tuple[int, int, int]
"""A state of the pattern, the symbol of the last event, and a row."""


def explained_pattern(
    counted: Counted,
    chain: NextSymbolChain,
    pattern: Pattern,
    start: tuple[int, int, int],
    within: int | None,
    solved: tuple[F64, F64],
    unseen: F64 | None = None,
) -> ExplainedChain:
    """Return the graph of what comes after an agent, symbol and row; that is its node 0.

    `solved` is `PatternSolver.by_state` of the horizon. The symbol `boundary + 1` is one that the chain
    lacks, as in `explained_chain`. Raises PredictError (TRL810) where the graph is too large.
    """
    stays: Mask = np.equal(chain.expectations(np.ones((chain.agents, chain.width, chain.rows))), 0)[start[0]]
    found = _reachable(counted, pattern, start, stays)
    nodes = np.array(list(found), dtype=np.int64)
    contexts, probabilities = known_contexts(counted, chain, start, nodes[:, 1:], unseen)
    targets, states = _targets(counted, pattern, found), nodes[:, 0]
    is_staying: Mask = np.equal(probabilities.sum(axis=1), 0)
    is_staying[0] &= start[1] <= counted.symbols.boundary
    if is_staying.any():
        probabilities = np.column_stack([probabilities, is_staying.astype(np.float64)])
        targets = np.column_stack([targets, _staying(pattern, found, is_forever=within is None)])
    graph = ChainGraph(probabilities, targets, pattern.holds[states])
    risks, after = (values[states, contexts.agents, contexts.symbols, contexts.states] for values in solved)
    if start[1] > counted.symbols.boundary:
        risks[0] = probabilities[0] @ graph.gains_of(0, after)
    return ExplainedChain(graph, contexts.states, counted.symbols, counted.steps, within, risks, after)


def _reachable(
    counted: Counted, pattern: Pattern, start: tuple[int, int, int], stays: Mask
) -> dict[_Node, int]:
    """Return the numbers of the nodes that come after the start, the first, where the pattern is open.

    `stays` are the contexts by [symbol, row] that nothing follows.
    """
    _, symbol, row = start
    found: dict[_Node, int] = {}
    expanded, waiting = {(0, row)}, [(0, row)]

    def add(state: int, at: int, row: int) -> None:
        while (state, at, row) not in found:
            found[state, at, row] = len(found)
            if at > counted.symbols.boundary or not stays[at, row]:
                return
            state = int(pattern.next[state, NO_NAME])
            if pattern.is_decided[state]:
                return

    add(0, symbol, row)
    while waiting:
        pair = waiting.pop()
        for following, (state, row) in enumerate(_after(counted, pattern, *pair)):
            if pattern.is_decided[state]:
                continue
            add(state, following, row)
            if (state, row) not in expanded:
                expanded.add((state, row))
                waiting.append((state, row))
        check_cells(counted, len(found))
    return found


def _after(counted: Counted, pattern: Pattern, state: int, row: int) -> Iterable[tuple[int, int]]:
    """Return the state of the pattern and the row after each symbol."""
    steps = counted.steps
    states: list[int] = pattern.next[state, EVENT_COLUMNS[steps.verdicts[row]]].tolist()
    return zip(states, steps.next[row].tolist(), strict=True)


def _targets(counted: Counted, pattern: Pattern, nodes: Mapping[_Node, int]) -> I64:
    """Return by [node, next] the node after a symbol, the end behind all symbols."""
    pairs = {(state, row): place for place, (state, row) in enumerate({(n[0], n[2]): None for n in nodes})}
    table = np.full((len(pairs), counted.symbols.boundary + 1), ENDED_NODE, dtype=np.int64)
    for (state, row), place in pairs.items():
        table[place, :-1] = [
            _node(pattern, nodes, (after, symbol, to))
            for symbol, (after, to) in enumerate(_after(counted, pattern, state, row))
        ]
        closed = pattern.next[state, CLOSE_COLUMNS[counted.steps.closings[row]]]
        table[place, -1] = GOAL_NODE if pattern.holds[closed] else ENDED_NODE
    return table[[pairs[state, row] for state, _, row in nodes]]


def _staying(pattern: Pattern, nodes: Mapping[_Node, int], *, is_forever: bool) -> I64:
    """Return the node after each one where an event without a verdict comes, or such events for ever."""
    if is_forever:
        lasting = pattern.lasting
        found = [GOAL_NODE if lasting[state] else ENDED_NODE for state, _, _ in nodes]
    else:
        found = [
            _node(pattern, nodes, (int(pattern.next[state, NO_NAME]), symbol, row))
            for state, symbol, row in nodes
        ]
    return np.array(found, dtype=np.int64)


def _node(pattern: Pattern, nodes: Mapping[_Node, int], node: _Node) -> int:
    """Return the number of a node, or a code where the pattern is decided in its state.

    A node that is not among these comes after contexts that nothing follows.
    """
    if pattern.is_decided[node[0]]:
        return GOAL_NODE if pattern.holds[node[0]] else ENDED_NODE
    return nodes.get(node, ENDED_NODE)
