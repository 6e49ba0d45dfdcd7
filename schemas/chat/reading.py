"""The options for reading chat logs: the place of their messages, and the agent of those that name none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from .find import ELEMENT, InputFlaw, RecordedConversation, is_object
from .message import string_of

_KEY = r"[^.\[\]]+"
_PATH = re.compile(rf"(?:{_KEY}(?:\[\])*|(?:\[\])+)(?:\.{_KEY}(?:\[\])*)*")
_AGENT_KEYS = ("agent", "agent_name", "model", "service", "service_name")
"""The fields of a file's outer objects that its conversations inherit."""

MessagesPath = tuple[str, ...]
"""The keys to a list of messages, with `[]` for every element of a list."""


@dataclass(frozen=True, slots=True)
class ChatReading:
    """The options for reading chat logs.

    `messages_at` leads to the messages of the values that have it. A conversation that names no agent has
    `agent`, or with `agent_by_model` its model.
    """

    messages_at: MessagesPath = ()
    agent: str | None = None
    agent_by_model: bool = False


AS_LOGGED = ChatReading()
"""The options under which a chat log is read as it is."""


def messages_path(text: str) -> MessagesPath | None:
    """Return the steps of a path such as `task_results[].trajectory.messages`; None for any other text."""
    if not text or _PATH.fullmatch(text) is None:
        return None
    return tuple(re.findall(rf"\[\]|{_KEY}", text))


def conversations_at(
    value: object, path: MessagesPath, place: str = ""
) -> list[RecordedConversation | InputFlaw]:
    """Return the conversations at a path of one JSON value, or nothing where no list of messages is there.

    The header of a conversation has the fields of the objects on the path, the nearest first, from the last
    element of a list on; of the objects above that, it has the agent, the model and the service. An element
    without the path is a flaw.
    """
    found = list(_at_path(value, path, place, {}, {}))
    return found if any(isinstance(part, RecordedConversation) for part in found) else []


def _at_path(
    value: object,
    path: MessagesPath,
    place: str,
    inherited: Mapping[str, object],
    nearest: Mapping[str, object],
) -> Iterator[RecordedConversation | InputFlaw]:
    if not path and isinstance(value, list):
        header = {**inherited, **nearest}
        yield RecordedConversation(cast("list[object]", value), header, place or "session 1")
    elif path and path[0] == ELEMENT and isinstance(value, list):
        shared = {**inherited, **{key: nearest[key] for key in _AGENT_KEYS if key in nearest}}
        for number, member in enumerate(cast("list[object]", value), start=1):
            inner = f"{place}, session {number}" if place else f"session {number}"
            yield from _at_path(member, path[1:], inner, shared, {})
    elif path and is_object(value) and path[0] in value:
        fields = {key: item for key, item in value.items() if key != path[0]}
        yield from _at_path(value[path[0]], path[1:], place, inherited, {**nearest, **fields})
    else:
        yield InputFlaw(place or "session 1", "chat-shape", "has no list of messages at --messages-at")


def with_agent(conversation: RecordedConversation, reading: ChatReading) -> RecordedConversation:
    """Return the conversation with the agent that the options give it, if it names none."""
    header = conversation.header
    named = string_of(header.get("agent", header.get("agent_name")))
    name = reading.agent or (_model(conversation) if reading.agent_by_model else None)
    if named is not None or name is None:
        return conversation
    return replace(conversation, header={**header, "agent": name})


def _model(conversation: RecordedConversation) -> str | None:
    """Return the model of a conversation: that of its header, or else of its first message that has one."""
    headers = [conversation.header, *filter(is_object, conversation.messages)]
    return next((model for header in headers if (model := string_of(header.get("model")))), None)
