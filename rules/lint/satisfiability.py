"""Satisfiability of predicates: a search over the classes of events that a predicate distinguishes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType

from ..compiler.limits import Work
from ..model.fields import FIELDS, FieldType, field_of
from ..model.predicate import (
    NUMBER,
    And,
    Condition,
    Contained,
    Fold,
    Leaf,
    ListCondition,
    Literal,
    Not,
    Or,
    Path,
    Predicate,
    Quantified,
    Quantifier,
    Scalar,
    Test,
    compared_text,
    is_number,
    leaves,
)
from ..model.problem import Problem, listed
from ..model.rule import Rule
from ..packs.yaml.document import Document

STEPS_MAX = 200_000
"""Evaluated leaves after which a predicate counts as satisfiable."""

GUESSES_MAX = 10
"""Leaves of unknown value that are tried both ways; with more, a predicate counts as satisfiable."""

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
    """A class of values: this `text`, or any text with this value as a `number`.

    With neither, it is all text that is not a number and equals no literal of the predicate; without `scalar`
    all objects and arrays; without `present` the missing value.
    """

    text: str | None = None
    number: Fraction | float | None = None
    scalar: bool = True
    present: bool = True


MISSING = ValueClass(present=False, scalar=False)
CONTAINER = ValueClass(scalar=False)
OTHER_TEXT = ValueClass()

Values = Mapping[Path, ValueClass]
"""An event: the class of value of each path that the predicate uses."""
NOTHING: Mapping[Condition, bool] = MappingProxyType({})


def unsatisfiable_propositions(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield a warning for each proposition of a rule that no event makes true."""
    users: dict[str, list[str]] = {}
    for rule in rules:
        for name, predicate in rule.propositions.items():
            if not is_satisfiable(predicate):
                users.setdefault(name, []).append(rule.id)
    for name, ids in users.items():
        location = document.location(document.at(("propositions", name, "is")))
        hint = f"its conditions exclude each other; used by {listed(ids)}"
        yield Problem("TRL503", f"proposition `{name}` can never be true", hint, location)


def is_satisfiable(predicate: Predicate) -> bool:
    """Return False only if no event makes the predicate true.

    The search treats fields as independent, except that only some kinds of events have them, and it assumes
    that any regular expression can match.
    """
    return satisfiable_with_steps(predicate)[0]


def satisfiable_with_steps(predicate: Predicate) -> tuple[bool, int]:
    """Return whether the predicate is satisfiable, and the steps of the search."""
    return _searched(predicate, repr(predicate))


@lru_cache(maxsize=16_384)
def _searched(predicate: Predicate, _written: str) -> tuple[bool, int]:
    """Search once for predicates that are written alike: `== 1` and `== true` are equal in Python."""
    tested = list(dict.fromkeys(leaves(predicate)))
    classes = {
        path: value_classes(path, tested)
        for path in dict.fromkeys(leaf.path for leaf in tested)
        if path != KIND
    }
    cost = sum(1 + (len(leaf.operands) if isinstance(leaf, Leaf) else 0) for leaf in leaves(predicate))
    steps = cost * (1 + len(tested))
    for kind in FIELDS["kind"].choices:
        values = {KIND: ValueClass(kind)}
        steps += cost
        if evaluate_predicate(predicate, values) is False:
            continue
        fitting = [[c for c in all_classes if _fits(kind, path, c)] for path, all_classes in classes.items()]
        for event in product(*fitting):
            values.update(zip(classes, event, strict=True))
            holds, guesses = _holds(predicate, tested, values)
            steps += cost * (1 + guesses)
            if holds or steps > STEPS_MAX:
                return True, steps
    return False, steps


def jointly_satisfiable(rule: Rule, first: str, second: str, work: Work) -> bool:
    """Return whether some event makes both propositions true; they may be the same."""
    # Sorted, so that the cache has one entry for both orders.
    both = [rule.propositions[name] for name in sorted({first, second})]
    answer, steps = satisfiable_with_steps(both[0] if len(both) == 1 else And(tuple(both)))
    work.spend(steps)
    return answer


def _fits(kind: str, path: Path, value_class: ValueClass) -> bool:
    """Return whether an event of that kind can have a value of that class."""
    return value_class is MISSING or kind in field_of(path).kinds


