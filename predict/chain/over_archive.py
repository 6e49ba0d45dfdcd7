"""A learned chain over the sessions of another archive: their walks in the chain's numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...rules.model.arrays import F64, I32, I64, Mask
from .alignment import ABSENT, aligned
from .contexts import Contexts
from .learned import Counted
from .walks import Walks


@dataclass(frozen=True, slots=True)
class OverArchive:
    """The counts of a chain, with the walks of an archive over its contexts.

    `counted.contexts` has those of the chain first, then those that only the archive came to. A chain that
    distinguishes agents has one agent more, which stands for any other one. A place whose row the chain lacks
    has the number `unknown`, one more than those of all contexts. Where it lacks the symbol alone, the number
    is a greater one: the place of agent and row in `after_unseen`.
    `unseen` and `places` count the places after an event, of all sequences.
    """

    counted: Counted
    learned: Mask
    after_unseen: Contexts
    unseen: int
    places: int

    @property
    def unknown(self) -> int:
        """Return the number of the context that stands for all that the chain lacks."""
        return len(self.counted.contexts)

    @property
    def unseen_share(self) -> float:
        """Return the share of the events whose symbol the chain lacks."""
        return self.unseen / self.places if self.places else 0.0

    def with_unknown(self, values: F64, after_unseen: F64 | None = None) -> F64:
        """Return the values of contexts with those of all further numbers: NaN, or those `after_unseen`."""
        if after_unseen is None:
            after_unseen = np.full((len(self.after_unseen), *values.shape[1:]), np.nan)
        return np.concatenate([values, np.full((1, *values.shape[1:]), np.nan), after_unseen])

    def context(self, number: int) -> tuple[int, int, int]:
        """Return agent, symbol and row of a context, or after a symbol that the chain lacks."""
        contexts, place = self.counted.contexts, number
        if number > self.unknown:
            contexts, place = self.after_unseen, number - self.unknown - 1
        return int(contexts.agents[place]), int(contexts.symbols[place]), int(contexts.states[place])

    def padded(self, numbers: I32, filler: int) -> I32:
        """Return the numbers of contexts with the filler for every further number."""
        return np.append(numbers, np.full(1 + len(self.after_unseen), filler, dtype=numbers.dtype))


def over_archive(chain: Counted, archive: Counted) -> OverArchive:
    """Return the chain over the archive, whose counts are of the same rule."""
    alignment = aligned(chain, archive)
    found, agents = archive.contexts, alignment.agents
    if len(chain.agents) > 1:
        agents = np.where(agents == ABSENT, len(chain.agents), agents)
        chain = replace(chain, agents=(*chain.agents, ""))
    columns = (
        agents[found.agents],
        alignment.symbols[found.symbols],
        alignment.rows[found.states],
    )
    is_known: Mask = np.logical_and.reduce([column != ABSENT for column in columns])
    is_new = is_known & (alignment.contexts == ABSENT)
    numbers = np.where(is_known, alignment.contexts, len(chain.contexts) + int(is_new.sum()))
    numbers[is_new] = len(chain.contexts) + np.arange(int(is_new.sum()))
    lacks_symbol = (columns[0] != ABSENT) & (columns[1] == ABSENT) & (columns[2] != ABSENT)
    pairs = np.stack([columns[0][lacks_symbol], columns[2][lacks_symbol]], axis=1)
    after_unseen, places = np.unique(pairs, axis=0, return_inverse=True)
    numbers[lacks_symbol] = len(chain.contexts) + int(is_new.sum()) + 1 + places.reshape(-1)
    contexts = _appended(chain.contexts, [column[is_new] for column in columns])
    walks = replace(archive.walks, contexts=numbers[archive.walks.contexts].astype(np.int32))
    learned = np.zeros(len(contexts), dtype=np.bool_)
    learned[chain.counts.contexts] = True
    lacks = columns[1][archive.walks.contexts] == ABSENT
    return OverArchive(
        counted=replace(chain, contexts=contexts, walks=walks),
        learned=learned,
        after_unseen=Contexts(
            after_unseen[:, 0].astype(np.int32),
            np.full(len(after_unseen), chain.symbols.boundary + 1, dtype=np.int32),
            after_unseen[:, 1].astype(np.int32),
        ),
        unseen=int(lacks.sum()),
        places=_events(archive.walks),
    )


def _appended(contexts: Contexts, columns: list[I64]) -> Contexts:
    def with_new(before: I32, new: I64) -> I32:
        return np.concatenate([before, new.astype(np.int32)])

    return Contexts(
        with_new(contexts.agents, columns[0]),
        with_new(contexts.symbols, columns[1]),
        with_new(contexts.states, columns[2]),
    )


def _events(walks: Walks) -> int:
    return len(walks.contexts) - (len(walks.bounds) - 1)
