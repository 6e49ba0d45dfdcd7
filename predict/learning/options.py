"""The options of learning a chain."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..risk.rule_risks import RiskOptions

SESSIONS_MIN = 20
"""Closed sessions that a chain is learned from, at least."""

MISS = 0.1
"""The share of violating sessions that a threshold may miss."""


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """The options for the risks of a chain, and for the evidence.

    `confidence` is that of intervals and thresholds. `eps` and `delta` are those of Pro2Guard's sample sizes.
    """

    risks: RiskOptions = field(default_factory=RiskOptions)
    confidence: float = 0.95
    eps: float = 0.1
    delta: float = 0.05
