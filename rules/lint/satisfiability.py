"""Whether a proposition can hold at all: its question tried on every sort of event it could tell apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType

from ..labels.guards import leaves
from ..model.fields import FIELDS, FieldType
from ..model.predicate import (
    NUMBER,
    And,
    Leaf,
    Literal,
    Not,
    Or,
    Path,
    Predicate,
    Scalar,
    Test,
    compared_text,
    is_number,
)

STEPS_MAX = 200_000
"""Questions that are asked of sorts of events before a proposition counts as possible."""

GUESSES_MAX = 10
"""Questions without a sure answer that are guessed both ways; with more, a proposition counts as possible."""

KIND = Path("kind")
ORDER: Mapping[Test, Callable[..., bool]] = {
    Test.EQ: eq,
    Test.NE: ne,
    Test.LT: lt,
    Test.LE: le,
    Test.GT: gt,
    Test.GE: ge,
}


@dataclass(frozen=True, slots=True)
class ValueClass:
    """A sort of value: `text` if it is this text, `number` if it is a text with this value.

    With neither it is some text that is no number and equals nothing the predicate names; without
    `scalar` an object or array; without `present` nothing.
    """

    text: str | None = None
    number: Fraction | float | None = None
    scalar: bool = True
    present: bool = True


MISSING = ValueClass(present=False, scalar=False)
CONTAINER = ValueClass(scalar=False)
OTHER = ValueClass()

Values = Mapping[Path, ValueClass]
"""An event: the sort of value of each path that is asked about."""
NOTHING: Mapping[Leaf, bool] = MappingProxyType({})


def is_satisfiable(predicate: Predicate) -> bool:
    """False only if no event whatever makes the predicate true.

    Fields are taken to be free of each other, but for those that only some kinds of events have. What a
    regular expression matches is not looked into.
    """
    return satisfiable_with_steps(predicate)[0]


@lru_cache(maxsize=16_384)
def satisfiable_with_steps(predicate: Predicate) -> tuple[bool, int]:
    """Return whether the predicate can hold, and the steps it takes to find out."""
    asked = list(dict.fromkeys(leaves(predicate)))
    classes = {
        path: value_classes(path, asked)
        for path in dict.fromkeys(leaf.path for leaf in asked)
        if path != KIND
    }
    cost = sum(1 + len(leaf.operands) for leaf in leaves(predicate))
    steps = cost * (1 + len(asked))
    for kind in FIELDS["kind"].choices:
        values = {KIND: ValueClass(kind)}
        steps += cost
        if evaluate_predicate(predicate, values) is False:
            continue
        fitting = [
            [value_class for value_class in own if _fits(kind, path, value_class)]
            for path, own in classes.items()
        ]
        for event in product(*fitting):
            values.update(zip(classes, event, strict=True))
            holds, guesses = _holds(predicate, asked, values)
            steps += cost * (1 + guesses)
            if holds or steps > STEPS_MAX:
                return True, steps
    return False, steps


def _fits(kind: str, path: Path, value_class: ValueClass) -> bool:
    """Return whether an event of that kind can have such a value."""
    return value_class is MISSING or kind in FIELDS[path.field].kinds


def value_classes(path: Path, asked: list[Leaf]) -> list[ValueClass]:
    """The sorts of values of the path that the questions could tell apart."""
    field = FIELDS[path.field]
    if field.type is FieldType.FLAG:
        return [ValueClass("true"), ValueClass("false")]
    if field.type is FieldType.CHOICE:
        return [ValueClass(choice) for choice in field.choices]
    operands = [
        operand
        for leaf in asked
        if leaf.path == path and leaf.test is not Test.MATCHES
        for operand in leaf.operands
    ]
    texts = dict.fromkeys(compared_text(operand) for operand in operands if not is_number(operand))
    numbers = sorted({Fraction(operand) for operand in operands if is_number(operand)})
    between = [(low + high) / 2 for low, high in pairwise(numbers)]
    ends = [numbers[0] - 1, numbers[-1] + 1] if numbers else [Fraction(0)]
    whole = [] if path.steps or not field.nullable else [MISSING]
    inside = [MISSING, CONTAINER] if path.steps else [CONTAINER] if field.type is FieldType.JSON else []
    return [
        *(ValueClass(text, _number(text)) for text in texts),
        OTHER,
        *(ValueClass(number=number) for number in dict.fromkeys([*numbers, *between, *ends])),
        *whole,
        *inside,
    ]


def evaluate_leaf(leaf: Leaf, value: ValueClass) -> bool | None:
    """The leaf's answer on a value of that sort, or None where the sort does not tell."""
    test, operands = leaf.test, leaf.operands
    if leaf.path == KIND and value.text == "unknown" and not {"user", "assistant"}.isdisjoint(operands):
        return None
    if test is Test.IS_NULL:
        return not value.present
    if not value.scalar:
        return False
    match test:
        case Test.IS_TRUE:
            return value.text == "true"
        case Test.MATCHES:
            return None
        case Test.CONTAINS:
            return None if value.text is None else str(operands[0]) in value.text
        case Test.STARTS_WITH:
            return None if value.text is None else value.text.startswith(str(operands[0]))
        case Test.IN:
            return any(_compared(Test.EQ, value, operand) for operand in operands)
        case _:
            return _compared(test, value, operands[0])


