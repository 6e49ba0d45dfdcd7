"""The letters of batches: what rules and their trails read at each label word, remembered by word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..engine import kernel
from ..engine.judge import CompiledRules
from ..engine.kernel import I32, U8
from ..engine.letters import LabelWords, label_words, letters
from ..engine.trail_loop import UNREADABLE
from ..engine.witness import trail_letters
from ..labels.few import RememberedRows


@dataclass(frozen=True, slots=True)
class BatchLetters:
    """The number of each row's label word, and by word and column of the program what is read there.

    `letters` is the kernel's table; `trail_letters` and `trail_words` are those of `witness.TrailRows`.
    """

    codes: I32
    letters: U8
    trail_letters: I32
    trail_words: I32


class WordLetters:
    """The letters of a compiled rule set by label word. Archives and live streams have few distinct words."""

    def __init__(self, compiled: CompiledRules) -> None:
        self._compiled, self._known = compiled, RememberedRows()

    def read(self, labels: pl.DataFrame) -> BatchLetters:
        """Return the letters of rows with the labeler's columns and `seq`.

        No rule can judge events with a `seq` above `EVENTS_MAX`.
        """
        words, codes = label_words(labels, self._compiled.labeler.words)
        keys = [row.tobytes() for row in np.hstack([words.true, words.unknown])]
        rows = self._known.rows(keys, lambda places: self._computed(words, places))
        over = labels["seq"].to_numpy() > kernel.EVENTS_MAX
        if over.any():
            codes = np.where(over, np.int32(len(rows)), codes)
            rows = np.vstack([rows, self._unjudged()])
        columns = self._compiled.program.columns
        trail = np.ascontiguousarray(rows[:, columns:]).view(np.int32)
        return BatchLetters(
            codes, np.ascontiguousarray(rows[:, :columns]), trail[:, :columns], trail[:, columns:]
        )

    def _computed(self, words: LabelWords, places: list[int]) -> U8:
        """Return for each of these words its letters, the trails' letters, and the machines' words."""
        compiled, program = self._compiled, self._compiled.program
        chosen = LabelWords(words.true[places], words.unknown[places])
        table = letters(program, compiled.rules, compiled.machines, compiled.propositions, chosen)
        trail = trail_letters(compiled.trails, program, chosen, table, range(program.columns))
        return _joined(table, *trail)

    def _unjudged(self) -> U8:
        """Return the row of a word that no rule can judge."""
        table = self._compiled.program.unknown[None, :]
        return _joined(table, np.full(table.shape, UNREADABLE, np.int32), np.zeros(table.shape, np.int32))


def _joined(table: U8, trail: I32, words: I32) -> NDArray[np.uint8]:
    parts = [np.ascontiguousarray(part).view(np.uint8) for part in (table, trail, words)]
    return np.hstack(parts)
