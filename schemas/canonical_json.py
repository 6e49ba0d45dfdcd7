"""Canonical form of any JSON text: RFC 8785 where it defines one, and a form of our own beyond it."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import rfc8785

LEVELS_MAX = 127
"""Levels of arrays and objects of a text that has a canonical form; Polars reads JSON to the same depth."""

_DECIMAL = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?)0*([0-9]+))?", re.ASCII)
_ESCAPED = re.compile('[\x00-\x1f"\\\\\ud800-\udfff]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)
_SHORT_DIGITS = 15
"""An integer of so many digits is below 2**53."""
_EXPONENT_DIGITS_MAX = 18


class _Literal(str):
    """The canonical text of a number, or of a word that stands for one."""

    __slots__ = ()


def canonical_json(text: str) -> str | None:
    """Return the canonical form of a JSON text that is not deep (`is_deep`), or None where it is not JSON.

    RFC 8785 decides wherever it defines a form. Beyond it:

    - An integer of 2**53 or more keeps its digits, unless RFC 8785 writes a double of exactly that value.
    - A number beyond doubles is a decimal with an exponent and no zeros at its end: `1e+400`. With more
      than 18 digits in the exponent it keeps its spelling.
    - `NaN`, `Infinity` and `-Infinity`, which common writers emit, stay.
    - A lone surrogate is its escape, in lower case.

    The last of equal keys counts.
    """
    if _SURROGATE.search(text):
        # The halves of a pair are one character, as they are when both are escaped.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    try:
        return _written(json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_Literal))
    except ValueError:
        return None


def is_deep(text: str) -> bool:
    """Return whether a JSON text nests more than `LEVELS_MAX` levels.

    A limit on the text, not Python's limit on recursion, which depends on the caller: an event has one id.
    """
    if text.count("[") + text.count("{") <= LEVELS_MAX:
        return False
    level = most = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        level += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        most = max(most, level)
    return most > LEVELS_MAX


def _written(value: Any) -> str:
    """Return the text of a value, keys in the order of their UTF-16 code units."""
    match value:
        case _Literal():
            return str(value)
        case str():
            return _quoted(value)
        case list():
            return f"[{','.join(map(_written, cast('list[Any]', value)))}]"
        case dict():
            members = sorted(cast("dict[str, Any]", value).items(), key=_code_units)
            return f"{{{','.join(f'{_quoted(key)}:{_written(inner)}' for key, inner in members)}}}"
        case _:
            return json.dumps(value)


def _code_units(member: tuple[str, Any]) -> bytes:
    return member[0].encode("utf-16-be", "surrogatepass")


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _integer(text: str) -> _Literal:
    if len(text) <= _SHORT_DIGITS:
        return _Literal("0" if text == "-0" else text)
    canonical = _number(text)
    return canonical if _decimal(text) == _decimal(canonical) else _Literal(text)


def _number(text: str) -> _Literal:
    double = float(text)
    if abs(double) == float("inf"):
        return _Literal(_beyond_doubles(text))
    return _Literal(rfc8785.dumps(double).decode())


def _beyond_doubles(text: str) -> str:
    """Return a number as a decimal with an exponent, as RFC 8785 would write it if doubles had no end."""
    parts = _decimal(text)
    if parts is None:
        return text.lower()
    sign, digits, exponent = parts
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{exponent:+d}"


def _decimal(text: str) -> tuple[str, str, int] | None:
    """Return sign, digits without zeros at either end, and the exponent of the first digit.

    None where the exponent has more digits than are computed with.
    """
    found = _DECIMAL.fullmatch(text)
    assert found is not None
    sign, whole, fraction, exponent_sign, exponent = found.groups()
    if exponent is not None and len(exponent) > _EXPONENT_DIGITS_MAX:
        return None
    digits = f"{whole}{fraction or ''}"
    significant = digits.lstrip("0")
    place = len(whole) - 1 - (len(digits) - len(significant))
    return sign, significant.rstrip("0"), place + int(f"{exponent_sign or ''}{exponent or 0}")
