"""Events of a case: JSON objects, written by hand or taken from a session, that are examples of a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from .event import Content, Event, Kind, end_event
from .time import NS, parse_time, rfc3339
from .tolerant_json import text_or_json

SESSION = "example"
"""The session id of the events of a case."""

_TEXTS = ("agent", "model", "service", "text", "tool", "call_id", "error")
_DOCUMENTS = ("args", "result")
_FLAGS = ("nested", "late", "history")
_PROVENANCE = (
    "session_id",
    "occurrence",
    "seq",
    "trace_id",
    "span_id",
    "event_id",
    "spans",
    "verdicts",
    "rules",
)
"""Fields of the lines of `tracline show` that no rule reads."""

FIELDS = ("kind", *_TEXTS, *_DOCUMENTS, *_FLAGS, "content", "attributes", "time")
"""The fields of an event of a case."""


class UnreadableEvent(ValueError):
    """An event of a case that cannot be read; the text names the field and never quotes its value."""


def case_event(fields: object) -> Event:
    """Return the event of a JSON object; its time is 0 if it has none. Raises UnreadableEvent.

    Arguments and results are texts or any other JSON. A field that is left out is null.
    """
    if not isinstance(fields, dict):
        raise UnreadableEvent("is not an object")
    values = cast("dict[str, Any]", fields)
    unknown = values.keys() - {*FIELDS, *_PROVENANCE}
    if unknown:
        raise UnreadableEvent(f"has no field `{min(unknown)}`")
    kinds = [kind.value for kind in Kind if kind is not Kind.END]
    if values.get("kind") not in kinds:
        raise UnreadableEvent(f"has no `kind` among {', '.join(kinds)}")
    return Event(
        SESSION,
        0,
        _time(values.get("time")),
        0,
        Kind(values["kind"]),
        late=_flag(values, "late"),
        history=_flag(values, "history"),
        agent=_text(values, "agent"),
        model=_text(values, "model"),
        service=_text(values, "service"),
        nested=_flag(values, "nested"),
        text=_text(values, "text"),
        tool=_text(values, "tool"),
        call_id=_text(values, "call_id"),
        args=text_or_json(values.get("args")),
        result=text_or_json(values.get("result")),
        error=_text(values, "error"),
        content=_content(values.get("content")),
        attributes=_attributes(values.get("attributes")),
    )


def case_session(events: Sequence[Event]) -> list[Event]:
    """Return the events as one closed session, with its `end` row; without times they are a second apart."""
    timed = any(event.time for event in events)
    placed: list[Event] = []
    for seq, event in enumerate(events, start=1):
        time = event.time or (placed[-1].time if placed and timed else seq * NS)
        occurrence = placed[0].time if placed else time
        placed.append(replace(event, time=time, occurrence=occurrence, seq=seq, event_id=f"{seq:032x}"))
    if not placed:
        return []
    first, last = placed[0], max(event.time for event in placed)
    end = end_event(SESSION, first.occurrence, last, len(placed) + 1, {"end": "complete"})
    return [*placed, end]


def case_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event's row that a case has, without nulls and defaults.

    Arguments and results stay the texts that the row has, so that predicates read the same.
    """
    time = row["time"]
    fields: dict[str, Any] = {"kind": row["kind"]}
    fields |= {name: row[name] for name in (*_TEXTS, *_DOCUMENTS) if row[name] is not None}
    fields |= {name: True for name in _FLAGS if row[name]}
    if row["content"] != Content.CAPTURED:
        fields["content"] = str(row["content"])
    if row["attributes"]:
        fields["attributes"] = dict(row["attributes"])
    return fields | {"time": rfc3339(time) if isinstance(time, int) else str(time)}


def _time(value: object) -> int:
    if value is None:
        return 0
    time = parse_time(value) if isinstance(value, str | int | float) else None
    if time is None:
        raise UnreadableEvent("has a `time` that is no time")
    return time


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise UnreadableEvent(f"has a `{name}` that is no text")
    return value


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise UnreadableEvent(f"has a `{name}` that is neither true nor false")
    return value


def _content(value: object) -> Content:
    if value is None:
        return Content.CAPTURED
    if value not in [content.value for content in Content]:
        raise UnreadableEvent(f"has no `content` among {', '.join(content.value for content in Content)}")
    return Content(cast("str", value))


def _attributes(value: object) -> dict[str, str]:
    pairs = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if value is not None and (
        not isinstance(value, dict) or not all(isinstance(v, str) for v in pairs.values())
    ):
        raise UnreadableEvent("has `attributes` that are not texts by name")
    return pairs
