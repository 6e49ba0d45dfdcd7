"""Searches in the events of an archive for a shape at a place, or a text that a value there equals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...rules.model.predicate import Condition, Leaf, Predicate, Scalar, Test, compared_text
from .beginnings import Beginnings
from .conditions import Context, PlacedCondition
from .needs import (
    Need,
    ReadPlace,
    Shape,
    compared_texts,
    equals,
    field_of,
    needs,
    place_text,
    shapes,
    text_of,
    values_at,
)
from .spelling import misspelt, misspelt_path, part_beside

CHOICES_MAX = 8
"""Different values of a place that is a choice among a few."""
CHOSEN_MIN = 20
"""Values of such a place from which another value that never occurs is a likely mistake."""


_OTHERS = (Shape.VALUE, Shape.LIST)


class Probe(NamedTuple):
    """A condition that is searched for among some events."""

    context: Context
    predicate: Predicate


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


class KeyPaths(NamedTuple):
    """The paths of a `for_each`, of which some event must have each one, or one of them if not `joint`."""

    joint: bool
    paths: tuple[Required, ...]


Search = Required | Compared


@dataclass(frozen=True, slots=True)
class Asked:
    """The searches of conditions and slice keys. `required` is true where a lack is a mistake in any case."""

    required: Mapping[Required, bool]
    compared: tuple[Compared, ...]
    keys: tuple[KeyPaths, ...]

    @property
    def searches(self) -> list[Search]:
        """Return all searches."""
        in_keys = (each for key in self.keys for each in key.paths)
        return [*dict.fromkeys([*self.required, *self.compared, *in_keys])]

    def suspects(self, lacking: Collection[Search], beginnings: Beginnings) -> list[Search]:
        """Return those of the searches that beginnings lack which are mistakes if the whole archive does."""
        keys = [key.paths for key in self.keys if key.joint or all(each in lacking for each in key.paths)]
        strict = {each for each, is_strict in self.required.items() if is_strict}.union(*keys)
        return [each for each in lacking if each in strict or self._is_suspect(each, beginnings)]

    def _is_suspect(self, search: Search, beginnings: Beginnings) -> bool:
        if isinstance(search, Compared):
            return search.is_suspect(beginnings)
        is_alternative = any(search in key.paths for key in self.keys)
        return search.is_misspelt(beginnings) or (is_alternative and search.is_part(beginnings))


def asked_by(
    conditions: Iterable[PlacedCondition], keys: Iterable[KeyPaths], has: Callable[[Context], bool]
) -> Asked:
    """Return the searches of conditions and slice keys, in contexts of which the archive `has` events."""
    required, compared = dict[Required, bool](), dict[Compared, None]()
    for condition, context, decides in conditions:
        if has(context):
            is_strict = decides and not asks_null(condition)
            for each in needs(condition):
                found = Required(context, each)
                required[found] = required.get(found, False) or is_strict
            compared |= dict.fromkeys(Compared(context, *pair) for pair in compared_texts(condition))
    listed = [key for key in keys if all(has(each.context) for each in key.paths)]
    return Asked(required, tuple(compared), tuple(listed))


def with_others(searches: Iterable[Search]) -> list[Search]:
    """Return searches, and those for the other shapes that decide what a message states."""
    found = [*searches]
    others = [each.of_shape(shape) for each in found if isinstance(each, Required) for shape in _OTHERS]
    return [*dict.fromkeys([*found, *others])]


def asks_null(condition: Condition) -> bool:
    """Return whether a condition asks whether a value is null."""
    return isinstance(condition, Leaf) and condition.against is None and condition.test is Test.IS_NULL


def texts_in(place: ReadPlace, documents: Iterable[str]) -> Counter[str]:
    """Return how often there is each text and Boolean at a place in JSON documents."""
    found = (text_of(value) for document in documents for value in values_at(place, document))
    return Counter(text for text in found if text is not None)


def is_choice(values: Counter[str]) -> bool:
    """Return whether values at a place are a choice among a few, so that another one is remarkable."""
    return 0 < len(values) <= CHOICES_MAX and values.total() >= CHOSEN_MIN
