"""The letters of batches: what rules and their trails read at each label word, remembered by word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ..engine import kernel
from ..engine.judge import CompiledRules
from ..engine.kernel import LetterTable
from ..engine.letters import Choices, LabelWords, label_words, letters, unjudged_word
from ..engine.witness import trail_letters
from ..labels.few import REMEMBERED_MAX, RememberedRows
from ..model.arrays import I32, I64, U8


@dataclass(frozen=True, slots=True)
class BatchLetters:
    """The number of each row's label word, and by word and column of the program what is read there.

    `table` is the kernel's, without stand-ins; `trail_letters` and `trail_words` are those of
    `witness.TrailRows`.
    """

    codes: I32
    table: LetterTable
    trail_letters: I32
    trail_words: I32


class WordLetters:
    """The letters of a compiled rule set by label word. Archives and live streams have few distinct words."""

    def __init__(self, compiled: CompiledRules) -> None:
        self._compiled = compiled
        self._known, self._choices = RememberedRows(), Choices()

    def read(self, labels: pl.DataFrame, places: I64) -> BatchLetters:
        """Return the letters of the rows at these places; `labels` has the labeler's columns and `seq`.

        No rule can judge events with a `seq` above `EVENTS_MAX`.
        """
        if len(self._choices) > REMEMBERED_MAX:
            self._known, self._choices = RememberedRows(), Choices()
        words, codes = label_words(labels, self._compiled.labeler.words)
        keys = [row.tobytes() for row in np.hstack([words.true, words.unknown])]
        rows = self._known.rows(keys, lambda places: self._computed(words, places))
        over = labels["seq"].to_numpy() > kernel.EVENTS_MAX
        if over.any():
            codes = np.where(over, np.int32(len(rows)), codes)
            rows = np.vstack([rows, self._rows(*unjudged_word(self._compiled.program, words))])
        columns = self._compiled.program.columns
        letters = np.ascontiguousarray(rows[:, :columns])
        choice, *trail = np.split(np.ascontiguousarray(rows[:, columns:]).view(np.int32), 3, axis=1)
        choice = np.ascontiguousarray(choice)
        table = LetterTable(letters, choice, *self._choices.arrays(), np.zeros_like(choice))
        return BatchLetters(codes[places], table, *trail)

    def _computed(self, words: LabelWords, places: list[int]) -> U8:
        """Return the letters and choices of each of these words, the trails' letters and the words."""
        compiled, program = self._compiled, self._compiled.program
        chosen = LabelWords(words.true[places], words.unknown[places])
        rules = compiled.rules, compiled.machines, compiled.propositions
        return self._rows(chosen, letters(program, *rules, chosen, self._choices))

    def _rows(self, words: LabelWords, table: LetterTable) -> U8:
        """Return the rows of words with this letter table."""
        compiled, program = self._compiled, self._compiled.program
        trail = trail_letters(compiled.trails, program, words, table, range(program.columns))
        parts = (table.letters, table.choice, *trail)
        return np.hstack([np.ascontiguousarray(part).view(np.uint8) for part in parts])
