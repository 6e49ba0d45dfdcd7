"""The fields of an event that a predicate may ask about, and what each can answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Shape(Enum):
    """What a field holds."""

    CHOICE = "one of a few words"
    TEXT = "text"
    JSON = "JSON"
    FLAG = "true or false"
    MAP = "a map of names to text"


KINDS = ("user", "assistant", "tool_call", "tool_result", "unknown")
CONTENTS = ("captured", "absent", "truncated", "redacted")
"""The words of `Kind` and `Content` in `schemas/event.py`, which loads more than checking a pack needs."""
TOOL = ("tool_call", "tool_result")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the event frame as predicates see it.

    `choices` are the words of a `CHOICE`; `nullable` says whether an event can lack it, and `kinds` are the
    kinds of events that can have it.
    """

    name: str
    shape: Shape
    nullable: bool = True
    choices: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS


FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("kind", Shape.CHOICE, False, KINDS),
        Field("agent", Shape.TEXT),
        Field("model", Shape.TEXT),
        Field("service", Shape.TEXT),
        Field("nested", Shape.FLAG, False),
        Field("text", Shape.TEXT, kinds=("user", "assistant", "unknown")),
        Field("tool", Shape.TEXT, kinds=TOOL),
        Field("call_id", Shape.TEXT, kinds=TOOL),
        Field("args", Shape.JSON, kinds=TOOL),
        Field("result", Shape.JSON, kinds=("tool_result",)),
        Field("error", Shape.TEXT),
        Field("content", Shape.CHOICE, False, CONTENTS),
        Field("late", Shape.FLAG, False),
        Field("history", Shape.FLAG, False),
        Field("session_id", Shape.TEXT, False),
        Field("attributes", Shape.MAP, False),
    )
}
"""Fields by name. Times, places and the ids of spans are no fields: rules speak of what happened and in which
order, and two tellings of the same session must be judged alike."""
