"""The rules of a chain, compiled again from the packs that it was learned from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...rules.packs.load import load_texts
from ..counting.watched_rules import WatchedRules, watch
from ..error import PredictError

if TYPE_CHECKING:
    from .learned_chain import LearnedChain


def compiled_chain(chain: LearnedChain) -> WatchedRules:
    """Compile the rules of a chain.

    Raises RuleError for packs with mistakes, and PredictError (TRL803) where the packs have other rules than
    the chain, or where this release numbers the states of a rule otherwise.
    """
    learned = load_texts(dict(chain.document["packs"]))
    taken = tuple(rule for rule in learned.rules if (rule.pack, rule.id) in chain.rules)
    watched = watch(replace(learned, rules=taken))
    found = {
        (rule.pack, rule.id): (watched.compiled.digests[number], watched.fingerprint(number))
        for number, rule in enumerate(watched.rules)
    }
    for key, rule in chain.rules.items():
        if found.get(key) != (rule.digest, rule.content["fingerprint"]):
            what = f"the packs of the chain do not have {rule.pack}/{rule.rule} as it was learned"
            raise PredictError("TRL803", chain.where, what, "learn the chain again with this release")
    return watched
