"""Predicates: Boolean conditions on one event, before they become Polars expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

Scalar = str | int | float | bool
"""A literal of the predicate language."""

NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
"""The numbers of JSON (RFC 8259, section 6); no other text is a number."""


def is_number(literal: Scalar) -> bool:
    """Return whether a literal is a number; `true` and `false` are not."""
    return isinstance(literal, int | float) and not isinstance(literal, bool)


def compared_text(literal: Scalar) -> str:
    """Return the text to compare values with: the string itself, or `true` or `false`."""
    assert not is_number(literal), "numbers compare by their value"
    return literal if isinstance(literal, str) else "true" if literal else "false"


@dataclass(frozen=True, slots=True)
class Path:
    """A field of the event frame and a path into its JSON text (or its `attributes` map).

    `steps` holds object keys as str and array indices as int; it is empty for the field itself.
    """

    field: str
    steps: tuple[str | int, ...] = ()


ELEMENT = "element"
"""The field of a path that begins at an element of a list: `.price` in `any(args.items, .price > 3)`."""


class Test(Enum):
    """The tests of a leaf; the value is the test's spelling."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    MATCHES = "matches"
    CONTAINS = "contains"
    STARTS_WITH = "starts with"
    IS_NULL = "is null"
    IS_TRUE = "is true"
    """A bare Boolean field: `nested`, `late`, `history`."""

    __hash__ = object.__hash__  # Enum's own hash is a Python call


@dataclass(frozen=True, slots=True)
class Leaf:
    """One condition: `operands` is one scalar, the members of `in`, a regular expression's text, or empty.

    A comparison with another field of the event has that field's path as `against`, and no operands.
    """

    path: Path
    test: Test
    operands: tuple[Scalar, ...] = ()
    against: Path | None = None


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of the list at a path, or what is at `steps` in each of them: `args.items[*].price`."""

    list: Path
    steps: tuple[str | int, ...] = ()


class Quantifier(Enum):
    """The quantifiers over the elements of a list; the value is the spelling."""

    ANY = "any"
    ALL = "all"

    __hash__ = object.__hash__  # Enum's own hash is a Python call


@dataclass(frozen=True, slots=True)
class Quantified:
    """A condition that any element, or every element, of a list meets: `any(args.passengers, .age < 12)`.

    In `where`, paths of the field `ELEMENT` begin at the element. Paths of the event stand only on the right
    of a comparison, and on the left of `in`.
    """

    quantifier: Quantifier
    elements: Elements
    where: Predicate

    @property
    def path(self) -> Path:
        """Return the path of the list."""
        return self.elements.list


class Fold(Enum):
    """The numbers that the elements of a list have; the value is the spelling."""

    COUNT = "count"
    SUM = "sum"

    __hash__ = object.__hash__  # Enum's own hash is a Python call


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of a list: its elements, those that meet `where`, or the sum: `sum(args.items[*].price)`."""

    fold: Fold
    elements: Elements
    where: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A comparison of a list's number with numbers, a field or another number: `count(args.flights) > 4`."""

    tally: Tally
    test: Test
    operands: tuple[Scalar, ...] = ()
    against: Path | Tally | None = None

    @property
    def path(self) -> Path:
        """Return the path of the list."""
        return self.tally.elements.list


@dataclass(frozen=True, slots=True)
class Contained:
    """A value that equals an element of a list: `args.payment_id in result.payment_methods[*].id`."""

    path: Path
    elements: Elements


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a predicate (Kleene: unknown stays unknown)."""

    arg: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more predicates."""

    args: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more predicates."""

    args: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """`true` or `false`."""

    value: bool


ListCondition = Quantified | Measured | Contained
"""The conditions on lists."""
Condition = Leaf | ListCondition
Predicate = Condition | Not | And | Or | Literal


def leaves(predicate: Predicate) -> Iterator[Condition]:
    """Yield every condition of a predicate, left before right, without those on the elements of lists."""
    match predicate:
        case Not(arg):
            yield from leaves(arg)
        case And(args) | Or(args):
            for arg in args:
                yield from leaves(arg)
        case Literal():
            return
        case _:
            yield predicate


def asked_elements(condition: Condition) -> tuple[tuple[Elements, Predicate], ...]:
    """Return the elements about which a condition asks, with the condition on each of them."""
    match condition:
        case Quantified(_, elements, where):
            return ((elements, where),)
        case Contained(_, elements):
            return ((elements, Literal(True)),)
        case Measured(tally, _, _, against):
            tallies = (tally, against) if isinstance(against, Tally) else (tally,)
            return tuple((each.elements, each.where or Literal(True)) for each in tallies)
        case Leaf():
            return ()


def all_conditions(predicate: Predicate, lists: int = 0) -> Iterator[tuple[int, Condition]]:
    """Yield every condition of a predicate, also on elements, with the number of lists around it."""
    for leaf in leaves(predicate):
        yield lists, leaf
        for _, where in asked_elements(leaf):
            yield from all_conditions(where, lists + 1)


def read_paths(condition: Condition) -> tuple[Path, ...]:
    """Return the paths that a condition reads itself, apart from its conditions on elements of a list."""
    match condition:
        case Quantified(_, elements, _):
            return (elements.list,)
        case Contained(path, elements):
            return (path, elements.list)
        case Leaf(path, _, _, against):
            return (path,) if against is None else (path, against)
        case Measured(tally, _, _, against):
            right = against.elements.list if isinstance(against, Tally) else against
            return (tally.elements.list,) if right is None else (tally.elements.list, right)


def event_paths(condition: Condition) -> Iterator[Path]:
    """Yield the paths of the event that a condition reads, those in lists with the first element."""
    return (path for path in _first_paths(condition) if path.field != ELEMENT)


def _first_paths(condition: Condition) -> Iterator[Path]:
    yield from read_paths(condition)
    for elements, where in asked_elements(condition):
        first = Path(elements.list.field, (*elements.list.steps, 0, *elements.steps))
        yield first
        for leaf in leaves(where):
            for path in _first_paths(leaf):
                yield Path(first.field, first.steps + path.steps) if path.field == ELEMENT else path
