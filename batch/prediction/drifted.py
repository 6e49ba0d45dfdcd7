"""The drift of a chain's rules on an archive: evidence by agent, the log score, and what came next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...predict.chain.learned import Counted
from ...predict.chain.over_archive import OverArchive, over_archive
from ...predict.counting.symbols import OWN
from ...predict.estimation.expectation import NextSymbolChain
from ...predict.estimation.nested import NestedEstimate
from ...predict.validation.behaviour import (
    BehaviourChange,
    ViolatingShare,
    behaviour_change,
    violating_sessions,
    violating_share,
)
from ...predict.validation.drift import DriftEvidence, LogScoreDrift, drift_evidence, log_score_drift
from ...predict.validation.next_symbol_costs import next_symbol_costs
from ...predict.validation.outcomes import outcomes
from ...predict.validation.rule_scores import SEED
from ...rules.model.arrays import F64


@dataclass(frozen=True, slots=True)
class DriftedRule:
    """The drift of one rule: evidence by agent, the log score, and the change of behaviour."""

    over: OverArchive
    evidence: Mapping[str, DriftEvidence]
    log_score: LogScoreDrift
    change: BehaviourChange

    @property
    def name(self) -> str:
        """Return the rule's name with its pack."""
        return f"{self.over.counted.pack}/{self.over.counted.rule}"

    @property
    def has_drifted(self) -> bool:
        """Return whether verdicts come more often than the chain's intervals allow."""
        return any(each.has_drifted for each in self.evidence.values())


def drifted_rule(
    chain: Counted,
    estimate: NestedEstimate,
    highs: F64,
    before: ViolatingShare,
    archive: Counted,
    error: float,
) -> DriftedRule:
    """Return the drift of a rule.

    `highs` are the upper ends of the chain's contexts for one event, and `before` its violating sessions. The
    intervals of the archive's miss their share with at most `error`.
    """
    over = over_archive(chain, archive)
    limits = over.with_unknown(np.append(highs, np.full(over.unknown - len(highs), np.nan)))
    walks = over.counted.walks
    found = outcomes(walks)
    agents = over.padded(over.counted.contexts.agents, -1)[walks.contexts]
    own_symbols = np.array([*(text.endswith(OWN) for text in chain.symbols.symbols), False])
    # The last symbol, that of a start, is not of a slice; nor is one that the chain lacks.
    is_own = own_symbols[over.padded(over.counted.contexts.symbols, -1)]
    costs = next_symbol_costs(
        over, NextSymbolChain(over.counted, estimate).probabilities(over.counted.contexts)
    )
    return DriftedRule(
        over=over,
        evidence={
            name: drift_evidence(walks, found, limits, agents == number, is_own)
            for number, name in enumerate(chain.agents)
        },
        log_score=log_score_drift(
            costs.costs, costs.expected, costs.sessions, np.random.default_rng(SEED), 1 - error
        ),
        change=behaviour_change(
            chain, archive, before, violating_share(*violating_sessions(archive.walks), error)
        ),
    )
