"""Predicates as data: the Boolean questions asked of one event, before they become Polars expressions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

Scalar = str | int | float | bool
"""A literal of the predicate language."""

NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
"""The numbers of JSON (RFC 8259, section 6); other text has no value as a number."""


def is_number(literal: Scalar) -> bool:
    """Return whether a literal is a number; `true` and `false` are none."""
    return isinstance(literal, int | float) and not isinstance(literal, bool)


def compared_text(literal: Scalar) -> str:
    """The text that values are compared with: a string's own, and JSON's of `true` and `false`."""
    assert not is_number(literal), "numbers compare by their value"
    return literal if isinstance(literal, str) else "true" if literal else "false"


@dataclass(frozen=True, slots=True)
class Path:
    """A field of the event frame, and the way into its JSON text (or `attributes` map).

    `steps` holds object keys as str and array indices as int; it is empty for the field itself.
    """

    field: str
    steps: tuple[str | int, ...] = ()


class Test(Enum):
    """What a leaf asks of its value; the value is how it is written."""

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

    __hash__ = object.__hash__  # an Enum's own is a call of Python


@dataclass(frozen=True, slots=True)
class Leaf:
    """One question: `operands` is one scalar, the members of `in`, a regular expression's text, or empty."""

    path: Path
    test: Test
    operands: tuple[Scalar, ...] = ()


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
