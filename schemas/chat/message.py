"""One chat message as events: its text, its calls and its results.

The events have no session, time, place or id yet: `schemas/chat/decode.py` adds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import cast

from ..event import Content, Event, Kind
from ..open_calls import OpenCalls
from ..time import EVENT_TIME_MIN, parse_time
from ..tolerant_json import encode, json_text, text_or_json
from .find import is_object

ATTRIBUTES_MAX = 64
"""Attributes of one event; further ones are left out."""
ATTRIBUTE_CHARS_MAX = 1_000
"""Characters of an attribute; longer text is left out."""
ID_CHARS_MAX = 1_000
"""Characters of a session id, call id or tool name; a longer one is a flaw."""

TIME_KEYS = ("timestamp", "created_at", "time", "created", "ts")
"""Keys of a message's time, in order of preference."""

_COLUMNS = frozenset(
    [
        *("role", "content", "tool_calls", "function_call", "tool_call_id", "call_id"),
        *("error", "is_error", "refusal", "model", "agent", *TIME_KEYS),
    ]
)
"""Fields of a message that columns of the event hold; the other plain ones are its attributes."""


_UNPLACED = ("", 0, 0, 0)
"""Session, occurrence, time and place of an event before it has them."""


class UnreadableMessage(Exception):
    """A message, or a call in one, that cannot be an event; `args` are a code and a text."""


def time_of(message: Mapping[str, object], zone: tzinfo) -> int | None:
    """Return a message's time in nanoseconds since the epoch; None where it has none."""
    for key in TIME_KEYS:
        value = message.get(key)
        if value is not None:
            ns = parse_time(value, zone)
            if ns is None or ns < EVENT_TIME_MIN:
                raise UnreadableMessage("chat-time", f"has a `{key}` that is no time between 1678 and 2262")
            return ns
    return None


def message_event(message: Mapping[str, object], kind: Kind) -> Event | None:
    """Return the user or assistant event of a message; None where it only calls tools."""
    text = _text(message.get("content"))
    attributes = _attributes(message, without="name" if kind is Kind.ASSISTANT else "")
    if not text and message.get("refusal"):
        text = _text(message["refusal"])
        attributes["refusal"] = "true"
    if not text and (message.get("tool_calls") or message.get("function_call")):
        return None
    # An explicit null is captured content; only a missing field was not captured.
    content = Content.CAPTURED if "content" in message or text else Content.ABSENT
    sender = (message.get("sender") or message.get("name")) if kind is Kind.ASSISTANT else None
    return Event(
        *_UNPLACED,
        kind,
        agent=_agent(message, sender),
        model=string_of(message.get("model")),
        text=text,
        content=content,
        attributes=attributes,
    )


def _text(content: object) -> str | None:
    """Return message text: a string as it is, of a list of parts the texts, a line each."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UnreadableMessage(
            "chat-content", "has content that is neither text, nor a list of parts, nor null"
        )
    texts = [_part(part) for part in cast("list[object]", content)]
    return "\n".join(text for text in texts if text is not None)


def _part(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not is_object(part):
        raise UnreadableMessage("chat-content", "has a content part that is neither text nor an object")
    if part.get("type") in ("tool_use", "tool_result", "tool_call", "tool_call_response"):
        raise UnreadableMessage(
            "chat-content", "has a call or result among its content parts; use `tool_calls`"
        )
    text = part.get("text", part.get("content"))
    return text if isinstance(text, str) else None


def call_of(call: object, message: Mapping[str, object]) -> Event:
    """Return the event of one call of a message, nested or flat. Raises Unreadable where it is none."""
    if not is_object(call):
        raise UnreadableMessage("chat-call", "is not an object")
    inner = next((item for key in ("function", "custom") if is_object(item := call.get(key))), call)
    tool = name_of(inner.get("name"))
    if tool is None:
        raise UnreadableMessage("chat-call", "has no name")
    key = next((key for key in ("arguments", "args", "input") if key in inner), None)
    attributes, nested = _attributes(message), _by_user(call) or message.get("role") == "user"
    if nested:
        attributes["requestor"] = "user"
    return Event(
        *_UNPLACED,
        Kind.TOOL_CALL,
        agent=_agent(message, message.get("sender")),
        model=string_of(message.get("model")),
        nested=nested,
        tool=tool,
        call_id=name_of(call.get("id", call.get("call_id"))),
        args=None if key is None else text_or_json(inner[key]),
        content=Content.ABSENT if key is None else Content.CAPTURED,
        attributes=attributes,
    )


def result_of(message: Mapping[str, object], calls: OpenCalls) -> Event:
    """Return the event of a tool's message, with the arguments of the call that it answers."""
    call_id = name_of(message.get("tool_call_id", message.get("call_id")))
    message_id = name_of(message.get("id")) if call_id is None else None
    name = name_of(message.get("name"))
    call = calls.answer(call_id if call_id is not None else message_id, name, strict=call_id is not None)
    tool = name if name is not None or call is None else call.tool
    attributes = _attributes(message, without="name")
    if message_id is not None and call is not None and call.call_id == message_id:
        attributes.pop("id", None)
    return Event(
        *_UNPLACED,
        Kind.TOOL_RESULT,
        agent=_agent(message),
        model=string_of(message.get("model")),
        nested=_by_user(message) or (call is not None and call.nested),
        tool=tool,
        call_id=call_id if call_id is not None or call is None else call.call_id,
        args=None if call is None else call.args,
        result=returned(message.get("content")),
        error=flagged_error(message),
        # Every result is of a tool: where the log does not name it, the name was not captured.
        content=Content.CAPTURED if "content" in message and tool is not None else Content.ABSENT,
        attributes=attributes,
    )


