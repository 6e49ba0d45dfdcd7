"""The next symbols that decide a risk: the probability of each and the risk after it, by who acts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...rules.model.arrays import F64
from ...schemas.event import Kind
from .chain_graph import ChainGraph


class Actor(StrEnum):
    """The side that an event comes from."""

    AGENT = "agent"
    ENVIRONMENT = "environment"


AGENT_KINDS = (Kind.ASSISTANT, Kind.TOOL_CALL)
"""The kinds of the agent's events; customers, tools and the close are the environment."""


@dataclass(frozen=True, slots=True)
class NextSymbol:
    """One next symbol of a context: its probability, and the risk once it came.

    `risk` counts the symbol's own verdict, so the risk of the context is the mean of them by probability.
    """

    symbol: str
    actor: Actor
    probability: float
    risk: float


def actor_of(symbol: str) -> Actor:
    """Return the side that a symbol comes from; rare ones have no kind and are the environment's."""
    return Actor.AGENT if symbol.partition(":")[0] in AGENT_KINDS else Actor.ENVIRONMENT


def next_symbols(graph: ChainGraph, node: int, after: F64, names: tuple[str, ...]) -> list[NextSymbol]:
    """Return the next symbols with a probability, by their share of the risk, the greatest first.

    `after` are the nodes' risks within one event less, and `names` the texts of all next symbols.
    """
    risks = graph.gains_of(node, after).tolist()
    found = [
        NextSymbol(symbol, actor_of(symbol), probability, risk)
        for symbol, probability, risk in zip(names, graph.probabilities[node].tolist(), risks, strict=True)
        if probability > 0
    ]
    return sorted(found, key=lambda each: (-each.probability * each.risk, -each.probability, each.symbol))
