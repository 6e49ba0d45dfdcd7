"""The learned chains that a process has, by their digests."""

from __future__ import annotations

from collections.abc import Mapping

from ...rules.model.problem import RuleError
from ...rules.model.rule import RuleSet
from ..error import PredictError
from ..folder.learned_chain import LearnedChain
from .followed_chain import FollowedChain, followed_chain


class LoadedChains:
    """The chains at hand; `above` is the threshold of rules for which a chain guarantees none."""

    def __init__(self, chains: Mapping[str, LearnedChain] | None = None, above: float | None = None) -> None:
        self._chains, self._above = dict(chains or {}), above

    @property
    def digests(self) -> frozenset[str]:
        """Return the digests of the chains."""
        return frozenset(self._chains)

    def followed(self, digest: str, rule_set: RuleSet) -> FollowedChain | None:
        """Return the chain of that digest as it follows the rules, None where there is none for them.

        There is none either where this release cannot use the packs that it was learned from.
        """
        chain = self._chains.get(digest)
        if chain is None:
            return None
        try:
            return followed_chain(chain, rule_set, self._above)
        except (PredictError, RuleError):
            return None
