"""Predicates: Boolean conditions on one event, before they become Polars expressions."""

from __future__ import annotations

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

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the paths that the condition reads."""
        return (self.path,) if self.against is None else (self.path, self.against)


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


Predicate = Leaf | Not | And | Or | Literal
