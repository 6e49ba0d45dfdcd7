"""The labels of two labelers at a few events, evaluated together: a leaf of both is evaluated once."""

from __future__ import annotations

from ...model.predicate import Literal
from ..few import WORD_BITS, FewLabels
from ..guards import any_of
from ..labeler import Labeler
from ..labelled_rows import EventColumns, LabelledRows, RowLabels


class JointLabels:
    """Two labelers over the same events in memory."""

    def __init__(self, first: Labeler, second: Labeler) -> None:
        # The words of the second labeler begin with a word of their own.
        padding = [Literal(False)] * (-len(first.predicates) % WORD_BITS)
        predicates = (*first.predicates, *padding, *second.predicates)
        steps = dict(first.steps)
        for key, guard in second.steps.items():
            steps[key] = any_of([steps[key], guard]) if key in steps else guard
        self._few = FewLabels(predicates, steps)
        places = {key: place for place, key in enumerate(steps)}
        self._keys = [[places[key] for key in labeler.slice_keys] for labeler in (first, second)]
        count = first.words + second.words
        bounds = (0, first.words), (first.words, count)
        self._words = [[*range(*each), *range(count + each[0], count + each[1])] for each in bounds]

    def label(self, events: EventColumns) -> tuple[LabelledRows, LabelledRows]:
        """Return what `Labeler.label_rows` of each labeler returns."""
        labels = self._few.label(events)
        first, second = (
            RowLabels(labels.words[:, words], [labels.slices[key] for key in keys])
            for words, keys in zip(self._words, self._keys, strict=True)
        )
        rows = LabelledRows(events, first)
        return rows, rows.relabelled(second)