def value_classes(path: Path, tested: list[Condition]) -> list[ValueClass]:
    """Return the classes of the path's values that the leaves distinguish."""
    field = field_of(path)
    if field.type is FieldType.FLAG:
        return [ValueClass("true"), ValueClass("false")]
    if field.type is FieldType.CHOICE:
        return [ValueClass(choice) for choice in field.choices]
    operands = [
        operand
        for leaf in tested
        if isinstance(leaf, Leaf) and leaf.path == path and leaf.test is not Test.MATCHES
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
        OTHER_TEXT,
        *(ValueClass(number=number) for number in dict.fromkeys([*numbers, *between, *ends])),
        *whole,
        *inside,
    ]


def evaluate_leaf(leaf: Condition, value: ValueClass) -> bool | None:
    """Return the leaf's value on a class of values of its path, or None if it differs within the class."""
    if not isinstance(leaf, Leaf):
        return None if _can_hold(leaf, value) else False
    test, operands = leaf.test, leaf.operands
    if leaf.path == KIND and value.text == "unknown" and not {"user", "assistant"}.isdisjoint(operands):
        return None
    if test is Test.IS_NULL:
        return not value.present
    if not value.scalar:
        return False
    if leaf.against is not None:
        return None
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


def _can_hold(condition: ListCondition, value: ValueClass) -> bool:
    """Return False only if a condition on a list is false on a class of values of its path."""
    if isinstance(condition, Contained):
        return value.scalar
    if value.scalar or not value.present:
        return False
    if isinstance(condition, Quantified):
        return condition.quantifier is Quantifier.ALL or is_satisfiable(condition.where)
    tally, test = condition.tally, condition.test
    numbers = [Fraction(number) for number in condition.operands if not isinstance(number, str)]
    if tally.fold is Fold.SUM or condition.against is not None:
        return True
    if tally.where is not None and not is_satisfiable(tally.where):
        counts = [0]
    else:
        near = [math.floor(number) + more for number in numbers for more in (-1, 0, 1)]
        counts = [0, *(count for count in near if count > 0)]
    equal_or_ordered = Test.EQ if test is Test.IN else test
    return any(ORDER[equal_or_ordered](count, number) for count in counts for number in numbers)


def _compared(test: Test, value: ValueClass, operand: Scalar) -> bool | None:
    """Compare a value with an operand: with a number by value, else by text."""
    if is_number(operand):
        if value.number is None:
            return test is Test.NE
        return ORDER[test](value.number, operand)
    if value.text is None:
        return {Test.EQ: False, Test.NE: True}.get(test)
    return ORDER[test](value.text, compared_text(operand))


def _holds(predicate: Predicate, tested: list[Condition], values: Values) -> tuple[bool, int]:
    """Return whether the predicate is true for these values and some guess of unknown leaves.

    Return the number of guesses beside it.
    """
    sure = evaluate_predicate(predicate, values)
    if sure is not None:
        return sure, 0
    # The kind of an unknown event stays unknown: it is not guessed.
    unsure = [leaf for leaf in tested if leaf.path != KIND and evaluate_leaf(leaf, values[leaf.path]) is None]
    if len(unsure) > GUESSES_MAX:
        return True, 0
    guesses = 0
    for guess in product((True, False), repeat=len(unsure)):
        guesses += 1
        if evaluate_predicate(predicate, values, dict(zip(unsure, guess, strict=True))):
            return True, guesses
    return False, guesses


def evaluate_predicate(
    predicate: Predicate, values: Values, guessed: Mapping[Condition, bool] = NOTHING
) -> bool | None:
    """Return the predicate's Kleene value on an event; a path without a value is unknown."""
    match predicate:
        case Literal(value):
            return value
        case Not(arg):
            value = evaluate_predicate(arg, values, guessed)
            return None if value is None else not value
        case And(args):
            return _joined(args, values, guessed, wanted=True)
        case Or(args):
            return _joined(args, values, guessed, wanted=False)
        case _:
            if guessed and predicate in guessed:
                return guessed[predicate]
            value = values.get(predicate.path)
            return None if value is None else evaluate_leaf(predicate, value)


def _joined(
    args: tuple[Predicate, ...], values: Values, guessed: Mapping[Condition, bool], *, wanted: bool
) -> bool | None:
    """Return `wanted` if all arguments have that value, its negation if one has, else None."""
    found: bool | None = wanted
    for arg in args:
        value = evaluate_predicate(arg, values, guessed)
        if value is (not wanted):
            return value
        found = None if value is None else found
    return found


def _number(text: str) -> float | None:
    """Return the text's value as a number: short integers exactly, any other as a double."""
    if not re.fullmatch(NUMBER, text):
        return None
    return int(text) if len(text) < 40 and text.lstrip("-").isdigit() else float(text)
