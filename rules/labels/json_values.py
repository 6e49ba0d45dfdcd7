"""The value of a field or a JSON path of an event as Polars expressions, and comparisons, also in Python.

A *value* is text: a string itself, the JSON text of any other scalar, null where there is none. An object or
array is not a value; its JSON text only shows that something is there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from ...schemas.event import Content, Kind
from ..model.fields import FIELDS
from ..model.predicate import ELEMENT, NUMBER, Scalar, Test, compared_text, is_number
from .guards import CONTENT_FIELDS
from .numbers import nearest

JSON_FIELDS = frozenset({"args", "result", ELEMENT})

NUMBER_TEXT = f"^{NUMBER}$"
"""Text that is a number."""

EXACT_MAX = 2**53
"""Up to here every integer is a double, so that a comparison of doubles is exact."""

WIDE_MAX = 2**127
"""Integers below this are compared exactly, larger ones as doubles."""

SEARCHES = frozenset({Test.MATCHES, Test.CONTAINS, Test.STARTS_WITH})

_INT128 = range(-(2**127), 2**127)
_INT128_CHARS_MAX = 40
_NUMBER = re.compile(NUMBER)
_INTEGER = re.compile("-?[0-9]+")


def json_path(steps: Sequence[str | int]) -> str:
    """Return the steps, which have no `path_problems`, as the JSONPath that Polars reads."""
    keys = (
        f"[{step}]" if isinstance(step, int) else "['" + step.replace("'", r"\'") + "']" for step in steps
    )
    return "$" + "".join(keys)


def open_field(field: str) -> pl.Expr:
    """Return where an event's kind has the field, and its content is unknown or incomplete.

    A tool's name is not content: where it is there, it is complete.
    """
    kind, content, value = pl.col("kind"), pl.col("content"), pl.col(field)
    unknown = value.is_null() & (
        (kind == Kind.UNKNOWN.value) | content.ne_missing(pl.lit(Content.CAPTURED.value))
    )
    if field in CONTENT_FIELDS:
        cut = value.is_not_null() & content.is_in([Content.TRUNCATED.value, Content.REDACTED.value])
        unknown = unknown | cut.fill_null(False)
    return kind.is_in(FIELDS[field].kinds) & unknown


def whole(field: str, text: pl.Expr) -> pl.Expr:
    """Return the value of a whole field; an `args` or `result` that is a JSON string is decoded."""
    if field not in JSON_FIELDS:
        return text
    string = pl.when(text.str.starts_with('"')).then(text).str.json_path_match("$")
    return pl.when(text != "null").then(pl.coalesce(string, text))


def at_path(text: pl.Expr, steps: Sequence[str | int]) -> pl.Expr:
    """Return the text of the scalar or container at a path of a JSON text; null where there is none, or null.

    It is null as well where the text is not JSON (of RFC 8259, with strings that Unicode allows and numbers
    that a double can hold, nested at most 127 levels). Of equal keys the last counts. Integers within 64 bits
    retain their digits; other numbers have the shortest text of the nearest double.
    """
    return nearest(text, _mentioning(text, steps).str.json_path_match(json_path(steps)), steps)


def _mentioning(text: pl.Expr, steps: Sequence[str | int]) -> pl.Expr:
    """Return the text where it may contain the path, else null, which Polars does not parse.

    JSON contains a key literally, unless it has escapes; a search is thirty times as fast as parsing.
    """
    keys = sorted((step for step in steps if isinstance(step, str)), key=len)
    if not keys:
        return pl.when(text != "").then(text)
    mentioned = text.str.contains(keys[-1], literal=True) | text.str.contains("\\", literal=True)
    return pl.when((text != "") & mentioned).then(text)


def string_at_path(text: pl.Expr, steps: Sequence[str | int]) -> pl.Expr:
    """Return `at_path` where a string is at the path; elsewhere null, or a shorter text from inside."""
    return text.str.json_path_match(json_path(steps) + "[?(@ >= '')]")


def is_container(text: pl.Expr, found: pl.Expr, steps: Sequence[str | int]) -> pl.Expr:
    """Return whether `found`, the text at a path of the JSON text, is an object or array and not a string.

    JSONPath returns text for both, so the string `"[1]"` looks like the array `[1]`.
    """
    looks = found.str.starts_with("{") | found.str.starts_with("[")
    string = string_at_path(pl.when(looks).then(text), steps)
    return (looks & string.ne_missing(found)).fill_null(False)


def is_container_text(text: pl.Expr) -> pl.Expr:
    """Return whether the text of a whole `args` or `result` is a JSON object or array."""
    looks = text.str.contains(r"^\s*[\[{]")
    return (looks & pl.when(looks).then(text).str.json_path_match("$").is_not_null()).fill_null(False)


def answer(test: Test, operands: Sequence[Scalar], value: pl.Expr) -> pl.Expr:
    """Return the answer of a test on a value: never null, and false on null except for `is null`."""
    match test:
        case Test.IS_NULL:
            return value.is_null()
        case Test.IS_TRUE:
            found = value
        case Test.MATCHES:
            found = value.str.contains(str(operands[0]))
        case Test.CONTAINS:
            found = value.str.contains(str(operands[0]), literal=True)
        case Test.STARTS_WITH:
            found = value.str.starts_with(str(operands[0]))
        case Test.IN:
            texts = [compared_text(operand) for operand in operands if not is_number(operand)]
            parts = [value.is_in(texts)] if texts else []
            parts += [compare(Test.EQ, value, operand) for operand in operands if is_number(operand)]
            found = pl.any_horizontal(parts)
        case _:
            found = compare(test, value, operands[0])
    return found.fill_null(False)


def compare(test: Test, value: pl.Expr, operand: Scalar) -> pl.Expr:
    """Return `value test operand`, compared as numbers if the operand is one, else as texts.

    The answer is null or false where there is no value. A value that is not a number differs from every
    number, and is neither above nor below it.
    """
    if test is Test.NE:
        return value.is_not_null() & ~compare(Test.EQ, value, operand).fill_null(False)
    if isinstance(operand, bool | str):
        return _compared(test, value, pl.lit(compared_text(operand)))
    number = pl.when(value.str.contains(NUMBER_TEXT)).then(value)
    rounded = _against_double(test, number.cast(pl.Float64, strict=False), operand)
    if not EXACT_MAX <= abs(operand) < WIDE_MAX:
        return rounded
    # Several integers of this size share a double, so they are compared as integers; the operand is whole.
    integer = number.cast(pl.Int128, strict=False)
    exact = _compared(test, integer, pl.lit(int(operand), dtype=pl.Int128))
    return pl.when(integer.is_not_null()).then(exact).otherwise(rounded)


def compare_values(test: Test, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Return `left test right`: as numbers where both are, as texts where neither is; never null.

    The answer is false where there is no value on either side. A number and a text are different, and neither
    is above the other. Numbers are compared exactly where both are integers, else as doubles.
    """
    if test is Test.NE:
        both = left.is_not_null() & right.is_not_null()
        return both & ~compare_values(Test.EQ, left, right)
    numeric = [value.str.contains(NUMBER_TEXT) for value in (left, right)]
    numbers = [pl.when(value.str.contains(NUMBER_TEXT)).then(value) for value in (left, right)]
    integers = [number.cast(pl.Int128, strict=False) for number in numbers]
    doubles = [number.cast(pl.Float64, strict=False) for number in numbers]
    exact = integers[0].is_not_null() & integers[1].is_not_null()
    by_value = pl.when(exact).then(_compared(test, *integers)).otherwise(_compared(test, *doubles))
    by_text = (numeric[0] == numeric[1]) & _compared(test, left, right)
    return pl.when(numeric[0] & numeric[1]).then(by_value).otherwise(by_text).fill_null(False)


