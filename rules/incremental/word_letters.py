"""The letters of batches: what rules and their trails read at each label word, remembered by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..engine import kernel, kernel_loop
from ..engine.judge import CompiledRules
from ..engine.kernel import LetterTable
from ..engine.letters import Choices, LabelWords, letters, unjudged_word
from ..engine.witness import trail_letters
from ..labels.few import REMEMBERED_MAX
from ..model.arrays import I32, I64, U64

_OVER = b"over"
"""The key of the word of events above `EVENTS_MAX`; those of others are of whole words of 8 bytes."""


@dataclass(frozen=True, slots=True)
class BatchLetters:
    """The number of each row's label word, and by word and column of the program what is read there.

    `table` is the kernel's, without stand-ins; `trail_letters` and `trail_words` are those of
    `witness.TrailRows`. All three have every remembered word.
    """

    codes: I32
    table: LetterTable
    trail_letters: I32
    trail_words: I32


class WordLetters:
    """The letters of a compiled rule set by label word. Archives and live streams have few distinct words."""

    def __init__(self, compiled: CompiledRules) -> None:
        self._compiled = compiled
        self._begin()

    def _begin(self) -> None:
        self._choices, self._numbers = Choices(), dict[bytes, int]()
        self._known: BatchLetters | None = None

    def read(self, words: U64, seqs: I64) -> BatchLetters:
        """Return the letters of rows with these words of true and then of unknown propositions, and `seq`.

        No rule can judge events with a `seq` above `EVENTS_MAX`.
        """
        if words.shape[1]:
            codes, firsts = kernel_loop.numbered(words)
            distinct: U64 = words[firsts]
        else:
            codes, distinct = np.zeros(len(words), dtype=np.int32), words[:1]
        over = seqs > kernel.EVENTS_MAX
        keys = [row.tobytes() for row in distinct]
        if over.any():
            codes, keys = np.where(over, np.int32(len(keys)), codes), [*keys, _OVER]
        known = self._of_words(keys, distinct)
        numbers = np.array([self._numbers[key] for key in keys], dtype=np.int32)
        return replace(known, codes=numbers[codes] if len(keys) else codes)

    def _of_words(self, keys: Sequence[bytes], words: U64) -> BatchLetters:
        """Return the letters of remembered words, among them these, whose last key may be `_OVER`."""
        new = [place for place, key in enumerate(keys) if key not in self._numbers]
        count = max(len(self._numbers) + len(new), len(self._choices))
        if new and count > REMEMBERED_MAX:
            self._begin()
            new = list(range(len(keys)))
        if self._known is None or new:
            whole = [place for place in new if keys[place] != _OVER]
            parts = [] if self._known is None else [self._known]
            parts.append(self._computed(words[whole]))
            if len(whole) < len(new):
                parts.append(self._letters(*unjudged_word(self._compiled.program, _halves(words))))
            for place in new:
                self._numbers[keys[place]] = len(self._numbers)
            self._known = self._joined(parts)
        return self._known

    def _computed(self, words: U64) -> BatchLetters:
        """Return the letters of distinct words, whose choices are numbered from now on."""
        compiled, chosen = self._compiled, _halves(words)
        rules = compiled.rules, compiled.machines, compiled.propositions
        return self._letters(chosen, letters(compiled.program, *rules, chosen, self._choices))

    def _letters(self, words: LabelWords, table: LetterTable) -> BatchLetters:
        """Return the letters of words with this letter table."""
        compiled, program = self._compiled, self._compiled.program
        trail = trail_letters(compiled.trails, program, words, table, range(program.columns))
        return BatchLetters(np.empty(0, dtype=np.int32), table, *trail)

    def _joined(self, parts: Sequence[BatchLetters]) -> BatchLetters:
        """Return the letters of all parts; their choices are those of this object."""
        choice = np.ascontiguousarray(np.concatenate([part.table.choice for part in parts]))
        table = LetterTable(
            np.ascontiguousarray(np.concatenate([part.table.letters for part in parts])),
            choice,
            *self._choices.arrays(),
            np.zeros_like(choice),
        )
        trail = zip(*((part.trail_letters, part.trail_words) for part in parts), strict=True)
        return BatchLetters(np.empty(0, dtype=np.int32), table, *map(np.concatenate, trail))


def _halves(words: U64) -> LabelWords:
    """Return words whose first half is of true and whose second half is of unknown propositions."""
    count = words.shape[1] // 2
    return LabelWords(words[:, :count], words[:, count:])
