"""Doubles in JSON documents: Polars' reader rounds twice, and this module corrects its results.

The reader is exact for integers within 64 bits, and for up to 15 digits times a small power of ten. For other
numbers, such as one double in nine between 0 and 1, it may return a neighbour of the nearest double.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import orjson
import polars as pl

_INEXACT = r"[0-9.]{17}|[0-9][eE][-+]?[0-9]"
"""A match in each document with a number that Polars may round wrongly: 17 characters, or an exponent."""

_WITH_DOUBLES = r"^(?:-?[0-9]+(?:\.[0-9]|e)|\{|\[)"
"""A match in each text that Polars returns for a double, an object or an array, and in some strings."""


_MINUS_ZERO = re.compile(r"-0(?![.0-9eE])")
_INTEGERS = range(-(2**63), 2**64)
"""The integers that retain their digits."""


def nearest(document: pl.Expr, found: pl.Expr, steps: Sequence[str | int]) -> pl.Expr:
    """Return `found`, the text that Polars found at a path of the document, with the nearest doubles."""
    correct = _correction(tuple(steps))
    return pl.struct(document.alias("document"), found.alias("found")).map_batches(
        correct, return_dtype=pl.String, is_elementwise=True
    )


def loaded(document: str) -> Any:
    """Return the value of a JSON text with the nearest doubles. Raises orjson.JSONDecodeError.

    `-0` and integers beyond 64 bits are doubles.
    """
    value = orjson.loads(document)
    if "-0" in document and _MINUS_ZERO.search(document):
        return json.loads(document, parse_int=_integer)
    return value


def _integer(digits: str) -> int | float:
    value = int(digits)
    return value if value in _INTEGERS and digits != "-0" else float(digits)


def double_text(value: float) -> str:
    """Return the shortest text of a double in Polars' notation, without an exponent from 1e-5 to 1e16."""
    text = repr(value)
    digits, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = int(exponent)
    if power != -5:
        return f"{digits}e{power:+d}" if power > 0 else f"{digits}e{power}"
    minus = "-" if value < 0 else ""
    return f"{minus}0.0000{digits.lstrip('-').replace('.', '')}"


def _correction(steps: tuple[str | int, ...]) -> Callable[[pl.Series], pl.Series]:
    def correct(rows: pl.Series) -> pl.Series:
        document, found = (rows.struct.field(name) for name in ("document", "found"))
        suspect = found.str.contains(_WITH_DOUBLES)
        if not suspect.any():
            return found
        places = (suspect & document.str.contains(_INEXACT)).arg_true()
        if places.is_empty():
            return found
        pairs = zip(document.gather(places), found.gather(places), strict=True)
        return found.scatter(places, [_read(*pair, steps) for pair in pairs])

    return correct


def _read(document: str, found: str, steps: tuple[str | int, ...]) -> str:
    """Return the text of the number, object or array at a path, or else `found`."""
    value = loaded(document)
    for step in steps:
        value = value[step]
    return written(value) if isinstance(value, (float, dict, list)) else found


def written(value: Any) -> str:
    """Return compact JSON in Polars' notation."""
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return "{" + ",".join(f"{written(key)}:{written(inner)}" for key, inner in members) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(written, cast('list[Any]', value)))}]"
    return orjson.dumps(value).decode()
