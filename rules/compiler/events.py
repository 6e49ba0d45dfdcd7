"""Events: the values of a rule's formulas at each letter, after a history."""

from __future__ import annotations

from collections.abc import Callable

from ..model.formula import Formula
from .history import History, HistoryMemory
from .letters import Alphabet
from .limits import Work

ValueOf = Callable[[Formula], bool]
"""The value of a future-free formula at one event."""


class Events:
    """A cache of every letter's values and successor memory, for each memory."""

    def __init__(self, alphabet: Alphabet, history: History, work: Work) -> None:
        self._history = history
        self._work = work
        self._cost = 1 + sum(node.size for node in history.nodes)
        self._known: dict[HistoryMemory, list[tuple[HistoryMemory, ValueOf]]] = {}
        # The values, by letter, of the formulas that the event alone decides.
        self._truths = [
            {formula: bool(letters >> letter & 1) for formula, letters in alphabet.truth.items()}
            for letter in range(len(alphabet))
        ]

    def __call__(self, memory: HistoryMemory) -> list[tuple[HistoryMemory, ValueOf]]:
        """Return for every letter, in order, the memory after it and the values of future-free formulas."""
        events = self._known.get(memory)
        if events is None:
            self._work.spend(self._cost * len(self._truths))
            events = [self._event(memory, truth) for truth in self._truths]
            self._known[memory] = events
        return events

    def reachable(self) -> list[HistoryMemory]:
        """Return the memories that finite words lead to, the start first."""
        found = {self._history.start: None}
        for memory in (ordered := [self._history.start]):
            for after, _ in self(memory):
                if after not in found:
                    found[after] = None
                    ordered.append(after)
        return ordered

    def _event(self, memory: HistoryMemory, truth: dict[Formula, bool]) -> tuple[HistoryMemory, ValueOf]:
        value = self._history.evaluator(memory, truth.get)
        return self._history.after(memory, value), value
