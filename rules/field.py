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


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the event frame as predicates see it.

    `choices` are the words of a `CHOICE`; `nullable` says whether an event can lack it.
    """

    name: str
    shape: Shape
    nullable: bool = True
    choices: tuple[str, ...] = ()


FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("kind", Shape.CHOICE, False, ("user", "assistant", "tool_call", "tool_result", "unknown")),
        Field("agent", Shape.TEXT),
        Field("model", Shape.TEXT),
        Field("service", Shape.TEXT),
        Field("nested", Shape.FLAG, False),
        Field("text", Shape.TEXT),
        Field("tool", Shape.TEXT),
        Field("call_id", Shape.TEXT),
        Field("args", Shape.JSON),
        Field("result", Shape.JSON),
        Field("error", Shape.TEXT),
        Field("content", Shape.CHOICE, False, ("captured", "absent", "truncated", "redacted")),
        Field("late", Shape.FLAG, False),
        Field("history", Shape.FLAG, False),
        Field("session_id", Shape.TEXT, False),
        Field("attributes", Shape.MAP, False),
    )
}
"""Fields by name. Times, places and the ids of spans are no fields: rules speak of what happened and in which
order, and two tellings of the same session must be judged alike."""
