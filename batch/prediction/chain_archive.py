"""A chain with its rules compiled again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ...predict.chain.learned import Counted
from ...predict.counting.watched_rules import WatchedRules, watch
from ...predict.error import PredictError
from ...predict.folder.learned_chain import LearnedChain, RuleChain
from ...predict.folder.load import load_chain
from ...rules.packs.load import load_texts


@dataclass(frozen=True, slots=True)
class ChainRules:
    """A chain, its rules compiled again, and the counts of each rule in the order of `watched`."""

    chain: LearnedChain
    watched: WatchedRules
    rules: tuple[RuleChain, ...]
    counted: tuple[Counted, ...]


def chain_rules(path: Path) -> ChainRules:
    """Read a chain, and compile the rules of its packs. Raises PredictError for a folder that is no chain."""
    chain = load_chain(path)
    packs: object = chain.document.get("packs")
    if not isinstance(packs, dict):
        hint = "learn the chain again with this release"
        raise PredictError("TRL801", str(path), "chain.json has no packs", hint)
    every = load_texts(cast("dict[str, str]", packs))
    taken = tuple(rule for rule in every.rules if (rule.pack, rule.id) in chain.rules)
    watched = watch(replace(every, rules=taken))
    rules = tuple(chain.rule(rule.pack, rule.id) for rule in watched.rules)
    counted: list[Counted] = []
    for number, rule in enumerate(rules):
        chain.check(rule.pack, rule.rule, watched.compiled.digests[number])
        counted.append(rule.counted(watched.step_table(number, rule.symbols.symbols)))
    return ChainRules(chain, watched, rules, tuple(counted))
