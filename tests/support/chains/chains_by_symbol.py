"""Chains whose risks depend on the symbol alone, their crossings in plain Python, and stored states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import nan

import msgspec
from tracline.predict.chain.contexts import UNSEEN
from tracline.predict.counting.symbols import OWN
from tracline.predict.counting.watched_rules import watch
from tracline.predict.following.followed_chain import FollowedChain
from tracline.predict.following.followed_risks import ContextRisk, FollowedRisks
from tracline.predict.following.live.followed_session import FollowedSession
from tracline.predict.following.loaded_chains import LoadedChains
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.rule import RuleSet
from tracline.schemas.paged.page import page_of, stored_page

from .slow_counting import SlowSession
from .slow_following import slow_crossings

CHAIN = "ab" * 32
RISKS = {"user:p": 0.7, "user:q": 0.30000000001, "user:p,q": 0.45, "user:p+own": 0.5, UNSEEN: 0.1}
"""The risk of each symbol in any state."""


def chain_of(
    rule_set: RuleSet, risks_by_symbol: Mapping[str, float] | None = None, next_high: float = nan
) -> FollowedChain:
    """Return a chain of all rules, whose risk depends on the symbol alone; `next_high` limits each event."""
    watched = watch(rule_set)
    risks = {
        number: FollowedRisks(
            rule.pack,
            rule.id,
            watched.compiled.digests[number],
            5,
            0.5,
            [
                ContextRisk(symbol, state, memory, risk, 0.0, 1.0, 3, "context", next_high)
                for symbol, risk in (risks_by_symbol or RISKS).items()
                for state in range(20)
                for memory in ("", OWN)
            ],
        )
        for number, rule in enumerate(rule_set.rules)
    }
    return FollowedChain(CHAIN, watched, risks)


def expected_crossings(rule_set: RuleSet, sessions: list[SlowSession]) -> set[tuple]:
    """Return session, rule, seq, slice and level of each crossing."""
    found: set[tuple] = set()
    for rule in rule_set.rules:
        for each in sessions:
            events = [e._replace(seen=rule.steps is None or bool(e.true)) for e in each.events]
            of_rule = slow_crossings(
                compile_rule(rule),
                SlowSession(each.name, events),
                rule.for_each is not None,
                lambda symbol, _: RISKS.get(symbol, RISKS[UNSEEN]),
                0.5,
            )
            found |= {(each.session, rule.id, each.event + 1, each.value, each.level) for each in of_rule}
    return found


class ChainsBySymbol(LoadedChains):
    """The one chain of `chain_of`, as a process has it; without `is_loaded` it lacks the chain."""

    def __init__(
        self, *, is_loaded: bool = True, risks: Mapping[str, float] | None = None, next_high: float = nan
    ) -> None:
        super().__init__()
        self.is_loaded, self.risks, self.next_high = is_loaded, risks, next_high

    @property
    def digests(self) -> frozenset[str]:
        """The digest, where the chain is loaded."""
        return frozenset({CHAIN} if self.is_loaded else ())

    def followed(self, digest: str, rule_set: RuleSet) -> FollowedChain | None:
        """The chain of these rules."""
        found = chain_of(rule_set, self.risks, self.next_high)
        return found if self.is_loaded and digest == CHAIN else None


def chain_by_state(rule_set: RuleSet) -> FollowedChain:
    """Return a chain of all rules that knows no symbol: the risk depends on the state, and on the slice."""
    watched = watch(rule_set)
    risks = {
        number: FollowedRisks(
            rule.pack,
            rule.id,
            watched.compiled.digests[number],
            5,
            0.5,
            [
                ContextRisk(
                    UNSEEN, state, memory, 0.7 if (state + len(memory)) % 2 else 0.2, 0.0, 1.0, 3, "state"
                )
                for state in range(len(watched.compiled.machines[number].next))
                for memory in ("", OWN)
            ],
        )
        for number, rule in enumerate(rule_set.rules)
    }
    return FollowedChain(CHAIN, watched, risks)


class ChainsByState(ChainsBySymbol):
    """The one chain of `chain_by_state`, as a process has it."""

    def followed(self, digest: str, rule_set: RuleSet) -> FollowedChain | None:
        """The chain of these rules."""
        return chain_by_state(rule_set) if digest == CHAIN else None


def limited(chain: FollowedChain, next_high: Callable[[ContextRisk], float]) -> FollowedChain:
    """Return the chain with a limit for the next event in every context."""
    risks = {
        number: FollowedRisks(
            each.pack,
            each.rule,
            each.rule_digest,
            each.within,
            each.threshold,
            [replace(context, next_high=next_high(context)) for context in each.contexts],
        )
        for number, each in chain.risks.items()
    }
    return replace(chain, risks=risks)


def stored_and_read(states: Mapping[str, FollowedSession]) -> dict[str, FollowedSession]:
    """Return the states as a session's record has them."""
    data = msgspec.msgpack.encode(states, enc_hook=stored_page)
    return msgspec.msgpack.decode(data, type=dict[str, FollowedSession], dec_hook=page_of)
