"""The answers of `any`, `all`, `count` and `sum` for each row, from the elements of its list."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import orjson
import polars as pl

from ...model.predicate import NUMBER, Quantifier
from .elements import ElementAnswers, ElementQuestion, at_steps

COUNT = pl.Struct({"value": pl.String, "unknown": pl.Boolean})
"""The type of a count: its text, null where there is no list, and whether it is unknown."""

_NUMBER = re.compile(NUMBER)
_INTEGER_DIGITS = 40
_EXACT_MAX = 2**127
"""Integers in strings below this are added exactly, larger ones as doubles."""
_DECIMALS = Context(prec=2_000, traps=[InvalidOperation])
"""More digits than a sum of doubles has, so that every sum is exact."""


def quantified(question: ElementQuestion, quantifier: Quantifier) -> pl.Expr:
    """Return whether any element, or every element, meets the condition; false where there is no list.

    Kleene: of unknown answers and ones that do not decide, the answer is unknown.
    """
    decisive = quantifier is Quantifier.ANY

    def fold(elements: ElementAnswers) -> pl.Series:
        decided = elements.count((elements.answers == decisive).fill_null(False)) > 0
        answers = pl.Series((decided == decisive) & elements.is_list)
        if not elements.answers.has_nulls():
            return answers
        unknown = (elements.count(elements.answers.is_null()) > 0) & ~decided
        return answers.set(pl.Series(unknown), None)

    return question.folded(fold, pl.Boolean())


def counted(question: ElementQuestion) -> pl.Expr:
    """Return how many elements meet the condition, as a column of the type `COUNT`."""

    def fold(elements: ElementAnswers) -> pl.Series:
        counts = pl.Series(elements.count(elements.answers.fill_null(False))).cast(pl.String)
        unknown = pl.Series(elements.count(elements.answers.is_null()) > 0)
        value = counts.set(pl.Series(~elements.is_list), None)
        return pl.DataFrame({"value": value, "unknown": unknown}).to_struct("")

    return question.folded(fold, COUNT)


def summed(lists: pl.Expr, steps: Sequence[str | int]) -> pl.Expr:
    """Return the sum of what is at the steps in each element, as text.

    It is null where there is no list, and where an element has no number there.
    """

    def sum_of(elements: list[Any]) -> str | None:
        return _sum([at_steps(element, steps) for element in elements])

    return _for_each_list(lists, sum_of)


def length(lists: pl.Expr) -> pl.Expr:
    """Return the number of elements as text, null where there is no list."""

    def length_of(elements: list[Any]) -> str:
        return str(len(elements))

    return _for_each_list(lists, length_of)


def _for_each_list(lists: pl.Expr, evaluate: Callable[[list[Any]], str | None]) -> pl.Expr:
    """Return the text that `evaluate` makes of each list."""

    def evaluate_rows(texts: pl.Series) -> pl.Series:
        found = [None if text is None else evaluate(orjson.loads(text)) for text in texts]
        return pl.Series(texts.name, found, dtype=pl.String)

    return lists.map_batches(evaluate_rows, return_dtype=pl.String(), is_elementwise=True)


def _sum(values: Sequence[Any]) -> str | None:
    """Return the exact sum of numbers as they are written in decimals; None if a value is no number."""
    total = Decimal(0)
    for value in values:
        number = _decimal(value)
        if number is None:
            return None
        try:
            total = _DECIMALS.add(total, number)
        except InvalidOperation:  # infinity less infinity
            return None
    if total.is_infinite():
        return "1e400" if total > 0 else "-1e400"
    whole = int(total)
    return str(whole) if total == whole else format(total, "f")


def _decimal(value: Any) -> Decimal | None:
    """Return a JSON value, or the number in a string, as a decimal; None if it is no number.

    A double is the shortest decimal that is nearest to it: 0.1 and 0.2 make 0.3.
    """
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return None
        is_short = len(value) <= _INTEGER_DIGITS and value.lstrip("-").isdigit()
        value = int(value) if is_short and abs(int(value)) < _EXACT_MAX else float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(value) if isinstance(value, int) else Decimal(repr(value))
