"""Literals of conditions: strings, numbers, Booleans and regular expressions, of types that fields have."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

from lark import Token

from ..model.fields import FIELDS, EventField, FieldType
from ..model.predicate import Scalar, Test
from ..model.problem import did_you_mean
from ..model.regex_limits import regex_problems
from .syntax import SyntaxNode

if TYPE_CHECKING:
    from .predicate_builder import PredicateBuilder

ORDER = frozenset({Test.LT, Test.LE, Test.GT, Test.GE})
SEARCH = frozenset({Test.MATCHES, Test.CONTAINS, Test.STARTS_WITH})
_INTEGER_MAX = 2**63 - 1
DIGITS_MAX = 25
"""Digits of a number that are read: numbers with more are beyond every limit."""
LARGEST_INTEGER = "the largest integer is 9223372036854775807; write a larger number as a double, `1e19`"
LARGEST_NUMBER = "the largest number is 1.7976931348623157e308"


def build_value(
    builder: PredicateBuilder, test: Test, known: EventField | None, child: SyntaxNode | Token, fits: bool
) -> Scalar:
    """Return the value of one literal, of a type that the test and the field can compare."""
    if not isinstance(child, Token):
        word = builder.word(child)
        instead = {"none": "is null", "nil": "is null", "true": "true", "false": "false"}.get(word.lower())
        hint = f"write `{instead}`" if instead else f'write a string in double quotes, `"{word}"`'
        message = f"`{word}` is not a literal"
        if word.split(".")[0].split("[")[0] in FIELDS:
            message, hint = (
                f"`{word}` is a field, not a literal",
                "compare with a string, number, true or false",
            )
        builder.report("TRL133", message, hint, child)
        return ""
    if child.type == "REGEX":
        pattern = re.sub(r"\\(.)", lambda m: "/" if m[1] == "/" else m[0], child[1:-1])
        for problem in regex_problems(pattern):
            builder.report(problem.code, problem.message, problem.hint, child)
        return pattern
    if child.type == "NULL":
        builder.report("TRL133", "null cannot be compared", "write `is null` or `is not null`", child)
        return ""
    value = _literal(builder, child)
    if fits:
        _check_type(builder, test, known, child, value)
    return value


def _literal(builder: PredicateBuilder, token: Token) -> Scalar:
    if token.type == "STRING":
        return build_string(builder, token)
    if token.type in ("TRUE", "FALSE"):
        return token.type == "TRUE"
    whole = token.lstrip("-").isdigit()
    value = int(token[:DIGITS_MAX]) if whole else float(token)
    if abs(value) > _INTEGER_MAX if whole else not math.isfinite(value):
        hint = LARGEST_INTEGER if whole else LARGEST_NUMBER
        builder.report("TRL152", "the number is too large", hint, token)
        return 0
    return value


def build_string(builder: PredicateBuilder, token: Token) -> str:
    """Return the text of a string literal."""
    try:
        text = str(json.loads(token, strict=False))
        text.encode("utf-8")
    except ValueError:
        hint = 'write `\\\\` for a backslash; other escapes are `\\"` `\\n` `\\t` `\\u00e9`'
        builder.report("TRL115", "invalid escape in the string", hint, token)
        return ""
    return text


def _check_type(
    builder: PredicateBuilder, test: Test, known: EventField | None, token: Token, value: Scalar
) -> None:
    """Check that the test and the field accept the literal's type."""
    field_type = known.type if known else FieldType.JSON
    if test is Test.MATCHES:
        plain = re.sub(r"([/\\])", r"\\\1", value) if isinstance(value, str) else str(token)
        builder.report("TRL133", "`matches` requires a regular expression", f"write `/{plain}/`", token)
    elif test in SEARCH and not isinstance(value, str):
        builder.report("TRL133", f"`{test.value}` requires a string", f'write `"{token}"`', token)
    elif field_type is FieldType.FLAG and not isinstance(value, bool):
        name = known.name if known else ""
        builder.report("TRL133", f"field `{name}` is a Boolean", "write it alone, or `not` before it", token)
    elif field_type is FieldType.CHOICE and known and value not in known.choices:
        hint = did_you_mean(str(value), known.choices)
        builder.report("TRL132", f"field `{known.name}` never has the value {token}", hint, token)
    elif field_type is FieldType.TEXT and known and not isinstance(value, str):
        builder.report("TRL133", f"field `{known.name}` is text", f'write `"{token}"`', token)
    elif test in ORDER and isinstance(value, bool):
        builder.report("TRL133", "Booleans have no order", "compare them with `==`", token)
