"""Chat messages to judged events: OpenAI-style message lists, and the spellings that logs of them use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import cast

import msgspec

from ..event import Event, Kind, content_of, end_event, event_id
from ..open_calls import OpenCall, OpenCalls
from ..time import NS
from ..tolerant_json import encode
from .find import InputFlaw, RecordedConversation, is_object
from .message import UnreadableMessage, call_of, message_event, name_of, result_of, string_of, time_of

MESSAGES_MAX = 100_000
"""Messages of one conversation; a longer one is a flaw."""
END_CONVERSATION = "conversation"
"""The attribute of an `end` row that holds the digest of its conversation's messages."""
SESSION_KEYS = ("session_id", "conversation_id", "thread_id", "chat_id", "id")
"""Keys of a conversation's id, in order of preference."""


@dataclass(frozen=True, slots=True)
class DecodedConversation:
    """One conversation as events, in judged order and with an `end` row last; none where it has no event.

    `digest` (32 hex digits) is that of its messages: two conversations with equal ids and digests are one
    conversation recorded twice. `instructions` counts its system and developer messages, which are no events.
    """

    session_id: str
    digest: str
    events: tuple[Event, ...]
    instructions: int
    flaws: tuple[InputFlaw, ...]


@dataclass(slots=True)
class _Progress:
    """The part of a conversation decoded so far; events have no time, place or id yet."""

    place: str
    calls: OpenCalls = field(default_factory=OpenCalls)
    drafts: list[tuple[int, Event]] = field(default_factory=list[tuple[int, Event]])
    flaws: list[InputFlaw] = field(default_factory=list[InputFlaw])
    instructions: int = 0


def decode(
    conversation: RecordedConversation, zone: tzinfo = UTC, session_id: str | None = None
) -> DecodedConversation:
    """Return the judged events of one complete conversation, in message order.

    The session is `session_id` where that is given, else the log's own id, else task, trial and digest. In
    a message, its text comes before its calls and those in their order. Times without an offset are
    local to `zone`; a message without a time has that of the message before it (the first ones that of the
    first that has one), and where none has one they are one second apart from 1970-01-01T00:00:00Z.
    Never raises for any log: a message or call that cannot be decoded is a flaw, and left out.
    """
    progress = _Progress(conversation.place)
    if len(conversation.messages) > MESSAGES_MAX:
        flaw = InputFlaw(
            conversation.place, "chat-length", f"has more than {MESSAGES_MAX} messages; split it"
        )
        return DecodedConversation("", "", (), 0, (flaw,))
    encoded = [encode(message) for message in conversation.messages]
    digest = _digest(encoded)
    times = [
        _read(progress, index, message, encoded[index] is not None, zone)
        for index, message in enumerate(conversation.messages)
    ]
    try:
        session_id = session_id or _session_id(conversation.header, digest)
    except UnreadableMessage as error:
        return DecodedConversation("", digest, (), 0, (InputFlaw(conversation.place, *error.args),))
    events = _finish(conversation.header, session_id, progress.drafts, _clock(times))
    if events:
        events.append(_end(events, digest))
    return DecodedConversation(
        session_id, digest, tuple(events), progress.instructions, tuple(progress.flaws)
    )


def identity(conversation: RecordedConversation) -> tuple[str, str] | None:
    """Return the session id and the digest that `decode` gives a conversation, without progress its events.

    None where `decode` gives no events for its length or its id.
    """
    if len(conversation.messages) > MESSAGES_MAX:
        return None
    digest = _digest(map(encode, conversation.messages))
    try:
        return _session_id(conversation.header, digest), digest
    except UnreadableMessage:
        return None


def origin_fields(header: Mapping[str, object]) -> tuple[str | None, str | None, str | None]:
    """Return agent, model and service from a conversation's header."""
    return (
        string_of(header.get("agent", header.get("agent_name"))),
        string_of(header.get("model")),
        string_of(header.get("service", header.get("service_name"))),
    )


def _digest(encoded: Iterable[bytes | None]) -> str:
    """Return the first 32 hex digits of the SHA-256 of the messages, each as JSON on a line of its own."""
    sha = hashlib.sha256()
    for message in encoded:
        # Of a message that no JSON can carry only its place counts.
        sha.update((b"unreadable" if message is None else message) + b"\n")
    return sha.hexdigest()[:32]


