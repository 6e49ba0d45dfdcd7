"""The explanations of risks of a learned chain: what may come after a context."""

from __future__ import annotations

from functools import cached_property

from ..chain.learned import Counted
from ..estimation.expectation import NextSymbolChain
from ..folder.chain_rules import ChainRules, chain_rules
from ..folder.learned_chain import LearnedChain
from .explanation import RiskExplanation
from .rule_graph import explained_chain


class ContextExplanations:
    """The explanations of a chain's contexts; its rules are compiled when the first one is asked for."""

    def __init__(self, chain: LearnedChain) -> None:
        self._chain = chain
        self._following: dict[int, NextSymbolChain] = {}

    def explain(
        self,
        rule: tuple[str, str],
        context: tuple[str, int, str],
        within: int | None,
        paths: int,
    ) -> RiskExplanation | None:
        """Return the explanation of a rule's risk after a symbol, in a machine state and a memory.

        There is none for a symbol that the chain lacks, and none where the chain distinguishes agents.
        """
        place = self._places[rule]
        counted = self._rules.counted[place]
        start = _start(counted, context)
        if start is None or len(counted.agents) > 1:
            return None
        if place not in self._following:
            self._following[place] = NextSymbolChain(counted, self._rules.rules[place].estimate(counted))
        return explained_chain(counted, self._following[place], start, within).explain(0, paths)

    @cached_property
    def _rules(self) -> ChainRules:
        return chain_rules(self._chain)

    @cached_property
    def _places(self) -> dict[tuple[str, str], int]:
        return {(rule.pack, rule.rule): place for place, rule in enumerate(self._rules.rules)}


def _start(counted: Counted, context: tuple[str, int, str]) -> tuple[int, int, int] | None:
    """Return the numbers of the only agent, of a symbol, and of the row with a state and a memory."""
    symbol, state, memory = context
    steps = counted.steps
    rows = {key: row for row, key in enumerate(zip(steps.states.tolist(), steps.memory, strict=True))}
    if symbol not in counted.symbols.symbols or (state, memory) not in rows:
        return None
    return 0, counted.symbols.symbols.index(symbol), rows[state, memory]
