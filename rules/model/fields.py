"""The fields of an event that predicates may use, and their types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .predicate import ELEMENT, Path


class FieldType(Enum):
    """The type of a field's values."""

    CHOICE = "one of a few words"
    TEXT = "text"
    JSON = "JSON"
    FLAG = "true or false"
    MAP = "a map of names to text"


KINDS = ("user", "assistant", "tool_call", "tool_result", "unknown")
CONTENTS = ("captured", "absent", "truncated", "redacted")
"""The values of `Kind` and `Content` in `schemas/event.py`, whose import would slow the check of a pack."""
TOOL = ("tool_call", "tool_result")

KIND_NOUNS = {
    "user": "user messages",
    "assistant": "assistant messages",
    "tool_call": "tool calls",
    "tool_result": "tool results",
    "unknown": "messages that were not captured",
}
"""The kinds of events as nouns, for messages."""


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of the event frame as predicates see it.

    `choices` are the values of a `CHOICE`; events may lack a `nullable` field, and only events of `kinds`
    have it.
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
"""The fields by name. Times, positions and span ids are not among them: rules are about events and their
order, and two recordings of the same session must get the same verdicts."""

ELEMENT_FIELD = EventField(ELEMENT, FieldType.JSON)
"""An element of a list, as the field of the paths that begin there."""


def field_of(path: Path) -> EventField:
    """Return the field where a path begins."""
    return ELEMENT_FIELD if path.field == ELEMENT else FIELDS[path.field]
