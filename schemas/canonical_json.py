"""Canonical form of any JSON text: RFC 8785 where it defines one, and a form of our own beyond it."""

from __future__ import annotations

import re
from collections.abc import Callable
from json import decoder
from typing import Any, TypeAlias, cast

import rfc8785

_Node: TypeAlias = "str | list[_Node] | dict[str, _Node]"
"""A value: the canonical text of a scalar, an array, or an object by its keys."""

_SCALAR = re.compile(
    r"(true|false|null|NaN|-?Infinity)|-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII
)
_DECIMAL = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?)0*([0-9]+))?", re.ASCII)
_scan_string: Callable[[str, int, bool], tuple[str, int]] = cast("Any", decoder).scanstring
_ESCAPED = re.compile('[\x00-\x1f"\\\\\ud800-\udfff]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORT_DIGITS = 15
"""An integer of so many digits is below 2**53."""
_EXPONENT_DIGITS_MAX = 18


def canonical_json(text: str) -> str | None:
    """Return the canonical form of a JSON text, or None where the text is not JSON.

    RFC 8785 decides wherever it defines a form. Beyond it:

    - An integer of 2**53 or more keeps its digits, unless RFC 8785 writes a double of exactly that value.
    - A number beyond doubles is a decimal with an exponent and no zeros at its end: `1e+400`. With more
      than 18 digits in the exponent it keeps its spelling.
    - `NaN`, `Infinity` and `-Infinity`, which common writers emit, stay.
    - A lone surrogate is its escape, in lower case.

    The last of equal keys counts. The function does not recurse, so that nesting has no limit.
    """
    if _SURROGATE.search(text):
        # The halves of a pair are one character, as they are when both are escaped.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    try:
        return _written(_JsonReader(text).read())
    except ValueError:
        return None


class _JsonReader:
    """A parser of one JSON text without recursion: the open arrays and objects are in a list."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place: int = 0
        self._open: list[list[_Node] | dict[str, _Node]] = []
        self._keys: list[str] = []

    def read(self) -> _Node:
        """Return the value of the text. Raises ValueError where the text is not JSON."""
        while True:
            value = self._scalar()
            if value is None and not self._opens():
                continue
            done = self._open.pop() if value is None else value
            while self._open:
                self._add(done)
                if self._goes_on():
                    break
                done = self._open.pop()
            else:
                if self._next():
                    raise ValueError("more than one value")
                return done

    def _next(self) -> str:
        """Return the next character that is not space, or nothing at the end."""
        mark = self._text[self._place : self._place + 1]
        while mark and mark in " \t\n\r":
            self._place += 1
            mark = self._text[self._place : self._place + 1]
        return mark

    def _scalar(self) -> str | None:
        """Read the scalar that comes next; return None where an array or object begins."""
        first = self._next()
        if first == '"':
            return _quoted(self._string())
        if first in ("[", "{"):
            return None
        found = _SCALAR.match(self._text, self._place)
        if found is None:
            raise ValueError("no value")
        self._place = found.end()
        word, fraction, exponent = found.groups()
        return word or _number(found[0], is_integer=fraction is None and exponent is None)

    def _opens(self) -> bool:
        """Open the array or object that begins here; return whether it also ends here."""
        is_object = self._next() == "{"
        self._open.append({} if is_object else [])
        self._place += 1
        if self._next() == ("}" if is_object else "]"):
            self._place += 1
            return True
        if is_object:
            self._key()
        return False

    def _goes_on(self) -> bool:
        """Read what follows a member: a comma and what leads to the next, or the end."""
        is_object = isinstance(self._open[-1], dict)
        mark = self._next()
        self._place += 1
        if mark == ",":
            if is_object:
                self._key()
            return True
        if mark != ("}" if is_object else "]"):
            raise ValueError("neither a comma nor an end")
        return False

    def _key(self) -> None:
        if self._next() != '"':
            raise ValueError("no key")
        self._keys.append(self._string())
        if self._next() != ":":
            raise ValueError("no colon")
        self._place += 1

    def _string(self) -> str:
        value, self._place = _scan_string(self._text, self._place + 1, True)
        return value

    def _add(self, value: _Node) -> None:
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self._keys.pop()] = value


def _written(node: _Node) -> str:
    """Return the text of a value, keys in the order of their UTF-16 code units."""
    written: list[str] = []
    left: list[_Node] = [node]
    while left:
        node = left.pop()
        if isinstance(node, str):
            written.append(node)
        elif isinstance(node, list):
            left.append("]")
            for place in range(len(node) - 1, -1, -1):
                left += (node[place], "," if place else "[")
            left += () if node else ("[",)
        else:
            left.append("}")
            keys = sorted(node, key=_code_units)
            for place in range(len(keys) - 1, -1, -1):
                key = keys[place]
                left += (node[key], f"{',' if place else '{'}{_quoted(key)}:")
            left += () if keys else ("{",)
    return "".join(written)


def _code_units(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _number(text: str, *, is_integer: bool) -> str:
    if is_integer and len(text) <= _SHORT_DIGITS:
        return "0" if text == "-0" else text
    double = float(text)
    if abs(double) == float("inf"):
        return _beyond_doubles(text)
    canonical = rfc8785.dumps(double).decode()
    return text if is_integer and _decimal(text) != _decimal(canonical) else canonical


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
