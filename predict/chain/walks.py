"""The ways that sequences of one rule took through its contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...rules.model.arrays import I32, I64

CUT, CLOSED, CLOSED_UNMET = range(3)
"""Codes of `Walks.endings`: the session is open or the rule became unjudged; it closed; it closed `unmet`."""


@dataclass(frozen=True, slots=True)
class Walks:
    """Sequences one after another; those of one session (its slices) are neighbours.

    Sequence `i` has the places `bounds[i]` to `bounds[i + 1]`: the first is its start, each other the place
    after one event. `contexts[place]` is the context there, `violated[place]` is true where the event that
    led there has a verdict against the agent. `sessions[i]` numbers the session, and `endings[i]` is a code
    of this module. `k` events after a place are the next `k` places, and the close as one more.
    """

    contexts: I32
    violated: NDArray[np.bool_]
    bounds: I64
    sessions: I32
    endings: NDArray[np.uint8]


def no_walks() -> Walks:
    """Return walks of no session."""
    return Walks(
        contexts=np.empty(0, dtype=np.int32),
        violated=np.empty(0, dtype=np.bool_),
        bounds=np.zeros(1, dtype=np.int64),
        sessions=np.empty(0, dtype=np.int32),
        endings=np.empty(0, dtype=np.uint8),
    )
