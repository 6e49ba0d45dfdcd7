"""Pairs of symbols that cannot follow one another, from a file: `[["user:", "end"], ...]`."""

from __future__ import annotations

from typing import Any, cast

import orjson

from ..error import PredictError


def read_pairs(text: bytes, where: str) -> frozenset[tuple[str, str]]:
    """Return the pairs of a JSON array. Raises PredictError (TRL807) for anything else."""
    hint = 'write `[["user:asks", "end"], ...]`: pairs of a symbol and one that cannot follow it'
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PredictError("TRL807", f"{where}:{error.lineno}", f"no JSON: {error.msg}", hint) from None
    if not isinstance(found, list):
        raise PredictError("TRL807", where, "not an array of pairs of symbols", hint)
    pairs: set[tuple[str, str]] = set()
    for number, pair in enumerate(cast("list[Any]", found), start=1):
        match pair:
            case [str(first), str(second)]:
                pairs.add((first, second))
            case _:
                raise PredictError("TRL807", where, f"entry {number} is no pair of symbols", hint)
    return frozenset(pairs)
