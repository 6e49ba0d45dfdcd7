"""Compiled loops over the texts of plain spans: names, redactions, and what of them is noted in a reading."""

from __future__ import annotations

from typing import Any

from ..compiled import compiled
from ..dialects.parts.values import REDACTIONS
from ..walk.name_loops import begins_with, joined
from ..walk.wire_loops import AT, KIND, NOTHING, SIZE, TEXT
from .columns import MISSING, MODEL

NAME_MAX = 200
"""Bytes of a name or an id, at most: most are short, and so each span needs little room."""
REDACTED = joined(REDACTIONS)


@compiled
def may_be_hidden(b: Any, at: Any, size: Any) -> Any:
    """Return whether a tool's short result may be a redaction, also in quotes and with escapes."""
    is_quoted = size > 0 and b[at] == 34
    for place in range(at, at + size):
        if is_quoted and b[place] == 92:
            return True
        if begins_with(b, place, at + size - place, REDACTED):
            return True
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
