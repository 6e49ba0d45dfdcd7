"""Visits and verdicts of each session by risk: all that scores and their resampling need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from ..chain.contexts import I64
from ..chain.risks import F64
from ..chain.walks import Walks
from .outcomes import Mask, Outcomes, sessions_of_places, visit_counts

_CELLS_MAX = 4_000_000
"""The most numbers of a block of samples in memory."""


@dataclass(frozen=True, slots=True)
class SessionSums:
    """The visits of sessions by risk.

    `risks` are distinct and ascend. `visits` and `violated` are sparse matrices of [session, risk], with the
    sessions in an order that depends on nothing but their rows.
    """

    risks: F64
    visits: scipy.sparse.csr_array[Any, Any]
    violated: scipy.sparse.csr_array[Any, Any]

    @property
    def sessions(self) -> int:
        """Return the number of sessions with a visit."""
        return int(self.visits.shape[0])

    def totals(self) -> tuple[F64, F64]:
        """Return the visits and the violated visits of all sessions by risk."""
        ones = np.ones((1, self.sessions))
        return (ones @ self.visits)[0], (ones @ self.violated)[0]

    def resampled(self, generator: np.random.Generator, samples: int) -> Iterator[tuple[F64, F64]]:
        """Yield blocks of samples of sessions with replacement: visits and violated visits by [sample, risk].

        The same generator draws the same samples whatever the order of the sessions in the walks.
        """
        sessions = self.sessions
        block = max(1, _CELLS_MAX // max(sessions, len(self.risks), 1))
        for start in range(0, samples, block):
            size = min(block, samples - start)
            if sessions:
                weights = generator.multinomial(sessions, np.full(sessions, 1 / sessions), size).astype(
                    np.float64
                )
            else:
                weights = np.zeros((size, 0))
            yield weights @ self.visits, weights @ self.violated


def session_sums(walks: Walks, found: Outcomes, risks: F64, within: int | None) -> SessionSums:
    """Return the visits whose horizon was seen and whose context has a risk."""
    used, distinct, columns = _visits(walks, found, risks, within)
    ids, rows = np.unique(sessions_of_places(walks)[used], return_inverse=True)
    violated = found.violated(within)[used]
    order = _canonical(rows, columns, violated, len(ids))
    place = np.empty(len(ids), dtype=np.int64)
    place[order] = np.arange(len(ids))
    shape = (len(ids), len(distinct))
    ones = np.ones(len(rows))
    return SessionSums(
        distinct,
        scipy.sparse.csr_array((ones, (place[rows], columns)), shape=shape),
        scipy.sparse.csr_array((violated.astype(np.float64), (place[rows], columns)), shape=shape),
    )


def risk_totals(walks: Walks, found: Outcomes, risks: F64, within: int | None) -> tuple[F64, F64, F64]:
    """Return the risks and the totals of `session_sums`, which needs the sessions for resampling only."""
    counts = visit_counts(walks, found, within, len(risks))
    visited = (counts.visits > 0) & ~np.isnan(risks)
    distinct, numbers = np.unique(risks[visited], return_inverse=True)
    # Numbers of visits are exact as doubles.
    visits = np.bincount(numbers, weights=counts.visits[visited]).astype(np.float64)
    violated = np.bincount(numbers, weights=counts.violated[visited]).astype(np.float64)
    return distinct, visits, violated


def _visits(walks: Walks, found: Outcomes, risks: F64, within: int | None) -> tuple[Mask, F64, I64]:
    """Return which places count, their distinct risks, and the number of each one's risk."""
    used = found.is_known(within) & ~np.isnan(risks)[walks.contexts]
    contexts = walks.contexts[used]
    visited = np.bincount(contexts, minlength=len(risks)) > 0
    numbers = np.empty(len(risks), dtype=np.int64)
    distinct, numbers[visited] = np.unique(risks[visited], return_inverse=True)
    return used, distinct, numbers[contexts]


def _canonical(rows: I64, columns: I64, violated: np.ndarray[Any, Any], sessions: int) -> I64:
    """Return the order of the sessions by a digest of their visits; equal sessions are interchangeable."""
    mixed = columns.astype(np.uint64) * np.uint64(2) + violated.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(shift)
    digests = np.zeros(sessions, dtype=np.uint64)
    np.add.at(digests, rows, mixed)
    return np.argsort(digests, kind="stable")
