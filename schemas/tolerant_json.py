"""Reading JSON from other writers: fast where it is well-formed, tolerant where it is nearly so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import orjson

_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME


@dataclass(frozen=True, slots=True)
class NotJson:
    """A value that some writers emit and JSON does not have: `NaN`, `Infinity`, a number beyond doubles."""

    text: str


def read_json(data: bytes) -> object:
    """Return the value of one JSON text in UTF-8.

    Values that strict JSON forbids but common writers emit are accepted so that the rest can be read: lone
    surrogates stay in the strings, `NaN` and infinities become `NotJson`; `encode` rejects both later.
    Integers beyond 64 bits become floats either way. Raises ValueError for anything else, deep nesting
    (about a thousand levels) included; its text quotes nothing of the data.
    """
    try:
        return cast("object", orjson.loads(data))
    except orjson.JSONDecodeError:
        return _tolerantly(data, _integer)


def read_json_exactly(data: bytes) -> object:
    """Return the value as `read_json` does, with all digits of integers up to 128 bits; a tenth as fast."""
    return _tolerantly(data, _long_integer)


def _tolerantly(data: bytes, integer: Callable[[str], object]) -> object:
    try:
        return cast(
            "object",
            json.loads(data.decode(), parse_int=integer, parse_float=_number, parse_constant=NotJson),
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at line {error.lineno} column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode(value: object) -> bytes | None:
    """Return the value as compact JSON with sorted keys, or None where JSON in UTF-8 cannot carry it.

    None means a lone surrogate, a `NotJson`, or nesting beyond 254 levels.
    """
    try:
        return orjson.dumps(value, option=_STRICT | orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return None


def json_text(value: object) -> str:
    """Return the value as compact JSON text, keys in their order; it must be one that `encode` can carry."""
    return orjson.dumps(value, option=_STRICT).decode()


def text_or_json(value: object) -> str | None:
    """Return a text as it is, None for null, and any other value as `json_text` does."""
    return value if value is None or isinstance(value, str) else json_text(value)


def _integer(digits: str) -> int | float | NotJson:
    if len(digits) <= 20:
        value = int(digits)
        if -(2**63) <= value < 2**64:
            return value
    return _number(digits)


def _long_integer(digits: str) -> int | float | NotJson:
    if len(digits) <= 39:
        value = int(digits)
        if -(2**63) <= value < 2**128:
            return value
    return _number(digits)


def _number(digits: str) -> float | NotJson:
    value = float(digits)
    return value if abs(value) != float("inf") else NotJson(digits[:20])