def _compared(test: Test, value: ValueClass, operand: Scalar) -> bool | None:
    """`value test operand`: with a number by value, else by text."""
    if is_number(operand):
        if value.number is None:
            return test is Test.NE
        return ORDER[test](value.number, operand)
    if value.text is None:
        return {Test.EQ: False, Test.NE: True}.get(test)
    return ORDER[test](value.text, compared_text(operand))


def _holds(predicate: Predicate, asked: list[Leaf], values: Values) -> tuple[bool, int]:
    """Return whether the predicate is true of an event with these values and some guess of what is open.

    The guesses that were made are counted beside it.
    """
    sure = evaluate_predicate(predicate, values)
    if sure is not None:
        return sure, 0
    # An unknown event stays unknown: whether it was the user's is nothing to guess.
    unsure = [leaf for leaf in asked if leaf.path != KIND and evaluate_leaf(leaf, values[leaf.path]) is None]
    if len(unsure) > GUESSES_MAX:
        return True, 0
    guesses = 0
    for guess in product((True, False), repeat=len(unsure)):
        guesses += 1
        if evaluate_predicate(predicate, values, dict(zip(unsure, guess, strict=True))):
            return True, guesses
    return False, guesses


def evaluate_predicate(
    predicate: Predicate, values: Values, guessed: Mapping[Leaf, bool] = NOTHING
) -> bool | None:
    """The predicate's value on an event with these values (Kleene); of a path without one all is open."""
    match predicate:
        case Literal(value):
            return value
        case Leaf():
            if guessed and predicate in guessed:
                return guessed[predicate]
            value = values.get(predicate.path)
            return None if value is None else evaluate_leaf(predicate, value)
        case Not(arg):
            value = evaluate_predicate(arg, values, guessed)
            return None if value is None else not value
        case And(args):
            return _joined(args, values, guessed, wanted=True)
        case Or(args):
            return _joined(args, values, guessed, wanted=False)


def _joined(
    args: tuple[Predicate, ...], values: Values, guessed: Mapping[Leaf, bool], *, wanted: bool
) -> bool | None:
    """`wanted` if all of them are; the other where one is the other, which most events show early."""
    found: bool | None = wanted
    for arg in args:
        value = evaluate_predicate(arg, values, guessed)
        if value is (not wanted):
            return value
        found = None if value is None else found
    return found


def _number(text: str) -> float | None:
    """The text's value as a number: an integer of reasonable length exactly, any other as a double."""
    if not re.fullmatch(NUMBER, text):
        return None
    return int(text) if len(text) < 40 and text.lstrip("-").isdigit() else float(text)
