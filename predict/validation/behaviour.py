"""Two chains of one rule compared: the sessions that violate it, and contexts whose next symbol changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import I64, Mask
from ..chain.alignment import ABSENT, Alignment, aligned
from ..chain.contexts import END, START
from ..chain.learned import Counted
from ..chain.walks import CUT, Walks
from .changed_contexts import changed_contexts
from .context_intervals import binomial_interval
from .outcomes import outcomes
from .place_loops import NEVER

NEXTS_NAMED_MAX = 3
"""Next symbols of a changed context that are named."""


@dataclass(frozen=True, slots=True)
class ViolatingShare:
    """The sessions that violate a rule, of those seen to the end, and the interval of their share."""

    sessions: int
    violating: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Return the share; NaN without sessions."""
        return self.violating / self.sessions if self.sessions else float("nan")


@dataclass(frozen=True, slots=True)
class NextShare:
    """The share of one next symbol before and after."""

    symbol: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class ChangedContext:
    """A context whose next symbol is distributed otherwise: its visits, and the shares that differ most."""

    agent: str
    symbol: str
    memory: str
    residual: str
    visits_before: int
    visits_after: int
    p_value: float
    nexts: tuple[NextShare, ...]


@dataclass(frozen=True, slots=True)
class BehaviourChange:
    """The change of one rule between two chains; `contexts` are those that both came to."""

    pack: str
    rule: str
    before: ViolatingShare
    after: ViolatingShare
    contexts: int
    changed: tuple[ChangedContext, ...]

    @property
    def is_worse(self) -> bool:
        """Return whether the interval after lies above the one before."""
        return self.after.low > self.before.high

    @property
    def is_better(self) -> bool:
        """Return whether the interval after lies below the one before."""
        return self.after.high < self.before.low


def violating_share(violating: int, sessions: int, error: float) -> ViolatingShare:
    """Return the share with its Clopper-Pearson interval, which misses it with at most `error`."""
    low, high = binomial_interval(np.array([violating]), np.array([sessions]), error)
    return ViolatingShare(sessions, violating, float(low[0]), float(high[0]))


def violating_sessions(walks: Walks) -> tuple[int, int]:
    """Return the number of sessions with a verdict against the agent, and that of all that were seen whole.

    Sessions with a sequence that was cut are in neither.
    """
    found = outcomes(walks)
    _, sessions = np.unique(walks.sessions, return_inverse=True)
    size = int(sessions.max(initial=-1)) + 1
    first: Mask = np.less(found.distances[walks.bounds[:-1]], NEVER)
    is_cut: Mask = np.equal(walks.endings, CUT)
    cut = np.bincount(sessions[is_cut], minlength=size) > 0
    violating = np.bincount(sessions[first], minlength=size) > 0
    return int((violating & ~cut).sum()), int((~cut).sum())


def behaviour_change(
    first: Counted, second: Counted, before: ViolatingShare, after: ViolatingShare
) -> BehaviourChange:
    """Return the change of a rule from the first chain's counts to the second's."""
    alignment = aligned(first, second)
    size, width = len(first.contexts), first.symbols.boundary + 1 + second.symbols.boundary
    counts = _transitions(first, np.arange(size), np.arange(first.symbols.boundary + 1))
    others = _transitions(second, alignment.contexts, _nexts(first, alignment))
    tested = changed_contexts(counts, others, size)
    places = np.flatnonzero(tested.is_changed)
    places = places[np.argsort(tested.p_values[places], kind="stable")]
    names = (*first.symbols.symbols, END, *second.symbols.symbols)
    changed = tuple(
        _described(
            first,
            place,
            _row(counts, place, width),
            _row(others, place, width),
            names,
            float(tested.p_values[place]),
        )
        for place in places.tolist()
    )
    both = int((~np.isnan(tested.p_values)).sum())
    return BehaviourChange(first.pack, first.rule, before, after, both, changed)


def _nexts(first: Counted, alignment: Alignment) -> I64:
    """Return the column of each next symbol of the second chain; those new in it come after the first's."""
    new = first.symbols.boundary + 1 + np.arange(len(alignment.symbols))
    return np.where(alignment.symbols == ABSENT, new, alignment.symbols)


def _transitions(counted: Counted, contexts: I64, nexts: I64) -> tuple[I64, I64, I64]:
    """Return contexts, next symbols and counts in these numbers, with the contexts ascending."""
    rows = contexts[counted.counts.contexts]
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] != ABSENT]
    return rows[order], nexts[counted.counts.nexts[order]], counted.counts.counts[order]


def _row(transitions: tuple[I64, I64, I64], context: int, width: int) -> I64:
    """Return the counts of a context by next symbol."""
    contexts, nexts, counts = transitions
    begin, end = np.searchsorted(contexts, [context, context + 1]).tolist()
    return np.bincount(nexts[begin:end], counts[begin:end], width).astype(np.int64)


def _described(
    counted: Counted, place: int, before: I64, after: I64, names: tuple[str, ...], p_value: float
) -> ChangedContext:
    was, now = before / float(before.sum()), after / float(after.sum())
    gained = np.abs(now - was)
    order: list[int] = np.argsort(-gained, kind="stable")[:NEXTS_NAMED_MAX].tolist()
    symbol, row = int(counted.contexts.symbols[place]), int(counted.contexts.states[place])
    return ChangedContext(
        agent=counted.agents[int(counted.contexts.agents[place])],
        symbol=START if symbol == counted.symbols.boundary else counted.symbols.symbols[symbol],
        memory=counted.steps.memory[row],
        residual=counted.steps.residuals[row],
        visits_before=int(before.sum()),
        visits_after=int(after.sum()),
        p_value=p_value,
        nexts=tuple(
            NextShare(names[each], float(was[each]), float(now[each])) for each in order if gained[each]
        ),
    )
