"""Compiled loops over the texts of plain spans: names, redactions, and what of them is noted in a reading."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..compiled import compiled
from ..dialects.parts.values import REDACTIONS
from ..walk.wire_loops import AT, KIND, NOTHING, SIZE, TEXT
from .columns import MISSING, MODEL

NAME_MAX = 200
"""Bytes of a name or an id, at most: most are short, and so each span needs little room."""


def joined(names: Iterable[str]) -> bytes:
    """Return texts in one, each with a zero behind it."""
    return b"".join(name.encode() + b"\0" for name in sorted(names))


REDACTED = joined(REDACTIONS)


@compiled
def is_same_text(b: Any, at: Any, names: Any, begin: Any, size: Any) -> Any:
    """Return whether so many bytes are those of a name."""
    is_same, place, name = True, np.uint64(at), np.uint64(begin)
    for k in range(np.uint64(size)):
        is_same &= b[place + k] == names[name + k]
    return is_same


@compiled
def is_of(b: Any, at: Any, size: Any, names: Any) -> Any:
    """Return whether a text is one of these, which have a zero behind them."""
    begin = 0
    for stop in range(len(names)):
        if names[stop] == 0:
            if stop - begin == size and is_same_text(b, at, names, begin, size):
                return True
            begin = stop + 1
    return False


@compiled
def may_be_hidden(b: Any, at: Any, size: Any) -> Any:
    """Return whether a tool's short result may be a redaction, also in quotes and with escapes."""
    is_quoted = size > 0 and b[at] == 34
    for place in range(at, at + size):
        if is_quoted and b[place] == 92:
            return True
        begin = 0
        for stop in range(len(REDACTED)):
            if REDACTED[stop] == 0:
                length = stop - begin
                if place + length <= at + size and is_same_text(b, place, REDACTED, begin, length):
                    return True
                begin = stop + 1
    return False


@compiled
def take_name(base: Any, facts: Any, i: Any, readings: Any, n: Any, column: Any) -> Any:
    """Note a name or an id, if there is one; return whether it is usual."""
    if i == MISSING or facts[i, KIND] == NOTHING:
        return True
    size = facts[i, SIZE]
    if facts[i, KIND] == TEXT and 0 < size <= NAME_MAX:
        readings[n, column], readings[n, column + 1] = base + facts[i, AT], size
        return True
    return facts[i, KIND] == TEXT and size == 0


@compiled
def take_model(base: Any, facts: Any, i: Any, readings: Any, n: Any) -> Any:
    """Note a model's name unless there is one; return whether it is usual."""
    if i == MISSING:
        return True
    size = facts[i, SIZE]
    if facts[i, KIND] != TEXT or size > NAME_MAX:
        return False
    if size > 0 and readings[n, MODEL + 1] == MISSING:
        readings[n, MODEL], readings[n, MODEL + 1] = base + facts[i, AT], size
    return True
