"""The compiled loops over the places of walks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...schemas.compiled import compiled
from ..chain.walks import CLOSED_UNMET, CUT

NEVER = np.iinfo(np.int64).max
"""The distance of a verdict that does not come, and the events known after a place of a closed sequence."""


@compiled
def find_outcomes(violated: Any, bounds: Any, endings: Any, distances: Any, known: Any) -> None:
    """Write for each place the fields of `Outcomes`."""
    for i in range(len(endings)):
        first, end = bounds[i], bounds[i + 1]
        verdict = end if endings[i] == CLOSED_UNMET else NEVER
        for back in range(end - first):
            place = end - 1 - back
            distances[place] = NEVER if verdict == NEVER else verdict - place
            known[place] = back if endings[i] == CUT else NEVER
            if violated[place]:
                verdict = place


@compiled
def count_visits(walks: Any, outcomes: Any, horizon: Any, last: Any, out: Any) -> None:
    """Count by context the places whose whole horizon was seen.

    `walks` are contexts, bounds and sessions as in `Walks`; `outcomes` are distances and known events. The
    `horizon` has the least number of known events and the greatest distance of a verdict. `out` are arrays of
    zeros: all visits, those with a verdict within the horizon, those that are the first of their session and
    context, and the first ones with a verdict. `last` has -1 for each context.
    """
    contexts, bounds, sessions = walks
    distances, known = outcomes
    known_min, distance_max = horizon
    visits, violated, firsts, violated_firsts = out
    session = 0
    for i in range(len(sessions)):
        if i and sessions[i] != sessions[i - 1]:
            session += 1
        for place in range(bounds[i], bounds[i + 1]):
            context = contexts[place]
            is_first = last[context] != session
            last[context] = session
            if known[place] < known_min:
                continue
            has_verdict = distances[place] <= distance_max
            visits[context] += 1
            violated[context] += has_verdict
            firsts[context] += is_first
            violated_firsts[context] += is_first and has_verdict


@compiled
def find_greatest(contexts: Any, bounds: Any, verdicts: Any, risks: Any, greatest: Any) -> None:
    """Write for each sequence the greatest risk after its start and before its verdict, if there is any."""
    for i in range(len(verdicts)):
        found = -np.inf
        for place in range(bounds[i] + 1, min(bounds[i + 1], verdicts[i])):
            found = max(found, risks[contexts[place]])
        greatest[i] = found


@compiled
def find_warnings(contexts: Any, bounds: Any, verdicts: Any, risks: Any, threshold: Any, places: Any) -> None:
    """Write for each sequence the first place with at least that risk before its verdict, `NEVER` without."""
    for i in range(len(verdicts)):
        places[i] = NEVER
        for place in range(bounds[i] + 1, min(bounds[i + 1], verdicts[i])):
            if risks[contexts[place]] >= threshold:
                places[i] = place
                break
