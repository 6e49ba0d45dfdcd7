"""Messages in a span's events, where OpenTelemetry's conventions had them and some still write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...span import Span, SpanEvent, Value
from ...span_content import Role, ToolCall, ToolResult
from ..names import frameworks as fw
from ..names import opentelemetry_1_36 as old
from ..names import opentelemetry_1_41 as otel
from .chunks import joined, joined_choices
from .message_parts import name_of
from .messages import MESSAGES_MAX, ROLES, listed, message_of, unforged, worded
from .reading import ABSENT, TRUNCATED, Half
from .values import arguments, is_object, parsed_if_nested, result, sound

_PARTS = frozenset(["text", "type", "toolUse", "toolResult", "functionCall", "functionResponse"])


def all_of(span: Span) -> Sequence[SpanEvent]:
    """Return the span's events, and those in an attribute as JSON (Pydantic AI)."""
    listed_events = parsed_if_nested(span.attributes.get(fw.PYDANTIC_EVENTS))
    if not isinstance(listed_events, list):
        return span.events
    found = [event for event in listed_events if is_object(event)]
    return (*span.events, *(SpanEvent(str(event.get("event.name")), span.start, event) for event in found))


def input_of(events: Sequence[SpanEvent], dropped: int) -> Half:
    """Return the model's input, from one event for all messages or one for each.

    `dropped` is the number of missing events.
    """
    value = _of_all(events, otel.DETAILS_EVENT, otel.INPUT_MESSAGES)
    if value is not None:
        return listed(value, Role.USER)
    each = [event for event in events if event.name in old.MESSAGE_EVENTS]
    if each:
        return _half(each, lambda event: ROLES[old.MESSAGE_EVENTS[event.name]], dropped)
    value = _of_all(events, old.PROMPT_EVENT, old.PROMPT)
    return ABSENT if value is None else worded(value, Role.USER)


def output_of(events: Sequence[SpanEvent], dropped: int) -> Half:
    """Return the model's output; `dropped` is the number of missing events."""
    value = _of_all(events, otel.DETAILS_EVENT, otel.OUTPUT_MESSAGES)
    if value is not None:
        return joined(value, listed(value, Role.ASSISTANT))
    each = [event for event in events if event.name == old.CHOICE_EVENT]
    if each:
        return joined_choices(
            [_body(event) for event in each], _half(each, lambda _event: Role.ASSISTANT, dropped)
        )
    value = _of_all(events, old.COMPLETION_EVENT, old.COMPLETION)
    return ABSENT if value is None else worded(value, Role.ASSISTANT)


def run_of(events: Sequence[SpanEvent]) -> tuple[ToolCall | None, ToolResult | None]:
    """Return the call and the result of a tool's run, each None without an event of it."""
    calls = [call for message in input_of(events, 0).messages or () for call in message.calls]
    answers = [answer for message in output_of(events, 0).messages or () for answer in message.results]
    call, answer = (calls or [None])[0], (answers or [None])[0]
    for event in events:
        body = _body(event)
        if call is None and event.name == old.TOOL_MESSAGE_EVENT and "content" in body:
            call = ToolCall(name_of(body.get("id")), name_of(body.get("name")), *arguments(body["content"]))
        if answer is None and event.name == old.CHOICE_EVENT and "message" in body:
            text, content = result(parsed_if_nested(body["message"]))
            answer = ToolResult(name_of(body.get("id")), None, text, content=content)
    return call, answer


def _of_all(events: Sequence[SpanEvent], event_name: str, attribute: str) -> Value:
    """Return an attribute of the last event with that name that has it."""
    found = (
        event.attributes[attribute]
        for event in reversed(events)
        if event.name == event_name and attribute in event.attributes
    )
    return next(found, None)


def _half(each: Sequence[SpanEvent], speaker_of: Callable[[SpanEvent], Role], dropped: int) -> Half:
    """Return the messages of events with one each, if all are there and whole."""
    if dropped or len(each) > MESSAGES_MAX or any(event.dropped for event in each):
        return TRUNCATED
    speakers = [speaker_of(event) for event in each]
    written = (_fields(event) for event in each)
    opened = unforged((*both, speaker) for both, speaker in zip(written, speakers, strict=True))
    messages = (message_of(fields, speaker) for fields, speaker in zip(opened, speakers, strict=True))
    return Half(tuple(message for message in messages if message is not None))


def _fields(event: SpanEvent) -> tuple[Value, Value]:
    """Return the fields of an event's message with its content as written, and with its parts opened."""
    body = _body(event)
    fields = {key: _opened(key, value) for key, value in body.items()}
    message = fields.pop("message", None)
    if is_object(message):
        fields = {**fields, **message}
        return fields, fields
    written = body.get("content" if message is None else "message")
    if message is not None:
        fields["content"] = message
    is_opened = isinstance(written, str) and fields["content"] is not written
    return {**fields, "content": written} if is_opened else fields, fields


def _body(event: SpanEvent) -> dict[str, Value]:
    """Return the fields of an event: its attributes, and those of a log record's body."""
    body = parsed_if_nested(event.attributes.get(old.EVENT_BODY))
    try:
        fields = {key: sound(value) for key, value in event.attributes.items() if key != old.EVENT_BODY}
    except ValueError:
        fields = dict[str, Value]()
    return {**fields, **body} if is_object(body) else fields


def _opened(key: str, value: Value) -> Value:
    """Return a field's value, parsed from JSON where it holds calls, a message or the parts of one."""
    if key not in ("content", "message", "tool_calls", "function_call"):
        return value
    opened = parsed_if_nested(value)
    return value if key == "content" and not _are_parts(opened) else opened


def _are_parts(value: Value) -> bool:
    return isinstance(value, list) and all(is_object(part) and not _PARTS.isdisjoint(part) for part in value)
