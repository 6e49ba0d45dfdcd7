"""Searches in the events of an archive for a shape at a place, or a text that a value there equals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ...rules.model.predicate import Scalar, compared_text
from .archive_events import Beginnings, Probe
from .conditions import Context
from .needs import Need, ReadPlace, Shape, equals, field_of, place_text, shapes, text_of, values_at
from .spelling import misspelt, misspelt_path, part_beside

CHOICES_MAX = 8
"""Different values of a place that is a choice among a few."""
CHOSEN_MIN = 20
"""Values of such a place from which another value that never occurs is a likely mistake."""


class Required(NamedTuple):
    """A shape that some event of a context must have at a place."""

    context: Context
    need: Need

    def of_shape(self, shape: Shape) -> Required:
        """Return the requirement of another shape."""
        return Required(self.context, Need(self.need.place, shape))

    def is_in(self, beginnings: Beginnings) -> bool:
        """Return whether the beginnings of the archive have the shape at the place."""
        place = self.need.place
        documents = beginnings.documents(self.context, field_of(place))
        return any(
            self.need.shape in shapes(value) for document in documents for value in values_at(place, document)
        )

    def is_misspelt(self, beginnings: Beginnings) -> bool:
        """Return whether the beginnings of the archive have a path of a similar name."""
        place = self.need.place
        known = beginnings.paths(self.context, field_of(place))
        return misspelt_path(place_text(place), known) is not None

    def is_part(self, beginnings: Beginnings) -> bool:
        """Return whether the beginnings have a path beside it with the words of its name, or some of them."""
        known = beginnings.paths(self.context, field_of(self.need.place))
        return part_beside(place_text(self.need.place), known) is not None

    @property
    def probe(self) -> Probe:
        """Return the search for the shape."""
        return Probe(self.context, self.need.predicate)


class Compared(NamedTuple):
    """A text that a condition compares with what is at a place, in the events of a context."""

    context: Context
    place: ReadPlace
    operand: Scalar

    @property
    def text(self) -> str:
        """Return the text."""
        return compared_text(self.operand)

    def is_in(self, beginnings: Beginnings) -> bool:
        """Return whether the beginnings of the archive have the text at the place."""
        return self.text in self._values(beginnings)

    def is_suspect(self, beginnings: Beginnings) -> bool:
        """Return whether the beginnings have a similar text at the place, or often one of a few others."""
        values = self._values(beginnings)
        return misspelt(self.text, values) is not None or is_choice(values)

    @property
    def probe(self) -> Probe:
        """Return the search for the text."""
        return Probe(self.context, equals(self.place, self.operand))

    def _values(self, beginnings: Beginnings) -> Counter[str]:
        return texts_in(self.place, beginnings.documents(self.context, field_of(self.place)))


def texts_in(place: ReadPlace, documents: Iterable[str]) -> Counter[str]:
    """Return how often there is each text and Boolean at a place in JSON documents."""
    found = (text_of(value) for document in documents for value in values_at(place, document))
    return Counter(text for text in found if text is not None)


def is_choice(values: Counter[str]) -> bool:
    """Return whether values at a place are a choice among a few, so that another one is remarkable."""
    return 0 < len(values) <= CHOICES_MAX and values.total() >= CHOSEN_MIN
