"""Walks for tests: random ones, written sessions, and their slow reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tracline.predict.chain.walks import CLOSED, CLOSED_UNMET, CUT, Walks


class Walk(NamedTuple):
    """One sequence: its session, contexts from the start on, events with a verdict, and its ending."""

    session: int
    contexts: list[int]
    violated: list[bool]
    ending: int


@dataclass(frozen=True)
class Visit:
    """A place of a sequence: how far the next verdict is, and how many events after it are known."""

    session: int
    sequence: int
    index: int
    context: int
    distance: float
    known: float

    def outcome(self, within: int | None) -> bool | None:
        """Return whether a verdict came within the horizon, or None where the walk does not show it."""
        limit = float("inf") if within is None else within
        if self.known < limit:
            return None
        return self.distance <= limit and self.distance < float("inf")


def walks_of(sequences: Sequence[Walk]) -> Walks:
    """Return the walks of sequences; those of one session must be neighbours."""
    lengths = [len(each.contexts) for each in sequences]
    return Walks(
        contexts=np.array([context for each in sequences for context in each.contexts], dtype=np.int32),
        violated=np.array([flag for each in sequences for flag in each.violated], dtype=np.bool_),
        bounds=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        sessions=np.array([each.session for each in sequences], dtype=np.int32),
        endings=np.array([each.ending for each in sequences], dtype=np.uint8),
    )


def random_sequences(rng: np.random.Generator, sessions: int, contexts: int, rate: float = 0.2) -> list[Walk]:
    """Return the sequences of sessions with one to three slices each."""
    found: list[Walk] = []
    for session in range(sessions):
        for _ in range(rng.integers(1, 4)):
            length = int(rng.integers(1, 8))
            found.append(
                Walk(
                    session,
                    rng.integers(0, contexts, length).tolist(),
                    [False, *(rng.random(length - 1) < rate).tolist()],
                    int(rng.choice([CUT, CLOSED, CLOSED, CLOSED_UNMET])),
                )
            )
    return found


def visits_of(sequences: Sequence[Walk]) -> list[Visit]:
    """Return every place of every sequence, read by plain loops."""
    found: list[Visit] = []
    for number, each in enumerate(sequences):
        length = len(each.contexts)
        for index, context in enumerate(each.contexts):
            distance = next((at - index for at in range(index + 1, length) if each.violated[at]), None)
            if distance is None:
                distance = length - index if each.ending == CLOSED_UNMET else float("inf")
            known = length - 1 - index if each.ending == CUT else float("inf")
            found.append(Visit(each.session, number, index, context, distance, known))
    return found
