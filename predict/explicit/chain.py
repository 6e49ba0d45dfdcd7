"""Markov chains whose states are written out, as sparse rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...rules.model.arrays import F64, I64, Mask
from ..error import PredictError

STATES_MAX = 1_000_000
"""The most states of a chain, and of its product with the machine of a formula."""
SUM_TOLERANCE = 1e-9
"""The most by which a row's probabilities may miss 1."""
_DIGITS_MAX = 18
"""Digits of a state's number that are read: longer numbers exceed every limit."""


class Transition(NamedTuple):
    """A transition as a file has it: its line (from 1), both states, and the ends of its interval."""

    line: int
    source: int
    target: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ExplicitChain:
    """A discrete-time Markov chain, or one of intervals, whose states are numbered from 0.

    Row `s` has the entries `starts[s]` to `starts[s + 1]` of `targets`, `low` and `high`, sorted by target;
    `low` and `high` are equal where the chain has no intervals. `labels` has the sorted states of each label.
    `absorbing` has the states without a row of their own: each got a transition to itself.
    """

    starts: I64
    targets: I64
    low: F64
    high: F64
    labels: Mapping[str, I64]
    initial: int
    absorbing: I64

    @property
    def states(self) -> int:
        """Return the number of states."""
        return len(self.starts) - 1

    @property
    def has_intervals(self) -> bool:
        """Return whether some probability is an interval."""
        return bool((self.low != self.high).any())

    @property
    def sources(self) -> I64:
        """Return the state that each entry leaves."""
        return np.repeat(np.arange(self.states), np.diff(self.starts))

    def mask(self, states: I64) -> Mask:
        """Return which states are among the given ones."""
        found = np.zeros(self.states, dtype=np.bool_)
        found[states] = True
        return found

    def names_by_state(self) -> dict[int, list[str]]:
        """Return the labels of each state that has any; `init` comes first, on the initial state alone."""
        found = {self.initial: ["init"]}
        for name in sorted(set(self.labels) - {"init"}):
            for state in self.labels[name].tolist():
                found.setdefault(state, []).append(name)
        return found


def explicit_chain(
    where: str,
    states: int,
    transitions: Iterable[Transition],
    labels: Mapping[str, Iterable[int]],
    initial: int,
) -> ExplicitChain:
    """Return the chain of transitions in any order.

    `where` names the file in errors. Raises PredictError: TRL807 for a state that does not exist or a
    transition that stands twice, TRL808 for rows that are no probabilities, TRL810 for too many states.
    """
    if states > STATES_MAX:
        raise PredictError("TRL810", where, f"{states:,} states", f"a chain may have {STATES_MAX:,}")
    found = sorted(transitions, key=lambda each: (each.source, each.target))
    _check(where, states, found)
    rows = {each.source for each in found}
    absorbing = np.array([state for state in range(states) if state not in rows], dtype=np.int64)
    sources = np.array([each.source for each in found] + absorbing.tolist(), dtype=np.int64)
    targets = np.array([each.target for each in found] + absorbing.tolist(), dtype=np.int64)
    low = np.array([each.low for each in found] + [1.0] * len(absorbing))
    high = np.array([each.high for each in found] + [1.0] * len(absorbing))
    order = np.lexsort((targets, sources))
    starts = np.zeros(states + 1, dtype=np.int64)
    np.cumsum(np.bincount(sources, minlength=states), out=starts[1:])
    chain = ExplicitChain(
        starts=starts,
        targets=targets[order],
        low=low[order],
        high=high[order],
        labels={name: np.unique(np.array(list(each), dtype=np.int64)) for name, each in labels.items()},
        initial=initial,
        absorbing=absorbing,
    )
    _check_sums(where, chain, {each.source: each.line for each in reversed(found)})
    return chain


def state_number(word: str) -> int | None:
    """Return the number of a state; None for a word that is no whole number."""
    return int(word.lstrip("0")[:_DIGITS_MAX] or "0") if word.isdecimal() else None


def initial_of(labels: Mapping[str, list[int]]) -> int:
    """Return the first state with the label `init`, else 0."""
    return next(iter(labels.get("init", ())), 0)


def _check(where: str, states: int, found: list[Transition]) -> None:
    """Raise for states that do not exist, transitions that stand twice, and numbers outside 0 to 1."""
    before: tuple[int, int] | None = None
    for each in found:
        place = f"{where}:{each.line}"
        for state in (each.source, each.target):
            if not 0 <= state < states:
                hint = f"the states are 0 to {states - 1}"
                raise PredictError("TRL807", place, f"there is no state {state}", hint)
        if not 0 <= each.low <= each.high <= 1:
            hint = "write numbers from 0 to 1, and intervals as [low, high]"
            raise PredictError("TRL808", place, "a probability is not between 0 and 1", hint)
        if before == (each.source, each.target):
            what = f"a second transition from state {each.source} to state {each.target}"
            raise PredictError("TRL807", place, what, "add the probabilities up in one transition")
        before = each.source, each.target


def _check_sums(where: str, chain: ExplicitChain, lines: Mapping[int, int]) -> None:
    """Raise for the first row that no distribution fits."""
    least = np.add.reduceat(chain.low, chain.starts[:-1])
    most = np.add.reduceat(chain.high, chain.starts[:-1])
    wrong = np.flatnonzero((least > 1 + SUM_TOLERANCE) | (most < 1 - SUM_TOLERANCE))
    if len(wrong):
        state = int(wrong[0])
        sums = f"{least[state]:.12g}"
        if least[state] != most[state]:
            sums += f" to {most[state]:.12g}"
        what = f"the probabilities of state {state} add up to {sums}"
        raise PredictError("TRL808", f"{where}:{lines[state]}", what, "each row adds up to 1")
