"""Decisions about residuals: their LTL3 verdicts, and the equivalence of two residuals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import machine as table
from ..model.formula import Formula
from .emptiness import Obligations, Tableau
from .events import Events, ValueOf
from .history import HistoryMemory
from .limits import Work
from .residual import Progression, Residuals


class Decider:
    """A cache of decisions about the residuals of one rule."""

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

    def progressed(self, residual: int, value: ValueOf) -> int:
        """Return the residual after an event at which future-free formulas have these values."""
        self._work.spend(1 + len(self._leaves) // 4)
        key = tuple(value(leaf) for leaf in self._leaves)
        known = self._progressions.get(key)
        if known is None:
            known = self._progressions[key] = Progression(self._residuals, value)
        return known.residual(residual)

    def verdict(self, residual: int, memory: HistoryMemory) -> int:
        """Return the LTL3 verdict of a residual after a history.

        It is violated where the residual is unsatisfiable, satisfied where its negation is, else pending.
        """
        key = (residual, memory)
        known = self._verdicts.get(key)
        if known is None:
            known = table.PENDING
            if not self._is_satisfiable(self._models(residual), memory):
                known = table.VIOLATED
            elif not self._is_satisfiable(self._countermodels(residual), memory):
                known = table.SATISFIED
            self._verdicts[key] = known
        return known

    def same(self, f: int, g: int) -> bool:
        """Return whether `f` and `g` agree on all non-empty words, finite and infinite, after every history.

        Both kinds of words count: `always eventually p` and `eventually always p` agree on finite ones.
        """
        if self._residuals.condition(f) == self._residuals.condition(g):
            return True
        memories = self._events.reachable()
        # Finite words come first: they are cheaper, and distinguish most residuals.
        return self._end_alike(f, g, memories) and not any(self._differ(f, g, memory) for memory in memories)

    def _differ(self, f: int, g: int, memory: HistoryMemory) -> bool:
        """Return whether an infinite word satisfies one of the residuals and violates the other."""
        return any(
            self._is_satisfiable(
                (a | b for a in self._models(left) for b in self._countermodels(right)), memory
            )
            for left, right in ((f, g), (g, f))
        )

    def _end_alike(self, f: int, g: int, memories: Sequence[HistoryMemory]) -> bool:
        """Return whether both have the same reading at the end of every non-empty finite word."""
        seen = {(f, g, memory) for memory in memories}
        todo = list(seen)
        while todo:
            left, right, memory = todo.pop()
            for after, value in self._events(memory):
                pair = (self.progressed(left, value), self.progressed(right, value), after)
                if self._residuals.at_end(pair[0]) is not self._residuals.at_end(pair[1]):
                    return False
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
        return True

    def _is_satisfiable(self, choices: Iterator[Obligations], memory: HistoryMemory) -> bool:
        return any(self._tableau.satisfiable(obligations, memory) for obligations in choices)

    def _models(self, residual: int) -> Iterator[Obligations]:
        """Yield the ways to satisfy a residual: sets of nodes to hold from the next event on."""
        args = self._residuals.nodes.args
        for prime in self._residuals.primes(residual):
            yield frozenset(args[variable][0] for variable in prime)

    def _countermodels(self, residual: int) -> Iterator[Obligations]:
        """Yield the ways to satisfy the negation of a residual."""
        nodes = self._residuals.nodes
        for prime in self._residuals.primes(self._residuals.dual(residual)):
            yield frozenset(nodes.negation(nodes.args[variable][0]) for variable in prime)
