"""Compiled loops that note in a reading what depends on its role, whatever the convention."""

from __future__ import annotations

from typing import Any

from ..compiled import compiled
from .columns import (
    AGENT,
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
def note_run(readings: Any, n: Any, has_arguments: Any, has_result: Any) -> None:
    """Note a tool's run, whose arguments and result are captured where they are there."""
    missing = (0 if has_arguments else INPUT_HALF) | (0 if has_result else OUTPUT_HALF)
    readings[n, LACKS] = missing
    if readings[n, ERROR + 1] != MISSING and has_arguments:
        missing &= INPUT_HALF
    readings[n, ROLE], readings[n, CAPTURED], readings[n, CLAIMS] = TOOL, BOTH_HALVES & ~missing, 1
