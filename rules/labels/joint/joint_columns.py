"""The labels of two labelers over an archive's files, evaluated together: one pass, each predicate once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ....schemas.frames.events import EVENT_SCHEMA
from ...model.arrays import U64
from ...model.predicate import Predicate
from ..few import WORD_BITS
from ..guarded import LabelPlan
from ..guards import any_of
from ..labeler import Labeler, slice_columns, word_columns


class JointColumns:
    """The labels of a labeler, and behind them in further columns what a second one has beside it.

    `fields` are the event columns that it reads. `bits` has the joint place of each proposition of the second
    labeler, and `keys` the joint number of each of its slice keys. Words and keys that the first labeler does
    not have are numbered after its own.
    """

    def __init__(self, first: Labeler, second: Labeler) -> None:
        # The keys are texts: `Leaf(..., (1,))` equals `Leaf(..., (True,))`.
        places = {repr(each): place for place, each in enumerate(first.predicates)}
        further: list[Predicate] = []
        # They begin with a word of their own, so that the words of the first labeler stay as they are.
        begin = first.words * WORD_BITS
        for each in second.predicates:
            if repr(each) not in places:
                places[repr(each)] = begin + len(further)
                further.append(each)
        steps, is_first = dict(first.steps), not further
        for key, guard in second.steps.items():
            if repr(steps.get(key)) != repr(guard):
                steps[key] = any_of([steps[key], guard]) if key in steps else guard
                is_first = False
        if is_first:
            # A chain of the rules themselves needs no plan of its own.
            plan, columns = first.planned
        else:
            plan = LabelPlan([*first.predicates, *further])
            columns = [
                *word_columns(plan, first.predicates),
                *word_columns(plan, further, first.words),
                *slice_columns(plan, steps),
            ]
        self._plan, self._columns = plan, columns
        keys = list(steps)
        self.bits: tuple[int, ...] = tuple(places[repr(each)] for each in second.predicates)
        self.keys: tuple[int, ...] = tuple(map(keys.index, second.slice_keys))
        self.fields: tuple[str, ...] = tuple(name for name in EVENT_SCHEMA if name in self._plan.fields)
        self._words = range(first.words, first.words - (-len(further) // WORD_BITS))
        self._more_keys = range(len(first.slice_keys), len(keys))

    @property
    def more_words(self) -> tuple[str, ...]:
        """Return the names of the further words: first those of true propositions."""
        return tuple(f"{letter}{word}" for letter in "tu" for word in self._words)

    @property
    def more_slices(self) -> tuple[str, ...]:
        """Return the names of the further slices: for each key the value, and whether it is unknown."""
        return tuple(f"{letter}{key}" for key in self._more_keys for letter in ("s", "su"))

    def label(self, events: pl.LazyFrame, keep: Sequence[str] = ()) -> pl.LazyFrame:
        """Return what `Labeler.label` of the first labeler returns, and the further columns."""
        return self._plan.apply(events).select(*keep, *self._columns)

    def second_words(self, words: U64) -> U64:
        """Return words of the second labeler for joint words, of true or of unknown propositions."""
        found = np.zeros((len(words), -(-len(self.bits) // WORD_BITS)), dtype=np.uint64)
        for place, bit in enumerate(self.bits):
            is_set = words[:, bit // WORD_BITS] >> np.uint64(bit % WORD_BITS) & np.uint64(1)
            found[:, place // WORD_BITS] |= is_set << np.uint64(place % WORD_BITS)
        return found
