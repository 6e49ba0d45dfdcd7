"""Spans for the tests of the dialects: attributes and events, and nothing else that matters."""

from __future__ import annotations

from typing import Any

from tracline.schemas.dialects import read_content
from tracline.schemas.span import Span, SpanEvent
from tracline.schemas.span_content import Message, SpanContent

SpokenEvent = tuple[str, dict[str, Any]]


def content_of(
    attributes: dict[str, Any],
    *events: SpokenEvent,
    name: str = "span",
    failed: bool = False,
    resource: dict[str, Any] | None = None,
    scope: str = "",
    dropped: int = 0,
) -> SpanContent:
    """Return the content of a span with these attributes and events."""
    span_events = tuple(SpanEvent(event, 1, fields) for event, fields in events)
    fields = (name, 1, 2, attributes, span_events, failed, resource or {}, scope, dropped)
    return read_content(Span("t" * 32, "s" * 16, None, *fields))


def chat(**more: Any) -> dict[str, Any]:
    """The attributes of a model's call in the GenAI conventions; `__` in a name is a dot."""
    attributes = {name.replace("__", "."): value for name, value in more.items()}
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": "birch-2", **attributes}


def words(messages: tuple[Message, ...] | None) -> list[tuple[Any, ...]] | None:
    """Messages as rows: role, text, calls as (id, tool, arguments), results as (id, tool, result)."""
    if messages is None:
        return None
    return [
        (
            message.role.value,
            message.text,
            [(call.call_id, call.tool, call.args) for call in message.calls],
            [(result.call_id, result.tool, result.result) for result in message.results],
        )
        for message in messages
    ]
