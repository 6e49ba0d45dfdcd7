"""A learned chain as it is followed: its rules among those that are judged, with their thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...rules.engine.judge import CompiledRules
from ...rules.model.digest import rule_digest
from ...rules.model.rule import RuleSet
from ..chain.contexts import START
from ..counting.watched_rules import WatchedRules
from ..error import PredictError
from ..folder.compiled_chain import compiled_chain
from ..folder.learned_chain import ABSENT, LearnedChain, RuleChain
from .followed_risks import ContextRisk, FollowedRisks


@dataclass(frozen=True, slots=True)
class FollowedChain:
    """The rules of a chain that are followed, by their numbers in `watched`, and the chain's digest.

    `unknown` are the judged rules that the chain was not learned from, and `no_threshold` those that it has
    no threshold for. `above` is the threshold of rules without a guaranteed one, None without any.
    """

    digest: str
    watched: WatchedRules
    risks: Mapping[int, FollowedRisks]
    unknown: tuple[str, ...] = ()
    no_threshold: tuple[str, ...] = ()
    above: float | None = None


def followed_chain(chain: LearnedChain, rule_set: RuleSet, above: float | None) -> FollowedChain:
    """Return the chain for the rules of a set; `above` is the threshold of rules without a guaranteed one.

    The horizon is the longest that is a number of events. Raises PredictError (TRL803) where the chain was
    learned from none of the rules.
    """
    watched = compiled_chain(chain)
    within = max(each for each in chain.horizons if each is not None)
    judged = {(rule.pack, rule.id): rule_digest(rule) for rule in rule_set.rules}
    risks: dict[int, FollowedRisks] = {}
    no_threshold: list[str] = []
    for number, rule in enumerate(watched.rules):
        digest = watched.compiled.digests[number]
        if judged.get((rule.pack, rule.id)) != digest:
            continue
        found = chain.rule(rule.pack, rule.id)
        threshold = _guaranteed(found, within) or above
        if threshold is None:
            no_threshold.append(f"{rule.pack}/{rule.id}")
        else:
            contexts = _contexts(found, within)
            risks[number] = FollowedRisks(rule.pack, rule.id, digest, within, threshold, contexts)
    unknown = _unknown(watched.compiled, judged)
    if len(unknown) == len(judged):
        hint = "learn the chain again from these rules"
        raise PredictError("TRL803", chain.where, "the chain was learned from none of these rules", hint)
    return FollowedChain(chain.digest, watched, risks, unknown, tuple(no_threshold), above)


def followed_if_any(chain: LearnedChain, rule_set: RuleSet, above: float | None) -> FollowedChain | None:
    """Return the chain for the rules of a set like `followed_chain`, None if it was learned from none."""
    try:
        return followed_chain(chain, rule_set, above)
    except PredictError:
        return None


def _unknown(compiled: CompiledRules, judged: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """Return the names of the judged rules whose digest is none of these rules'."""
    return tuple(
        f"{pack}/{rule}" for (pack, rule), digest in judged.items() if digest not in compiled.digests
    )


def _guaranteed(rule: RuleChain, within: int) -> float | None:
    """Return the threshold with a guarantee. One of 0 warns of every session, and is none.

    That of a chain of several agents holds for the risks of each agent, and those of any other are followed.
    """
    if len(rule.agents) > 1:
        return None
    thresholds = {each["within"]: each["threshold"] for each in rule.content["thresholds"]}
    return thresholds.get(within) or None


def _contexts(rule: RuleChain, within: int) -> Iterator[ContextRisk]:
    """Yield the contexts after an event; one that distinguishes agents has risks of any other."""
    column, following, numbers = rule.horizons[within], rule.horizons[1], rule.numbers[-1]
    for symbol, place in rule.symbol_numbers.items():
        for (state, memory), row in rule.rows.items():
            number = int(numbers[place, row])
            if number != ABSENT and symbol != START:
                yield ContextRisk(
                    symbol,
                    state,
                    memory,
                    risk=float(rule.risks[number, column]),
                    low=float(rule.low[number, column]),
                    high=float(rule.high[number, column]),
                    sessions=int(rule.context_sessions[number, column]),
                    basis=rule.bases[number],
                    next_high=float(rule.high[number, following]),
                )
