"""The fit of a chain: the contexts whose risk lies inside the interval that held-out sessions give it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..chain.contexts import I64
from ..chain.risks import F64
from .context_intervals import ContextIntervals

SHARE_MIN = 0.9
"""The share of contexts inside, below which a chain does not fit (TRL811)."""


@dataclass(frozen=True, slots=True)
class ChainFit:
    """The fit for one horizon, over the learned contexts that some held-out session came to.

    Any other context has the interval from 0 to 1, which no risk is outside of. `outside` are the contexts
    whose risk is not in their interval, those with most visits first.
    """

    contexts: int
    visits: int
    outside: I64
    outside_visits: int

    @property
    def share(self) -> float:
        """Return the share of contexts inside; 1 where no context was visited."""
        return 1 - len(self.outside) / self.contexts if self.contexts else 1.0

    @property
    def fits(self) -> bool:
        """Return whether enough contexts are inside."""
        return self.share >= SHARE_MIN


def chain_fit(risks: F64, intervals: ContextIntervals, horizon: int) -> ChainFit:
    """Return the fit of the risks at the column `horizon`."""
    low, high = intervals.low[:, horizon], intervals.high[:, horizon]
    visits = intervals.visits[:, horizon]
    has_interval = (low > 0) | (high < 1)
    compared = (intervals.sessions[:, horizon] > 0) & has_interval & ~np.isnan(risks)
    outside = np.flatnonzero(compared & ((risks < low) | (risks > high)))
    return ChainFit(
        contexts=int(compared.sum()),
        visits=int(visits[compared].sum()),
        outside=outside[np.argsort(-visits[outside], kind="stable")],
        outside_visits=int(visits[outside].sum()),
    )
