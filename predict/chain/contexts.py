"""Contexts of one rule, and the counts of the symbols that followed them.

A *symbol* is what a chain sees of an event, a *context* is what it conditions the next symbol on: the symbol
of the last event, and what the memory formulas and the rule's machine remember.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...rules.model.arrays import I32, I64

START = "start"
"""The symbol before the first event of a sequence; it never follows."""

END = "end"
"""The symbol of a session's close, which has no successor."""

NODES_MAX = 20_000_000
"""Triples of an agent, a symbol and a row of one rule: whatever came of them, each has a risk."""

UNSEEN = "unseen"
"""The symbol of an event whose symbol a chain lacks."""


@dataclass(frozen=True, slots=True)
class SymbolSet:
    """The symbols of one rule by number, in ascending order of their texts.

    As the symbol of a context, the number `len(symbols)` is `start`; as a successor it is `end`.
    """

    symbols: tuple[str, ...]

    @property
    def boundary(self) -> int:
        """Return the number of `start` in a context, and of `end` as a successor."""
        return len(self.symbols)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts that sequences of one rule came to, sorted by their columns in this order.

    `agents[i]` numbers the agent (or model) of context `i` in the sorted names of the chain, 0 where the
    chain does not distinguish them. `symbols` are numbers of the symbol set, `states` are rows of the rule's
    step table. A row of that table has the rule's machine state and those of the memory formulas together.
    """

    agents: I32
    symbols: I32
    states: I32

    def __len__(self) -> int:
        return len(self.symbols)

    def of(self, numbers: I32 | I64) -> Contexts:
        """Return the contexts with these numbers, in their order."""
        return Contexts(self.agents[numbers], self.symbols[numbers], self.states[numbers])


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Transitions from contexts to next symbols, as parallel arrays, each (fold, context, next) once.

    `folds` are 0 to `FOLDS` - 1: the session of a transition decides its fold, so that weights can be chosen
    by cross-validation. Counts of parts of an archive add up.
    """

    folds: I32
    contexts: I32
    nexts: I32
    counts: I64


FOLDS = 5
"""Folds of the sessions that a chain learns from."""
