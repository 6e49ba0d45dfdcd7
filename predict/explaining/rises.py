"""The rises of a session's risk over its events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import F64

RISES_MAX = 3
"""The rises of one session that are named."""

RISE_MIN = 0.01
"""The least rise that is named."""


@dataclass(frozen=True, slots=True)
class RiskRise:
    """A rise of the risk at the event `at` of a sequence, counted from 1."""

    at: int
    before: float
    after: float


def risk_rises(risks: F64) -> list[RiskRise]:
    """Return the greatest rises in the order of their events; `risks[0]` is that before any event.

    Where the rule has stopped there is no risk (NaN) and no rise.
    """
    gained = np.diff(risks)
    gained[np.isnan(gained)] = 0.0
    places = [at for at in np.argsort(-gained, kind="stable")[:RISES_MAX].tolist() if gained[at] >= RISE_MIN]
    return [RiskRise(at + 1, float(risks[at]), float(risks[at + 1])) for at in sorted(places)]
