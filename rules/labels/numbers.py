"""Doubles in JSON documents: Polars' reader rounds twice, so what it gives for many digits is mended.

It is exact for integers within 64 bits, and for up to 15 digits times a small power of ten. For others, such
as one double in nine between 0 and 1, it can give a neighbour of the nearest double.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import orjson
import polars as pl

_INEXACT = r"[0-9.]{17}|[0-9][eE][-+]?[0-9]"
"""What a document holds if Polars may misread a number in it: sixteen digits and a point, or an exponent."""

_WITH_DOUBLES = r"^(?:-?[0-9]+(?:\.[0-9]|e)|\{|\[)"
"""What Polars gives for a double, an object or an array; for some strings, too."""


def nearest(document: pl.Expr, found: pl.Expr, steps: Sequence[str | int]) -> pl.Expr:
    """`found`, which Polars found at a path of the JSON document, with each number the nearest double."""
    mend = _mender(tuple(steps))
    return pl.struct(document.alias("document"), found.alias("found")).map_batches(
        mend, return_dtype=pl.String, is_elementwise=True
    )


def double_text(value: float) -> str:
    """The shortest text of a double, as Polars writes it: plain from 1e-5 up to 1e16."""
    text = repr(value)
    digits, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = int(exponent)
    if power != -5:
        return f"{digits}e{power:+d}" if power > 0 else f"{digits}e{power}"
    minus = "-" if value < 0 else ""
    return f"{minus}0.0000{digits.lstrip('-').replace('.', '')}"


def _mender(steps: tuple[str | int, ...]) -> Callable[[pl.Series], pl.Series]:
    def mend(rows: pl.Series) -> pl.Series:
        document, found = (rows.struct.field(name) for name in ("document", "found"))
        suspect = found.str.contains(_WITH_DOUBLES)
        if not suspect.any():
            return found
        places = (suspect & document.str.contains(_INEXACT)).arg_true()
        if places.is_empty():
            return found
        told = zip(document.gather(places), found.gather(places), strict=True)
        return found.scatter(places, [_read(*pair, steps) for pair in told])

    return mend


def _read(document: str, found: str, steps: tuple[str | int, ...]) -> str:
    """Return the text of a number, an object or an array at a path; what was found where there is none."""
    here = orjson.loads(document)
    for step in steps:
        here = here[step]
    return _written(here) if isinstance(here, float | dict | list) else found


def _written(value: Any) -> str:
    """Compact JSON, as Polars writes it."""
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return "{" + ",".join(f"{_written(key)}:{_written(inner)}" for key, inner in members) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, cast('list[Any]', value)))}]"
    return orjson.dumps(value).decode()
