"""Chat messages to judged events: OpenAI-style message lists, and the spellings that logs of them use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import cast

from .calls import Call, OpenCalls
from .conversation import Conversation, Flaw, is_object
from .event import Content, Event, Kind, event_content, event_id
from .jsontext import encode, json_text
from .time import NS, parse_time

MESSAGES_MAX = 100_000
"""Messages of one conversation; a longer one is a flaw."""
ATTRIBUTES_MAX = 64
"""Attributes of one event; further ones are left out."""
ATTRIBUTE_CHARS_MAX = 1_000
"""Characters of an attribute; longer text is none."""
ID_CHARS_MAX = 1_000
"""Characters of a session id, call id or tool name; a longer one is a flaw."""

END_CONVERSATION = "conversation"
"""The attribute of an `end` row that holds the digest of its conversation's messages."""
SESSION_KEYS = ("session_id", "conversation_id", "thread_id", "chat_id", "id")
"""Where a conversation says its own id, in order of preference."""
TIME_KEYS = ("timestamp", "created_at", "time", "created", "ts")
"""Where a message says when it was, in order of preference."""

_COLUMNS = frozenset(
    [
        "role",
        "content",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "call_id",
        "error",
        "is_error",
        "refusal",
        "model",
        "agent",
    ]
).union(TIME_KEYS)
"""Fields of a message that columns of the event hold; the other plain ones are its attributes."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One conversation as events, in judged order and with an `end` row last; none where it has no event.

    `digest` (32 hex digits) is that of its messages: two conversations with equal ids and digests are one
    conversation told twice. `instructions` counts its system and developer messages, which are no events.
    """

    session_id: str
    digest: str
    events: tuple[Event, ...]
    instructions: int
    flaws: tuple[Flaw, ...]


@dataclass(slots=True)
class _Reading:
    """What has been read of a conversation so far; events have no time, place or id yet."""

    place: str
    calls: OpenCalls = field(default_factory=OpenCalls)
    drafts: list[tuple[int, Event]] = field(default_factory=list[tuple[int, Event]])
    flaws: list[Flaw] = field(default_factory=list[Flaw])
    instructions: int = 0


class _Unreadable(Exception):
    """A message, or a call in one, that cannot be an event: `args` are a code and a text."""


def decode(conversation: Conversation, zone: tzinfo = UTC, session_id: str | None = None) -> Decoded:
    """The judged events of one complete conversation, in message order.

    The session is `session_id` where that is given, else the log's own id, else task, trial and digest.

    In a message, its text comes before its calls and those in their order. Times without an offset are
    local to `zone`; a message without a time has that of the message before it (the first ones that of the
    first that has one), and where none has any they stand one second apart from 1970-01-01T00:00:00Z.
    Never raises for what a log may hold: a message or call that cannot be read is a flaw, and left out.
    """
    reading = _Reading(conversation.place)
    if len(conversation.messages) > MESSAGES_MAX:
        flaw = Flaw(conversation.place, "chat-length", f"has more than {MESSAGES_MAX} messages; split it")
        return Decoded("", "", (), 0, (flaw,))
    sha = hashlib.sha256()
    times: list[int | None] = []
    for index, message in enumerate(conversation.messages):
        encoded = encode(message)
        # A message that no JSON can carry is told apart from others only by standing there.
        sha.update((b"unreadable" if encoded is None else encoded) + b"\n")
        times.append(_read(reading, index, message, encoded is not None, zone))
    digest = sha.hexdigest()[:32]
    try:
        session_id = session_id or _session_id(conversation.header, digest)
    except _Unreadable as error:
        return Decoded("", digest, (), 0, (Flaw(conversation.place, *error.args),))
    events = _finish(session_id, _whose(conversation.header, reading.drafts), _clock(times), digest)
    return Decoded(session_id, digest, events, reading.instructions, tuple(reading.flaws))


def _read(reading: _Reading, index: int, message: object, carried: bool, zone: tzinfo) -> int | None:
    """Add one message's events; its time where it says one."""
    place, time = f"{reading.place}, message {index + 1}", None
    try:
        if not is_object(message):
            raise _Unreadable("chat-message", "is not an object")
        if not carried:
            raise _Unreadable("chat-value", "holds a number, text or nesting that JSON in UTF-8 cannot carry")
        time = _time(message, zone)
        _read_role(reading, index, message, place)
    except _Unreadable as error:
        reading.flaws.append(Flaw(place, *error.args))
    return time


def _read_role(reading: _Reading, index: int, message: Mapping[str, object], place: str) -> None:
    role = message.get("role")
    if role in ("system", "developer"):
        reading.instructions += 1
    elif role in ("tool", "function"):
        reading.drafts.append((index, _result(message, reading.calls)))
    elif role in ("user", "assistant"):
        text = _said(message, Kind(cast("str", role)))
        if text is not None:
            reading.drafts.append((index, text))
        _add_calls(reading, index, message, place)
    else:
        raise _Unreadable(
            "chat-role", "has none of the roles user, assistant, tool, function, system, developer"
        )


