"""The machine of a compiled rule: flat tables and a plain step function."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...schemas.verdict import Verdict

PENDING = 0
VIOLATED = 1
SATISFIED = 2
STAYS_VIOLATED = 3
STAYS_SATISFIED = 4
VERDICT_MASK = 7
APPLIES = 8
"""Bits of `Machine.output`: the low three are the verdict, the fourth marks that the rule applies here.

`STAYS_*` is the output of a final state after the event that reached it; that event has the record.
"""

VERDICTS = (Verdict.PENDING, Verdict.VIOLATED, Verdict.SATISFIED, Verdict.VIOLATED, Verdict.SATISFIED)
"""The verdict of each value of `output & VERDICT_MASK`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A rule's formula with its recovery, history and LTL3 completion compiled in.

    Bit `i` of a *word* is the value of `propositions[i]`; `letters[word]` is its letter (words that the
    machine does not distinguish share one; there are at most 250). Rows of `next` and `output` are states,
    columns are letters. `closing[state]` is the verdict if the session ends there (None if no pending
    instance has seen an event), and `residual[state]` is the formula left for the next event. State 0 is the
    start.
    """

    propositions: tuple[str, ...]
    letters: bytes
    next: tuple[tuple[int, ...], ...]
    output: tuple[tuple[int, ...], ...]
    closing: tuple[Verdict | None, ...]
    residual: tuple[str, ...]

    def word(self, true: Collection[str]) -> int:
        """Pack the true propositions into a word; names that the machine does not use are ignored."""
        return sum(1 << i for i, name in enumerate(self.propositions) if name in true)

    def step(self, state: int, word: int) -> tuple[int, int]:
        """Return the state after an event with that word, and the output."""
        letter = self.letters[word]
        return self.next[state][letter], self.output[state][letter]
