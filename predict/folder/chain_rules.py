"""The rules of a chain compiled again from the packs in it, with the counts that they give meaning to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..chain.learned import Counted
from ..counting.watched_rules import WatchedRules
from ..validation.behaviour import ViolatingShare, violating_share
from .compiled_chain import compiled_chain

if TYPE_CHECKING:
    from .learned_chain import LearnedChain, RuleChain


@dataclass(frozen=True, slots=True)
class ChainRules:
    """A chain, its rules compiled again, and the counts of each rule in the order of `watched`."""

    chain: LearnedChain
    watched: WatchedRules
    rules: tuple[RuleChain, ...]
    counted: tuple[Counted, ...]

    def violating(self, place: int, error: float) -> ViolatingShare:
        """Return the violating sessions of a rule, of those that give the chain its intervals."""
        rule = self.rules[place]
        return violating_share(rule.violating, rule.sessions, error)


def chain_rules(chain: LearnedChain) -> ChainRules:
    """Compile the rules of a chain's packs, as `compiled_chain` does, and count by them."""
    watched = compiled_chain(chain)
    rules = tuple(chain.rule(rule.pack, rule.id) for rule in watched.rules)
    counted = tuple(
        rule.counted(watched.step_table(number, rule.symbols.symbols)) for number, rule in enumerate(rules)
    )
    return ChainRules(chain, watched, rules, counted)
