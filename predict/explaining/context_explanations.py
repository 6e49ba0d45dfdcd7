"""The explanations of risks of a learned chain: what may come after a context."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ...rules.model.arrays import F64
from ..chain.contexts import UNSEEN
from ..chain.learned import Counted
from ..estimation.expectation import NextSymbolChain
from ..folder.chain_rules import ChainRules, chain_rules
from ..folder.learned_chain import LearnedChain
from ..risk.rule_risks import unseen_shares
from .explanation import RiskExplanation
from .rule_graph import explained_chain


@dataclass(frozen=True, slots=True)
class _Following:
    """A rule's counts, with an agent for any other one, and the distributions of what follows."""

    counted: Counted
    chain: NextSymbolChain
    unseen: F64


class ContextExplanations:
    """The explanations of a chain's contexts; its rules are compiled when the first one is asked for.

    Where the chain distinguishes agents, they are those of any other agent, as live risks are.
    """

    def __init__(self, chain: LearnedChain) -> None:
        self._chain = chain
        self._following: dict[int, _Following] = {}

    def explain(
        self,
        rule: tuple[str, str],
        context: tuple[str, int, str],
        within: int | None,
        paths: int,
    ) -> RiskExplanation | None:
        """Return the explanation of a rule's risk after a symbol, in a machine state and a memory.

        A symbol that the chain lacks is `UNSEEN`. There is none for a state that the machine cannot be in.
        """
        following = self._followed(self._places[rule])
        counted = following.counted
        start = _start(counted, context)
        if start is None:
            return None
        found = explained_chain(counted, following.chain, start, within, following.unseen)
        return found.explain(0, paths)

    def _followed(self, place: int) -> _Following:
        if place not in self._following:
            rule, counted = self._rules.rules[place], self._rules.counted[place]
            if len(counted.agents) > 1:
                counted = replace(counted, agents=(*counted.agents, ""))
            unseen = unseen_shares(counted, rule.unseen_estimate(counted))
            chain = NextSymbolChain(counted, rule.estimate(counted))
            self._following[place] = _Following(counted, chain, unseen)
        return self._following[place]

    @cached_property
    def _rules(self) -> ChainRules:
        return chain_rules(self._chain)

    @cached_property
    def _places(self) -> dict[tuple[str, str], int]:
        return {(rule.pack, rule.rule): place for place, rule in enumerate(self._rules.rules)}


def _start(counted: Counted, context: tuple[str, int, str]) -> tuple[int, int, int] | None:
    """Return the numbers of the last agent, of a symbol, and of the row with a state and a memory."""
    symbol, state, memory = context
    steps, boundary = counted.steps, counted.symbols.boundary
    rows = {key: row for row, key in enumerate(zip(steps.states.tolist(), steps.memory, strict=True))}
    symbols = {text: number for number, text in enumerate(counted.symbols.symbols)} | {UNSEEN: boundary + 1}
    if symbol not in symbols or (state, memory) not in rows:
        return None
    return max(len(counted.agents), 1) - 1, symbols[symbol], rows[state, memory]