def _time(message: Mapping[str, object], zone: tzinfo) -> int | None:
    for key in TIME_KEYS:
        value = message.get(key)
        if value is not None:
            ns = parse_time(value, zone)
            if ns is None:
                raise _Unreadable("chat-time", f"has a `{key}` that is no time between 1678 and 2262")
            return ns
    return None


# What is said


def _said(message: Mapping[str, object], kind: Kind) -> Event | None:
    """The user or assistant event of a message; None where it only calls tools."""
    text = _text(message.get("content"))
    attributes = _attributes(message, without="name" if kind is Kind.ASSISTANT else "")
    if not text and message.get("refusal"):
        text = _text(message["refusal"])
        attributes["refusal"] = "true"
    if not text and (message.get("tool_calls") or message.get("function_call")):
        return None
    # A null that is written down is what was said; only a field that is not there was not captured.
    content = Content.CAPTURED if "content" in message or text else Content.ABSENT
    agent = (message.get("sender") or message.get("name")) if kind is Kind.ASSISTANT else None
    return _draft(message, kind, attributes, agent=_string(agent), text=text, content=content)


def _text(content: object) -> str | None:
    """Message text: a string as it is, of a list of parts those that are text, a line each."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _Unreadable("chat-content", "has content that is neither text, nor a list of parts, nor null")
    texts = [_part(part) for part in cast("list[object]", content)]
    return "\n".join(text for text in texts if text is not None)


def _part(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not is_object(part):
        raise _Unreadable("chat-content", "has a content part that is neither text nor an object")
    if part.get("type") in ("tool_use", "tool_result", "tool_call", "tool_call_response"):
        raise _Unreadable("chat-content", "has a call or result among its content parts; use `tool_calls`")
    text = part.get("text", part.get("content"))
    return text if isinstance(text, str) else None


# Calls and results


def _add_calls(reading: _Reading, index: int, message: Mapping[str, object], place: str) -> None:
    calls = message.get("tool_calls")
    legacy = message.get("function_call")
    if calls is not None and not isinstance(calls, list):
        raise _Unreadable("chat-calls", "has `tool_calls` that are no list")
    for number, call in enumerate([*cast("list[object]", calls or []), *([legacy] if legacy else [])]):
        try:
            draft = _call(call, message)
        except _Unreadable as error:
            reading.flaws.append(Flaw(f"{place}, call {number + 1}", *error.args))
            continue
        reading.drafts.append((index, draft))
        reading.calls.add(Call(index, draft.call_id, draft.tool, draft.args, draft.nested))


def _call(call: object, message: Mapping[str, object]) -> Event:
    if not is_object(call):
        raise _Unreadable("chat-call", "is not an object")
    inner = next((item for key in ("function", "custom") if is_object(item := call.get(key))), call)
    tool = _name(inner.get("name"))
    if tool is None:
        raise _Unreadable("chat-call", "has no name")
    key = next((key for key in ("arguments", "args", "input") if key in inner), None)
    attributes, nested = _attributes(message), _by_user(call) or message.get("role") == "user"
    if nested:
        attributes["requestor"] = "user"
    return _draft(
        message,
        Kind.TOOL_CALL,
        attributes,
        agent=_string(message.get("sender")),
        nested=nested,
        tool=tool,
        call_id=_name(call.get("id", call.get("call_id"))),
        args=None if key is None else _json(inner[key]),
        content=Content.ABSENT if key is None else Content.CAPTURED,
    )


def _result(message: Mapping[str, object], calls: OpenCalls) -> Event:
    said = _name(message.get("tool_call_id", message.get("call_id")))
    own = _name(message.get("id")) if said is None else None
    name = _name(message.get("name"))
    call = calls.answer(said if said is not None else own, name, strict=said is not None)
    attributes = _attributes(message, without="name")
    if own is not None and call is not None and call.call_id == own:
        attributes.pop("id", None)
    return _draft(
        message,
        Kind.TOOL_RESULT,
        attributes,
        nested=_by_user(message) or (call is not None and call.nested),
        tool=name if name is not None or call is None else call.tool,
        call_id=said if said is not None or call is None else call.call_id,
        args=None if call is None else call.args,
        result=_returned(message.get("content")),
        error=_error(message),
        content=Content.CAPTURED if "content" in message else Content.ABSENT,
    )


def _returned(content: object) -> str | None:
    """What a tool returned: text as it is, text parts a line each, any other value as JSON text."""
    parts = cast("list[object]", content) if isinstance(content, list) else []
    told = [is_object(part) and isinstance(part.get("text"), str) and "type" in part for part in parts]
    return _text(parts) if told and all(told) else _json(cast("object", content))


def _error(message: Mapping[str, object]) -> str | None:
    """The error type that the log itself flags: its own text, or `tool_error` where it only says that.

    Text that reads like an error is not a flag: "Error: ..." may be what the tool is for.
    """
    flag = message.get("error")
    if is_object(flag):
        flag = flag.get("type") or True
    if isinstance(flag, str) and flag:
        return flag
    return "tool_error" if flag or message.get("is_error") or message.get("status") == "error" else None


def _by_user(value: Mapping[str, object]) -> bool:
    # tau2: the customer works a device of their own; the agent neither asks for that nor sees it.
    return value.get("requestor") == "user"


# Fields


def _draft(message: Mapping[str, object], kind: Kind, attributes: dict[str, str], **fields: object) -> Event:
    agent = _string(message.get("agent")) or fields.pop("agent", None)
    model = _string(message.get("model"))
    return Event("", 0, 0, 0, kind, attributes=attributes, agent=agent, model=model, **fields)  # type: ignore[arg-type]


def _attributes(message: Mapping[str, object], without: str = "") -> dict[str, str]:
    """The message's other plain fields as text, those of `usage` and `metadata` behind their name."""
    found: dict[str, str] = {}
    for key, value in _plain(message):
        if len(found) < ATTRIBUTES_MAX and key != without:
            text = value if isinstance(value, str) else json_text(value)
            if len(text) <= ATTRIBUTE_CHARS_MAX and len(key) <= ATTRIBUTE_CHARS_MAX:
                found[key] = text
    return found


