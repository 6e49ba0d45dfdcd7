"""The options of learning a chain."""

from __future__ import annotations

from dataclasses import dataclass

SESSIONS_MIN = 20
"""Closed sessions that a chain is learned from, at least."""

HORIZON_MAX = 1_000
"""The longest horizon, in events, beside that of ever."""

MISS = 0.1
"""The share of violating sessions that a threshold may miss."""


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """The options for the risks of a chain, and for the evidence.

    `horizons` ascend, with None (ever) last. Without `has_history` the next symbol depends on the last one
    and not on the machine's state, as in Pro2Guard. `smoothing` is `nested`, `jeffreys`, `none` or
    `laplace:A`. `confidence` is that of intervals and thresholds. `eps` and `delta` are those of Pro2Guard's
    sample sizes.
    """

    horizons: tuple[int | None, ...] = (1, 5, None)
    has_history: bool = True
    smoothing: str = "nested"
    confidence: float = 0.95
    eps: float = 0.1
    delta: float = 0.05