def _read(progress: _Progress, index: int, message: object, carried: bool, zone: tzinfo) -> int | None:
    """Add one message's events; return its time, None where it has none."""
    place, time = f"{progress.place}, message {index + 1}", None
    try:
        if not is_object(message):
            raise UnreadableMessage("chat-message", "is not an object")
        if not carried:
            raise UnreadableMessage(
                "chat-value", "holds a number, text or nesting that JSON in UTF-8 cannot carry"
            )
        time = time_of(message, zone)
        _read_role(progress, index, message, place)
    except UnreadableMessage as error:
        progress.flaws.append(InputFlaw(place, *error.args))
    return time


def _read_role(progress: _Progress, index: int, message: Mapping[str, object], place: str) -> None:
    role = message.get("role")
    if role in ("system", "developer"):
        progress.instructions += 1
    elif role in ("tool", "function"):
        progress.drafts.append((index, result_of(message, progress.calls)))
    elif role in ("user", "assistant"):
        text = message_event(message, Kind(cast("str", role)))
        if text is not None:
            progress.drafts.append((index, text))
        _add_calls(progress, index, message, place)
    else:
        raise UnreadableMessage(
            "chat-role", "has none of the roles user, assistant, tool, function, system, developer"
        )


def _add_calls(progress: _Progress, index: int, message: Mapping[str, object], place: str) -> None:
    calls = message.get("tool_calls")
    legacy = message.get("function_call")
    if calls is not None and not isinstance(calls, list):
        raise UnreadableMessage("chat-calls", "has `tool_calls` that are no list")
    for number, call in enumerate([*cast("list[object]", calls or []), *([legacy] if legacy else [])]):
        try:
            draft = call_of(call, message)
        except UnreadableMessage as error:
            progress.flaws.append(InputFlaw(f"{place}, call {number + 1}", *error.args))
            continue
        progress.drafts.append((index, draft))
        progress.calls.add(OpenCall(index, draft.call_id, draft.tool, draft.args, draft.nested))


def _session_id(header: Mapping[str, object], digest: str) -> str:
    """Return the log's own id, else task, trial and sixteen digits of the digest, those that there are."""
    for key in SESSION_KEYS:
        session_id = name_of(header.get(key))
        if session_id is not None:
            break
    else:
        task = name_of(header.get("task_id"))
        trial = name_of(header.get("trial"))
        session_id = "/".join(part for part in (task, trial, digest[:16]) if part is not None)
    if encode(session_id) is None:
        raise UnreadableMessage("chat-id", "has an id that UTF-8 cannot carry")
    return session_id


def _clock(times: list[int | None]) -> list[int]:
    """Return a time for every message, from those that have one."""
    now = next((time for time in times if time is not None), None)
    if now is None:
        return [index * NS for index in range(len(times))]
    filled: list[int] = []
    for time in times:
        now = time if time is not None else now
        filled.append(now)
    return filled


def _finish(
    header: Mapping[str, object], session_id: str, drafts: list[tuple[int, Event]], clock: list[int]
) -> list[Event]:
    """Return the drafts with session, occurrence, time, place and id, and with the header's fields."""
    agent, model, service = origin_fields(header)
    ordinals: dict[tuple[str | None, ...], int] = {}
    events: list[Event] = []
    for index, draft in drafts:
        content = content_of(draft)
        ordinal = ordinals.setdefault((draft.kind, *content), 0)
        ordinals[(draft.kind, *content)] += 1
        occurrence = events[0].time if events else clock[index]
        events.append(
            msgspec.structs.replace(
                draft,
                session_id=session_id,
                occurrence=occurrence,
                time=clock[index],
                seq=len(events) + 1,
                agent=draft.agent or agent,
                model=draft.model or model,
                service=service,
                event_id=event_id(session_id, occurrence, draft.kind, content, ordinal),
            )
        )
    return events


def _end(events: list[Event], digest: str) -> Event:
    """Return the `end` row after a conversation's events: a log holds it whole."""
    first = events[0]
    last = max(event.time for event in events)
    attributes = {"end": "complete", END_CONVERSATION: digest}
    return end_event(first.session_id, first.occurrence, last, len(events) + 1, attributes)