def _plain(message: Mapping[str, object]) -> Iterator[tuple[str, str | int | float]]:
    for key, value in message.items():
        if isinstance(value, (str, int, float)) and key not in _COLUMNS:
            yield key, value
    for key in ("usage", "metadata"):
        inner = message.get(key)
        if is_object(inner):
            yield from ((f"{key}.{k}", v) for k, v in inner.items() if isinstance(v, (str, int, float)))


def _string(value: object) -> str | None:
    told = isinstance(value, str) and 0 < len(value) <= ID_CHARS_MAX and encode(value) is not None
    return cast("str", value) if told else None


def _name(value: object) -> str | None:
    """An id or a name: text, or an integer's digits; None where there is none."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or len(value) > ID_CHARS_MAX:
        raise _Unreadable(
            "chat-id", f"has an id or a name that is no text of up to {ID_CHARS_MAX} characters"
        )
    return value


def _json(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json_text(value)


# The conversation as a whole


def _session_id(header: Mapping[str, object], digest: str) -> str:
    """The log's own id, else task, trial and sixteen digits of the digest, those that there are."""
    for key in SESSION_KEYS:
        own = _name(header.get(key))
        if own is not None:
            break
    else:
        task = _name(header.get("task_id"))
        trial = _name(header.get("trial"))
        own = "/".join(part for part in (task, trial, digest[:16]) if part is not None)
    if encode(own) is None:
        raise _Unreadable("chat-id", "has an id that UTF-8 cannot carry")
    return own


def _whose(header: Mapping[str, object], drafts: list[tuple[int, Event]]) -> list[tuple[int, Event]]:
    """The drafts with what the conversation says of all its events: agent, model and service."""
    agent = _string(header.get("agent", header.get("agent_name")))
    model, service = _string(header.get("model")), _string(header.get("service", header.get("service_name")))
    if agent is None and model is None and service is None:
        return drafts
    return [
        (index, replace(draft, agent=draft.agent or agent, model=draft.model or model, service=service))
        for index, draft in drafts
    ]


def _clock(times: list[int | None]) -> list[int]:
    """A time for every message, from those that say theirs."""
    now = next((time for time in times if time is not None), None)
    if now is None:
        return [index * NS for index in range(len(times))]
    filled: list[int] = []
    for time in times:
        now = time if time is not None else now
        filled.append(now)
    return filled


def _finish(
    session_id: str, drafts: list[tuple[int, Event]], clock: list[int], digest: str
) -> tuple[Event, ...]:
    """The drafts with session, occurrence, time, place and id, and the `end` row behind them."""
    if not drafts:
        return ()
    last = max(clock[index] for index, _ in drafts)
    end = Event("", 0, last, 0, Kind.END, attributes={"end": "complete", END_CONVERSATION: digest})
    occurrence = clock[drafts[0][0]]
    ordinals: dict[tuple[str | None, ...], int] = {}
    events: list[Event] = []
    for index, draft in [*drafts, (-1, end)]:
        content = event_content(
            draft.kind,
            text=draft.text,
            tool=draft.tool,
            call_id=draft.call_id,
            args=draft.args,
            result=draft.result,
        )
        key = (draft.kind, *content)
        ordinal = ordinals.get(key, 0)
        ordinals[key] = ordinal + 1
        events.append(
            replace(
                draft,
                session_id=session_id,
                occurrence=occurrence,
                time=last if index < 0 else clock[index],
                seq=len(events) + 1,
                event_id=event_id(session_id, occurrence, draft.kind, content, ordinal),
            )
        )
    return tuple(events)
