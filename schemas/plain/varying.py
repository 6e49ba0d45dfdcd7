"""The attributes of plain spans that vary from span to span: numbers, and the id of a response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from struct import Struct

from ..tolerant_json import json_text
from .usual_loops import TEXT_VALUE, WHOLE

_double_at = Struct("<d").unpack_from


def with_varying(
    attributes: Mapping[str, str], names: Sequence[str], rows: Sequence[Sequence[int]], data: bytes
) -> dict[str, str] | None:
    """Return attributes with the values of those that vary, in their places.

    `names` has an empty text for each that rules cannot name. None where one is no text, or no number that
    JSON has.
    """
    found = {**attributes}
    for name, (kind, value, stop) in zip(names, rows, strict=True):
        if kind == WHOLE:
            text = str(value)
        elif kind == TEXT_VALUE:
            try:
                text = data[value:stop].decode()
            except ValueError:
                return None
        else:
            (number,) = _double_at(data, value)
            if not isfinite(number):
                return None
            text = json_text(number)
        if name:
            found[name] = text
    return found
