"""The outcome of each place of walks: how far the next verdict against the agent is; and their counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import Mask
from ..chain.contexts import I64
from ..chain.walks import Walks
from .place_loops import NEVER, count_visits, find_outcomes


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
    found = Outcomes(*(np.empty(len(walks.contexts), dtype=np.int64) for _ in range(2)))
    find_outcomes(walks.violated, walks.bounds, walks.endings, found.distances, found.known)
    return found


def sessions_of_places(walks: Walks) -> I64:
    """Return for each place its session, numbered from 0 in the order of the sessions' numbers."""
    _, numbers = np.unique(walks.sessions, return_inverse=True)
    return np.repeat(numbers.astype(np.int64), np.diff(walks.bounds))


@dataclass(frozen=True, slots=True)
class VisitCounts:
    """The visits of each context whose whole horizon was seen, and those with a verdict within it.

    `firsts` are the visits that are the first of their session and context.
    """

    visits: I64
    violated: I64
    firsts: I64
    violated_firsts: I64


def visit_counts(walks: Walks, found: Outcomes, within: int | None, contexts: int) -> VisitCounts:
    """Return the visits of so many contexts, for a horizon."""
    counts = VisitCounts(*(np.zeros(contexts, dtype=np.int64) for _ in range(4)))
    horizon = (NEVER, NEVER - 1) if within is None else (within, within)
    count_visits(
        (walks.contexts, walks.bounds, walks.sessions),
        (found.distances, found.known),
        horizon,
        np.full(contexts, -1, dtype=np.int64),
        (counts.visits, counts.violated, counts.firsts, counts.violated_firsts),
    )
    return counts
