"""Decisions about residuals: their LTL3 verdict, and whether two of them ask the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import machine as table
from ..model.formula import Formula
from .emptiness import Obligations, Tableau
from .events import Events, Value
from .history import HistoryMemory
from .limits import Work
from .residual import Progression, Residuals


class Decider:
    """Answers about the residuals of one rule, each found once."""

    def __init__(
        self, residuals: Residuals, tableau: Tableau, events: Events, leaves: Sequence[Formula], work: Work
    ) -> None:
        self._work = work
        self._residuals = residuals
        self._tableau = tableau
        self._events = events
        self._leaves = leaves
        self._progressions: dict[tuple[bool, ...], Progression] = {}
        self._verdicts: dict[tuple[int, HistoryMemory], int] = {}

    def progressed(self, residual: int, value: Value) -> int:
        """The residual after an event at which future-free formulas have these values."""
        self._work.spend(1 + len(self._leaves) // 4)
        key = tuple(value(leaf) for leaf in self._leaves)
        known = self._progressions.get(key)
        if known is None:
            known = self._progressions[key] = Progression(self._residuals, value)
        return known.residual(residual)

    def verdict(self, residual: int, memory: HistoryMemory) -> int:
        """LTL3: violated when the residual is unsatisfiable, satisfied when its negation is, else pending."""
        key = (residual, memory)
        known = self._verdicts.get(key)
        if known is None:
            known = table.PENDING
            if not self._possible(self._met(residual), memory):
                known = table.VIOLATED
            elif not self._possible(self._missed(residual), memory):
                known = table.SATISFIED
            self._verdicts[key] = known
        return known

    def same(self, f: int, g: int) -> bool:
        """Whether no non-empty word, finite or infinite, tells `f` from `g` after any possible history.

        Both kinds of words count: `always eventually p` and `eventually always p` agree on finite ones.
        """
        if self._residuals.asked(f) == self._residuals.asked(g):
            return True
        memories = self._events.reachable()
        # Finite words first: they are the cheaper question, and tell most residuals apart.
        return self._end_alike(f, g, memories) and not any(self._apart(f, g, memory) for memory in memories)

    def _apart(self, f: int, g: int, memory: HistoryMemory) -> bool:
        """Return whether an infinite word meets one and misses the other."""
        return any(
            self._possible((a | b for a in self._met(one) for b in self._missed(other)), memory)
            for one, other in ((f, g), (g, f))
        )

    def _end_alike(self, f: int, g: int, memories: Sequence[HistoryMemory]) -> bool:
        """Return whether both read the same at the end of every non-empty finite word."""
        seen = {(f, g, memory) for memory in memories}
        todo = list(seen)
        while todo:
            one, other, memory = todo.pop()
            for after, value in self._events(memory):
                pair = (self.progressed(one, value), self.progressed(other, value), after)
                if self._residuals.at_end(pair[0]) is not self._residuals.at_end(pair[1]):
                    return False
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
        return True

    def _possible(self, choices: Iterator[Obligations], memory: HistoryMemory) -> bool:
        return any(self._tableau.satisfiable(obligations, memory) for obligations in choices)

    def _met(self, residual: int) -> Iterator[Obligations]:
        """The ways to meet a residual: sets of nodes to hold from the next event on."""
        args = self._residuals.nodes.args
        for prime in self._residuals.primes(residual):
            yield frozenset(args[variable][0] for variable in prime)

    def _missed(self, residual: int) -> Iterator[Obligations]:
        """The ways to meet its negation."""
        nodes = self._residuals.nodes
        for prime in self._residuals.primes(self._residuals.dual(residual)):
            yield frozenset(nodes.negation(nodes.args[variable][0]) for variable in prime)
