"""The log score of next symbols: what each event of an archive costs a chain, and what the chain expects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy

from ...rules.model.arrays import F64, I64, Mask
from ..chain.over_archive import OverArchive
from ..chain.walks import CUT
from .outcomes import sessions_of_places


@dataclass(frozen=True, slots=True)
class NextSymbolCosts:
    """The costs of events, -log of the probability of their symbols, their expectations, and sessions."""

    costs: F64
    expected: F64
    sessions: I64


def next_symbol_costs(over: OverArchive, probabilities: F64) -> NextSymbolCosts:
    """Return the costs of all events and closes whose context and symbol the chain knows.

    `probabilities[context, next]` has the contexts of `over`, its unknown one aside.
    """
    walks, contexts = over.counted.walks, over.counted.contexts
    ends: Mask = np.zeros(len(walks.contexts), dtype=np.bool_)
    ends[walks.bounds[1:] - 1] = True
    is_cut: Mask = np.equal(walks.endings, CUT)
    following = np.append(walks.contexts[1:], over.unknown)
    symbols = over.padded(contexts.symbols, -1).astype(np.int64)
    nexts = np.where(ends, over.counted.symbols.boundary, symbols[following])
    nexts[walks.bounds[1:][is_cut] - 1] = -1
    places: I64 = np.flatnonzero(np.logical_and(nexts >= 0, walks.contexts < over.unknown))
    at = walks.contexts[places]
    entropies = -cast("F64", scipy.special.xlogy(probabilities, probabilities)).sum(axis=1)
    with np.errstate(divide="ignore"):
        costs = -np.log(probabilities[at, nexts[places]])
    return NextSymbolCosts(costs, entropies[at], sessions_of_places(walks)[places])