def _against_double(test: Test, double: pl.Expr, operand: int | float) -> pl.Expr:
    """Return the exact comparison of doubles with a number that may not be a double."""
    near = float(operand)
    if near == operand:
        return _compared(test, double, pl.lit(near))
    if test is Test.EQ:
        return pl.lit(False)
    above = near if near > operand else math.nextafter(near, math.inf)
    return double < above if test in (Test.LT, Test.LE) else double >= above


def _compared(test: Test, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    match test:
        case Test.EQ:
            return left == right
        case Test.LT:
            return left < right
        case Test.LE:
            return left <= right
        case Test.GT:
            return left > right
        case _:
            assert test is Test.GE, f"{test} is no comparison"
            return left >= right


_ORDER: dict[Test, Callable[[Any, Any], bool]] = {
    Test.EQ: lambda left, right: left == right,
    Test.LT: lambda left, right: left < right,
    Test.LE: lambda left, right: left <= right,
    Test.GT: lambda left, right: left > right,
    Test.GE: lambda left, right: left >= right,
}


def compared(test: Test, operand: Scalar) -> Callable[[str], bool]:
    """Return the comparison of a value: with a number if the operand is one, else of texts."""
    ordered = _ORDER[test]
    if isinstance(operand, bool | str):
        text = compared_text(operand)
        return lambda value: ordered(value, text)
    rounded = _double_comparison(test, operand)
    if not EXACT_MAX <= abs(operand) < WIDE_MAX:
        return lambda value: _NUMBER.fullmatch(value) is not None and rounded(float(value))

    def exact(value: str) -> bool:
        if _NUMBER.fullmatch(value) is None:
            return False
        if len(value) <= _INT128_CHARS_MAX and _INTEGER.fullmatch(value) and int(value) in _INT128:
            return ordered(int(value), int(operand))
        return rounded(float(value))

    return exact


def _double_comparison(test: Test, operand: int | float) -> Callable[[float], bool]:
    """Return the exact comparison of doubles with a number that may not be a double."""
    near, ordered = float(operand), _ORDER[test]
    if near == operand:
        return lambda double: ordered(double, near)
    if test is Test.EQ:
        return lambda _double: False
    above = near if near > operand else math.nextafter(near, math.inf)
    return lambda double: double < above if test in (Test.LT, Test.LE) else double >= above
