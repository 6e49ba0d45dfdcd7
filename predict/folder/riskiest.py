"""The contexts of a chain with the greatest risks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..chain.risks import Basis
from .learned_chain import RuleChain


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A context with its texts and its risk."""

    pack: str
    rule: str
    agent: str
    symbol: str
    memory: str
    state: int
    residual: str
    risk: float
    low: float
    high: float
    sessions: int
    violating: int


def riskiest(rules: Iterable[RuleChain], within: int | None, top: int | None = None) -> list[ShownContext]:
    """Return the contexts that sessions came to with the greatest risks, the riskiest first."""
    every = [context for rule in rules for context in _contexts(rule, within)]
    every.sort(key=lambda each: (-each.risk, -each.sessions, each.pack, each.rule, each.symbol, each.state))
    return every[:top]


def _contexts(rule: RuleChain, within: int | None) -> Iterator[ShownContext]:
    column = rule.horizons[within]
    rows = list(rule.contexts.iter_rows(named=True))
    for number in np.flatnonzero(~np.isnan(rule.risks[:, column])).tolist():
        if rule.bases[number] is Basis.CONTEXT:
            row = rows[number]
            yield ShownContext(
                pack=rule.pack,
                rule=rule.rule,
                agent=row["agent"],
                symbol=row["symbol"],
                memory=row["memory"],
                state=row["state"],
                residual=row["residual"],
                risk=float(rule.risks[number, column]),
                low=float(rule.low[number, column]),
                high=float(rule.high[number, column]),
                sessions=int(rule.context_sessions[number, column]),
                violating=int(rule.context_violating[number, column]),
            )
