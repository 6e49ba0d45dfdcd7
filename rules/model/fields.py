"""The fields of an event that a predicate may ask about, and what each can answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FieldType(Enum):
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
class EventField:
    """A field of the event frame as predicates see it.

    `choices` are the words of a `CHOICE`; `nullable` says whether an event can lack it, and `kinds` are the
    kinds of events that can have it.
    """

    name: str
    type: FieldType
    nullable: bool = True
    choices: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS


FIELDS: dict[str, EventField] = {
    field.name: field
    for field in (
        EventField("kind", FieldType.CHOICE, False, KINDS),
        EventField("agent", FieldType.TEXT),
        EventField("model", FieldType.TEXT),
        EventField("service", FieldType.TEXT),
        EventField("nested", FieldType.FLAG, False),
        EventField("text", FieldType.TEXT, kinds=("user", "assistant", "unknown")),
        EventField("tool", FieldType.TEXT, kinds=TOOL),
        EventField("call_id", FieldType.TEXT, kinds=TOOL),
        EventField("args", FieldType.JSON, kinds=TOOL),
        EventField("result", FieldType.JSON, kinds=("tool_result",)),
        EventField("error", FieldType.TEXT),
        EventField("content", FieldType.CHOICE, False, CONTENTS),
        EventField("late", FieldType.FLAG, False),
        EventField("history", FieldType.FLAG, False),
        EventField("session_id", FieldType.TEXT, False),
        EventField("attributes", FieldType.MAP, False),
    )
}
"""Fields by name. Times, places and the ids of spans are no fields: rules speak of what happened and in which
order, and two tellings of the same session must be judged alike."""
