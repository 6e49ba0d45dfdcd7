"""The probabilities of a pattern over the coming verdicts, in the contexts of a loaded chain."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...rules.model.arrays import F64
from ..chain.learned import Counted
from ..chain.risks import DIGITS, Basis
from ..estimation.expectation import NextSymbolChain
from ..risk.pattern import Pattern, PatternSolver
from ..risk.rule_risks import unseen_shares, with_unseen
from .chain_rules import chain_rules

if TYPE_CHECKING:
    from .learned_chain import LearnedChain, RuleChain


@dataclass(frozen=True, slots=True)
class PatternContext:
    """A context with its texts, and the probability that a pattern holds; it has no interval."""

    pack: str
    rule: str
    agent: str
    symbol: str
    memory: str
    state: int
    residual: str
    risk: float


def pattern_risks(rule: RuleChain, counted: Counted, pattern: Pattern, within: int | None) -> F64:
    """Return by number of the context the probability of the pattern within so many events, or ever (None).

    It is rounded like every risk, and NaN where the rule has stopped. Raises PredictError (TRL810) where the
    product of chain, rule and pattern is too large.
    """
    if len(counted.agents) > 1:
        counted = replace(counted, agents=(*counted.agents, ""))
    chain = NextSymbolChain(counted, rule.estimate(counted))
    values, gains = PatternSolver(counted, chain, pattern).within(within)
    shares = unseen_shares(counted, rule.unseen_estimate(counted))
    table = with_unseen(shares, values, gains)
    table[:, -1, shares.sum(axis=1) == 0] = pattern.quiet(within)
    table = np.round(np.clip(table, 0.0, 1.0), DIGITS)
    table[:, :, counted.steps.finals] = np.nan
    rows = {key: row for row, key in enumerate(_row_names(counted))}
    agents = {name: number for number, name in enumerate(rule.agents)}
    places = [
        (agents.get(agent, len(agents)), rule.symbol_numbers[symbol], rows[state, memory])
        for agent, symbol, state, memory in rule.contexts.select(
            "agent", "symbol", "state", "memory"
        ).iter_rows()
    ]
    return table[tuple(np.array(places, dtype=np.int64).reshape(-1, 3).T)]


def _row_names(counted: Counted) -> Iterator[tuple[int, str]]:
    """Yield the machine state and the memory text of each row."""
    return zip(counted.steps.states.tolist(), counted.steps.memory, strict=True)


def likeliest(
    chain: LearnedChain, rules: Collection[RuleChain], pattern: Pattern, within: int | None, top: int
) -> list[PatternContext]:
    """Return the contexts of rules that sessions came to with the greatest probabilities, greatest first."""
    compiled = chain_rules(chain)
    names = {(rule.pack, rule.rule) for rule in rules}
    every = [
        context
        for rule, counted in zip(compiled.rules, compiled.counted, strict=True)
        if (rule.pack, rule.rule) in names
        for context in _contexts(rule, pattern_risks(rule, counted, pattern, within))
    ]
    every.sort(key=lambda each: (-each.risk, each.pack, each.rule, each.agent, each.symbol, each.state))
    return every[:top]


def _contexts(rule: RuleChain, risks: F64) -> Iterator[PatternContext]:
    for number, row in enumerate(rule.contexts.iter_rows(named=True)):
        if rule.bases[number] is Basis.CONTEXT and not np.isnan(risks[number]):
            texts = {name: row[name] for name in ("agent", "symbol", "memory", "state", "residual")}
            yield PatternContext(pack=rule.pack, rule=rule.rule, **texts, risk=float(risks[number]))
