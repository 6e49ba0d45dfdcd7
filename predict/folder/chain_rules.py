"""The rules of a chain compiled again from the packs in it, with the counts that they give meaning to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ...rules.packs.load import load_texts
from ..chain.learned import Counted
from ..counting.watched_rules import WatchedRules, watch
from ..error import PredictError
from ..validation.behaviour import ViolatingShare, violating_share

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
    """Compile the rules of a chain's packs.

    Raises PredictError: TRL801 where the chain has no packs, TRL803 where it was learned from other rules.
    """
    packs: object = chain.document.get("packs")
    if not isinstance(packs, dict):
        hint = "learn the chain again with this release"
        raise PredictError("TRL801", chain.where, "chain.json has no packs", hint)
    every = load_texts(cast("dict[str, str]", packs))
    taken = tuple(rule for rule in every.rules if (rule.pack, rule.id) in chain.rules)
    watched = watch(replace(every, rules=taken))
    rules = tuple(chain.rule(rule.pack, rule.id) for rule in watched.rules)
    counted: list[Counted] = []
    for number, rule in enumerate(rules):
        chain.check(rule.pack, rule.rule, watched.compiled.digests[number])
        counted.append(rule.counted(watched.step_table(number, rule.symbols.symbols)))
    return ChainRules(chain, watched, rules, tuple(counted))