def returned(content: object) -> str | None:
    """Return what a tool returned: text as it is, text parts a line each, any other value as JSON text."""
    parts = cast("list[object]", content) if isinstance(content, list) else []
    are_texts = [is_object(part) and isinstance(part.get("text"), str) and "type" in part for part in parts]
    return _text(parts) if are_texts and all(are_texts) else text_or_json(cast("object", content))


def flagged_error(message: Mapping[str, object]) -> str | None:
    """Return the error type that the log itself flags: the flag's text, or `tool_error` for a bare flag.

    Text that reads like an error is no flag: "Error: ..." may be a tool's proper result.
    """
    flag = message.get("error")
    if is_object(flag):
        flag = flag.get("type") or True
    if isinstance(flag, str) and flag:
        return flag
    return "tool_error" if flag or message.get("is_error") or message.get("status") == "error" else None


def _by_user(value: Mapping[str, object]) -> bool:
    # tau2: the customer operates a device; the agent neither requests that nor sees it.
    return value.get("requestor") == "user"


def _agent(message: Mapping[str, object], sender: object = None) -> str | None:
    """Return the agent that a message names, else its sender."""
    return string_of(message.get("agent")) or string_of(sender)


def _attributes(message: Mapping[str, object], without: str = "") -> dict[str, str]:
    """Return the message's other plain fields as text, those of `usage` and `metadata` with that prefix."""
    found: dict[str, str] = {}
    for key, value in _plain(message):
        text = value if isinstance(value, str) else json_text(value)
        if key != without and len(text) <= ATTRIBUTE_CHARS_MAX and len(key) <= ATTRIBUTE_CHARS_MAX:
            found[key] = text
        if len(found) == ATTRIBUTES_MAX:
            break
    return found


def _plain(message: Mapping[str, object]) -> Iterator[tuple[str, str | int | float]]:
    for key, value in message.items():
        if isinstance(value, (str, int, float)) and key not in _COLUMNS:
            yield key, value
    for key in ("usage", "metadata"):
        inner = message.get(key)
        if is_object(inner):
            yield from ((f"{key}.{k}", v) for k, v in inner.items() if isinstance(v, (str, int, float)))


def string_of(value: object) -> str | None:
    """Return a field's text, or None where it is empty, too long, or no text that UTF-8 can carry."""
    if not isinstance(value, str) or not 0 < len(value) <= ID_CHARS_MAX:
        return None
    return value if value.isascii() or encode(value) is not None else None


def name_of(value: object) -> str | None:
    """Return an id or a name: text, or an integer's digits; None where there is none."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or len(value) > ID_CHARS_MAX:
        raise UnreadableMessage(
            "chat-id", f"has an id or a name that is no text of up to {ID_CHARS_MAX} characters"
        )
    return value
