"""Compiled loops that note in a reading what depends on its role, whatever the convention."""

from __future__ import annotations

from typing import Any

from ..compiled import compiled
from ..walk.json_loops import OBJECT
from ..walk.name_loops import is_of
from ..walk.single_span import QUOTED_MAX
from ..walk.wire_loops import AT, KIND, SIZE, TEXT
from .columns import (
    AGENT,
    ARGUMENTS,
    BOTH_HALVES,
    CAPTURED,
    CHAT,
    CLAIMS,
    ERROR,
    INPUT_HALF,
    LACKS,
    MISSING,
    OTHER,
    OUTPUT_HALF,
    ROLE,
    TOOL,
)
from .text_loops import REDACTED, may_be_hidden

NO_HALF, ODD_HALF = -1, -2
"""A half of a conversation that is absent, and one that only the dialects can read."""


@compiled
def note_other(readings: Any, n: Any) -> None:
    """Note a span that is neither a model's nor an agent's nor a tool's; its error may be noted."""
    readings[n, ROLE], readings[n, CLAIMS], readings[n, LACKS] = OTHER, 0, 0
    readings[n, CAPTURED] = 0 if readings[n, ERROR + 1] == MISSING else OUTPUT_HALF


@compiled
def note_conversation(readings: Any, n: Any, asked: Any, answered: Any, is_agent: Any) -> None:
    """Note a model's call or an agent's run by its halves: whether each has messages, as a number."""
    missing = (INPUT_HALF if asked == NO_HALF else 0) | (OUTPUT_HALF if answered == NO_HALF else 0)
    readings[n, LACKS] = missing
    if readings[n, ERROR + 1] != MISSING:
        missing &= INPUT_HALF
    has_messages = asked == 1 or answered == 1
    readings[n, CAPTURED] = BOTH_HALVES & ~missing
    readings[n, ROLE] = AGENT if is_agent else CHAT
    readings[n, CLAIMS] = has_messages or (not is_agent and missing != 0)


@compiled
def take_run(b: Any, base: Any, facts: Any, given: Any, answer: Any, readings: Any, n: Any) -> Any:
    """Note a tool's run with its arguments, and whether there is a result; return whether both are usual.

    They are captured where they are there.
    """
    missing = (INPUT_HALF if given == MISSING else 0) | (OUTPUT_HALF if answer == MISSING else 0)
    if given != MISSING:
        kind, at, size = facts[given, KIND], base + facts[given, AT], facts[given, SIZE]
        if (kind != TEXT and kind != OBJECT) or is_of(b, at, size, REDACTED):
            return False
        readings[n, ARGUMENTS], readings[n, ARGUMENTS + 1] = at, size
    if answer != MISSING:
        at, size = base + facts[answer, AT], facts[answer, SIZE]
        if facts[answer, KIND] != TEXT or (size <= QUOTED_MAX and may_be_hidden(b, at, size)):
            return False
    readings[n, LACKS] = missing
    if readings[n, ERROR + 1] != MISSING and given != MISSING:
        missing &= INPUT_HALF
    readings[n, ROLE], readings[n, CAPTURED], readings[n, CLAIMS] = TOOL, BOTH_HALVES & ~missing, 1
    return True
