"""The labels of two labelers at a few events, evaluated together: a leaf of both is evaluated once."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ...model.predicate import Literal
from ..few import WORD_BITS, FewLabels
from ..guards import any_of
from ..labeler import Labeler


class JointLabels:
    """Two labelers over the same events in memory; `fields` are the event columns that they read."""

    def __init__(self, first: Labeler, second: Labeler) -> None:
        # The words of the second labeler begin with a word of their own.
        padding = [Literal(False)] * (-len(first.predicates) % WORD_BITS)
        predicates = (*first.predicates, *padding, *second.predicates)
        steps = dict(first.steps)
        for key, guard in second.steps.items():
            steps[key] = any_of([steps[key], guard]) if key in steps else guard
        self._few = FewLabels(predicates, steps)
        places = {key: place for place, key in enumerate(steps)}
        self._names = [
            _names(labeler.words, begin) | _slice_names([places[key] for key in labeler.slice_keys])
            for labeler, begin in ((first, 0), (second, first.words))
        ]
        self.fields = frozenset({*first.fields, *second.fields})

    def label(self, events: pl.DataFrame, keep: Sequence[str] = ()) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return what `Labeler.label_few` of each labeler returns."""
        labels = {column.name: column for column in self._few.label(events)}
        columns = [*map(events.get_column, keep)]
        first, second = (
            pl.DataFrame([*columns, *(labels[joint].alias(name) for name, joint in names.items())])
            for names in self._names
        )
        return first, second


def _names(words: int, begin: int) -> dict[str, str]:
    """Return the joint names of a labeler's words, which begin at that word, by the labeler's."""
    return {f"{letter}{word}": f"{letter}{begin + word}" for letter in "tu" for word in range(words)}


def _slice_names(places: Sequence[int]) -> dict[str, str]:
    """Return the joint names of a labeler's slices by the labeler's, given the joint places of its keys."""
    return {
        f"{letter}{key}": f"{letter}{place}" for key, place in enumerate(places) for letter in ("s", "su")
    }
