"""Two numberings of one rule's contexts and symbols: of two chains, or of a chain and an archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...rules.model.arrays import I64
from .contexts import Contexts, SymbolSet
from .steps import StepTable

ABSENT = -1
"""The number of what the first numbering lacks."""


class NumberedContexts(Protocol):
    """A rule's contexts with all that their numbers stand for."""

    @property
    def agents(self) -> tuple[str, ...]: ...  # noqa: D102 (the fields of `Counted`)
    @property
    def symbols(self) -> SymbolSet: ...  # noqa: D102
    @property
    def steps(self) -> StepTable: ...  # noqa: D102
    @property
    def contexts(self) -> Contexts: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Alignment:
    """The numbers in the first numbering of what the second one numbers, or `ABSENT`.

    `symbols` has `start` and `end` as its last entry. `rows` are those of the step tables, by machine state
    and memory; two tables of one rule and pack have the same rows, in orders of their own.
    """

    contexts: I64
    symbols: I64
    rows: I64
    agents: I64


def aligned(first: NumberedContexts, second: NumberedContexts) -> Alignment:
    """Return the alignment of the second numbering with the first."""
    symbols = _places((*first.symbols.symbols, None), (*second.symbols.symbols, None))
    rows = _places(list(_row_names(first.steps)), list(_row_names(second.steps)))
    agents = _places(first.agents, second.agents)
    known = dict[tuple[int, int, int], int]()
    for number, key in enumerate(_keys(first.contexts)):
        known[key] = number
    contexts = [
        known.get((int(agents[agent]), int(symbols[symbol]), int(rows[row])), ABSENT)
        for agent, symbol, row in _keys(second.contexts)
    ]
    return Alignment(np.array(contexts, dtype=np.int64), symbols, rows, agents)


def _row_names(steps: StepTable) -> Iterator[tuple[int, str]]:
    return zip(steps.states.tolist(), steps.memory, strict=True)


def _keys(contexts: Contexts) -> Iterator[tuple[int, int, int]]:
    return zip(contexts.agents.tolist(), contexts.symbols.tolist(), contexts.states.tolist(), strict=True)


def _places(first: Sequence[object], second: Sequence[object]) -> I64:
    """Return the place of each name of the second sequence in the first one."""
    known = {name: place for place, name in enumerate(first)}
    return np.array([known.get(name, ABSENT) for name in second], dtype=np.int64)
