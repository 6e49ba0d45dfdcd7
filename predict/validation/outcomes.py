"""The outcome of each place of walks: how far the next verdict against the agent is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..chain.contexts import I64
from ..chain.walks import CLOSED_UNMET, CUT, Walks

Mask = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""The distance of a verdict that does not come, and the events known after a place of a closed sequence."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of the places of walks.

    `distances[place]` is the number of events from the place to the next verdict against the agent, the close
    counted as one event. `known[place]` is the number of events after it of which the walk has the outcome.
    """

    distances: I64
    known: I64

    def violated(self, within: int | None) -> Mask:
        """Return for each place whether a verdict against the agent came within the horizon."""
        return self.distances < NEVER if within is None else self.distances <= within

    def is_known(self, within: int | None) -> Mask:
        """Return for each place whether the whole horizon was seen.

        A place near the cut of an open sequence is left out even where a verdict came before the cut: such
        verdicts are seen, and their absence is not, so counting them would overstate the rate.
        """
        return self.known >= (NEVER if within is None else within)


def outcomes(walks: Walks) -> Outcomes:
    """Return the outcomes of all places."""
    places = np.arange(len(walks.contexts))
    lengths = np.diff(walks.bounds)
    ends = np.repeat(walks.bounds[1:], lengths)
    endings = np.repeat(walks.endings, lengths)
    from_here = np.minimum.accumulate(np.where(walks.violated, places, NEVER)[::-1])[::-1]
    after = np.append(from_here[1:], NEVER)
    closing = np.where(endings == CLOSED_UNMET, ends - places, NEVER)
    distances = np.where(after < ends, after - places, closing)
    known = np.where(endings == CUT, ends - 1 - places, NEVER)
    return Outcomes(distances.astype(np.int64), known.astype(np.int64))


def sessions_of_places(walks: Walks) -> I64:
    """Return for each place its session, numbered from 0 in the order of the sessions' numbers."""
    _, numbers = np.unique(walks.sessions, return_inverse=True)
    return np.repeat(numbers.astype(np.int64), np.diff(walks.bounds))
