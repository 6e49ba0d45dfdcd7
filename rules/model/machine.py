"""A machine: a compiled rule as flat tables, and the plain stepper over them."""

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
"""Bits of `Machine.output`: the low three are the verdict, the fourth says that the rule applies here.

`STAYS_*` is what a final state goes on answering; its record was written when it was first reached.
"""

VERDICTS = (Verdict.PENDING, Verdict.VIOLATED, Verdict.SATISFIED, Verdict.VIOLATED, Verdict.SATISFIED)
"""The verdict of each value of `output & VERDICT_MASK`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A rule's formula with its recovery, history and LTL3 completion compiled in.

    Bit `i` of a *word* says whether `propositions[i]` is true; `letters[word]` is its letter (words that
    the machine cannot tell apart share one, at most 250). Rows of `next` and `output` are states, columns
    letters. `closing[state]` is the reading when the session ends there (None where no pending instance
    has seen an event) and `residual[state]` what the next event will be asked. State 0 is the start.
    """

    propositions: tuple[str, ...]
    letters: bytes
    next: tuple[tuple[int, ...], ...]
    output: tuple[tuple[int, ...], ...]
    closing: tuple[Verdict | None, ...]
    residual: tuple[str, ...]

    def word(self, true: Collection[str]) -> int:
        """The packed word of the propositions that are true; names the machine does not use are ignored."""
        return sum(1 << i for i, name in enumerate(self.propositions) if name in true)

    def step(self, state: int, word: int) -> tuple[int, int]:
        """The state after an event with that word, and the output there."""
        letter = self.letters[word]
        return self.next[state][letter], self.output[state][letter]
