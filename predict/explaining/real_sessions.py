"""Real sessions that went the way of a path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...rules.model.arrays import I32, I64, Mask
from ..chain.walks import CUT, Walks


def session_along(walks: Walks, symbols: I32, end: int, start: int, nexts: Sequence[int]) -> int | None:
    """Return the number of the first session that came to the context `start` and took these next symbols.

    `symbols` are those of the contexts, and `end` stands for the close among the next symbols.
    """
    lengths = np.diff(walks.bounds)
    ends = np.repeat(walks.bounds[1:], lengths)
    is_closed: Mask = np.not_equal(walks.endings, CUT)
    closed = np.repeat(is_closed, lengths)
    at_start: Mask = np.equal(walks.contexts, start)
    places: I64 = np.flatnonzero(at_start)
    for step, symbol in enumerate(nexts, 1):
        inside = places + step < ends[places]
        if symbol == end:
            places = places[~inside & closed[places]]
            continue
        places = places[inside]
        places = places[symbols[walks.contexts[places + step]] == symbol]
    if not len(places):
        return None
    sequence = int(np.searchsorted(walks.bounds, int(places[0]), side="right")) - 1
    return int(walks.sessions[sequence])
