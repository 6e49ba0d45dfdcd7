"""The needs of conditions: the shapes of values without which a condition is the same at all events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, cast

from ...rules.labels.lists.elements import at_steps
from ...rules.labels.plain import decoded
from ...rules.model.predicate import (
    ELEMENT,
    NUMBER,
    And,
    Condition,
    Contained,
    Elements,
    Fold,
    Leaf,
    Measured,
    Not,
    Or,
    Path,
    Predicate,
    Quantified,
    Quantifier,
    Scalar,
    Tally,
    Test,
    compared_text,
    is_number,
    leaves,
)
from ...rules.model.printer import elements_text, path_text

ReadPlace: TypeAlias = Path | Elements
"""A path of the event, or a path in the elements of a list."""

_NUMBER = re.compile(NUMBER)
_ORDER = frozenset({Test.LT, Test.LE, Test.GT, Test.GE})
_JSON = frozenset({"args", "result"})


class Shape(Enum):
    """A kind of value at a place."""

    VALUE = "a value"
    SCALAR = "a text, number or Boolean"
    NUMBER = "a number"
    WORDS = "a text that is no number, or a Boolean"
    LIST = "a list"


@dataclass(frozen=True, slots=True)
class Need:
    """A shape that some event must have at a place, so that a condition that reads it has a purpose."""

    place: ReadPlace
    shape: Shape

    @property
    def predicate(self) -> Predicate:
        """Return the condition that an event with the shape at the place meets."""
        if isinstance(self.place, Path):
            return _shape_at(self.place, self.shape)
        return Quantified(Quantifier.ANY, self.place, _shape_at(Path(ELEMENT), self.shape))


def field_of(place: ReadPlace) -> str:
    """Return the field of the event in which a place is."""
    return place.field if isinstance(place, Path) else place.list.field


def place_text(place: ReadPlace) -> str:
    """Return a place as rules write it."""
    return path_text(place) if isinstance(place, Path) else elements_text(place)


def _shape_at(path: Path, shape: Shape) -> Predicate:
    number = Or((Leaf(path, Test.GE, (0,)), Leaf(path, Test.LT, (0,))))
    match shape:
        case Shape.VALUE:
            return Not(Leaf(path, Test.IS_NULL))
        case Shape.SCALAR:
            return Or((Leaf(path, Test.EQ, ("",)), Leaf(path, Test.NE, ("",))))
        case Shape.NUMBER:
            return number
        case Shape.WORDS:
            return And((_shape_at(path, Shape.SCALAR), Not(number)))
        case Shape.LIST:
            return Measured(Tally(Fold.COUNT, Elements(path)), Test.GE, (0,))


def needs(condition: Condition) -> Iterator[Need]:
    """Yield the needs of a condition; a need comes before those that depend on it."""
    match condition:
        case Leaf():
            yield from _leaf_needs(condition, condition.path)
            for path in () if condition.against is None else (condition.path, condition.against):
                yield from _needs_at(path, Shape.SCALAR)
        case Quantified(_, elements, where):
            yield from _list_needs(elements, where)
        case Contained(path, elements):
            yield from _needs_at(path, Shape.SCALAR)
            yield from _needs_at(elements.list, Shape.LIST)
            if elements.steps:
                yield from _needs_at(elements, Shape.SCALAR)
        case Measured(tally, _, _, against):
            yield from _tally_needs(tally)
            if isinstance(against, Tally):
                yield from _tally_needs(against)
            elif against is not None:
                yield from _needs_at(against, Shape.NUMBER)


def _tally_needs(tally: Tally) -> Iterator[Need]:
    if tally.fold is Fold.SUM:
        yield from _needs_at(tally.elements.list, Shape.LIST)
        yield from _needs_at(tally.elements, Shape.NUMBER)
    else:
        yield from _list_needs(tally.elements, tally.where)


def _list_needs(elements: Elements, where: Predicate | None) -> Iterator[Need]:
    """Yield the needs of a condition on elements: a list, and what the condition reads in each of them."""
    yield from _needs_at(elements.list, Shape.LIST)
    for leaf in () if where is None else leaves(where):
        if isinstance(leaf, Leaf) and leaf.path.field == ELEMENT:
            place = Elements(elements.list, (*elements.steps, *leaf.path.steps))
            yield from _leaf_needs(leaf, place)


def _leaf_needs(leaf: Leaf, place: ReadPlace) -> Iterator[Need]:
    if leaf.test is Test.IS_NULL:
        yield from _needs_at(place, Shape.VALUE)
    elif leaf.test in (Test.MATCHES, Test.CONTAINS, Test.STARTS_WITH):
        # The whole JSON text of a field can be searched.
        yield from _needs_at(place, Shape.SCALAR if _has_steps(place) else Shape.VALUE)
    elif leaf.operands:
        yield from _needs_at(place, _compared_shape(leaf))


def _compared_shape(leaf: Leaf) -> Shape:
    """Return the shape of the values that a comparison with literals can distinguish."""
    if leaf.test is not Test.NE and all(map(is_number, leaf.operands)):
        return Shape.NUMBER
    if leaf.test in _ORDER and _NUMBER.fullmatch(str(leaf.operands[0])):
        return Shape.WORDS
    return Shape.SCALAR


def _needs_at(place: ReadPlace, shape: Shape) -> Iterator[Need]:
    """Yield the need of a shape, if the place is in JSON or is an attribute."""
    name = field_of(place)
    if name in _JSON:
        yield Need(place, shape)
    elif name == "attributes":
        yield Need(place, Shape.VALUE)


def _has_steps(place: ReadPlace) -> bool:
    return isinstance(place, Elements) or bool(place.steps)


def compared_texts(condition: Condition) -> Iterator[tuple[ReadPlace, Scalar]]:
    """Yield the words and Booleans with which a condition asks whether content is equal, and the places."""
    match condition:
        case Leaf(Path("args" | "result") as path, Test.EQ | Test.NE | Test.IN, values):
            yield from ((path, value) for value in values if _is_word(value))
        case Quantified(_, elements, where) | Measured(Tally(_, elements, where)):
            for leaf in () if where is None else leaves(where):
                if isinstance(leaf, Leaf) and leaf.path.field == ELEMENT:
                    place = Elements(elements.list, (*elements.steps, *leaf.path.steps))
                    inner = Leaf(elements.list, leaf.test, leaf.operands)
                    yield from ((place, value) for _, value in compared_texts(inner))
        case _:
            return


def equals(place: ReadPlace, operand: Scalar) -> Predicate:
    """Return the condition that an event with this value at a place meets."""
    if isinstance(place, Path):
        return Leaf(place, Test.EQ, (operand,))
    return Quantified(Quantifier.ANY, place, Leaf(Path(ELEMENT), Test.EQ, (operand,)))


def _is_word(operand: Scalar) -> bool:
    """Return whether a literal may be misspelt: ids and dates have digits."""
    text = "" if is_number(operand) else compared_text(operand)
    return bool(text) and not any(map(str.isdigit, text))


def text_of(value: Any) -> str | None:
    """Return a word or Boolean as the text that it compares as; None for other values."""
    if isinstance(value, bool | str):
        return compared_text(value)
    return None


def values_at(place: ReadPlace, document: str) -> list[Any]:
    """Return what is at a place in the JSON of its field; text that is no JSON is a value of its own."""
    if field_of(place) not in _JSON:
        return [document]
    value = decoded(document)
    if isinstance(place, Elements):
        found = at_steps(value, place.list.steps)
        items = cast("list[Any]", found) if isinstance(found, list) else []
        return [at_steps(item, place.steps) for item in items]
    if not place.steps and value is None and document != "null":
        return [document]
    return [at_steps(value, place.steps)]


def shapes(value: Any) -> frozenset[Shape]:
    """Return the shapes of a JSON value."""
    if value is None:
        return frozenset()
    if isinstance(value, list):
        return frozenset({Shape.VALUE, Shape.LIST})
    if isinstance(value, dict):
        return frozenset({Shape.VALUE})
    is_numeric = is_number(value) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)
    return frozenset({Shape.VALUE, Shape.SCALAR, Shape.NUMBER if is_numeric else Shape.WORDS})
