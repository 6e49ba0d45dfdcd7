"""Finding the conversations in a chat log's JSON, in any list or object."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard, cast

MESSAGE_KEYS = ("messages", "traj")
"""The keys under which an object holds its list of messages, in order of preference."""


ELEMENT = "[]"
"""The step of a path to every element of a list."""

SEARCHED_MAX = 2_000
"""Values that the search for messages looks at."""
ELEMENTS_SEARCHED = 3
"""Elements of a list that the search looks at."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,60}")


@dataclass(frozen=True, slots=True)
class RecordedConversation:
    """The messages of one recorded session, not decoded yet.

    `header` is the object that holds them (empty for a bare list); `place` is where it is in the file.
    """

    messages: list[object]
    header: Mapping[str, object]
    place: str


@dataclass(frozen=True, slots=True)
class InputFlaw:
    """A part of a chat log or of telemetry that cannot be decoded: its place, a stable code and the reason.

    The text never quotes the data.
    """

    place: str
    code: str
    text: str


def conversations(value: object, place: str = "") -> Iterator[RecordedConversation | InputFlaw]:
    """Yield the conversations in one JSON value, in their order.

    A list of messages is one conversation, any other list holds one in each member. An object is one when
    it has `messages` or `traj`, and holds many when it has `simulations` (tau2). Anything else is a flaw,
    which names the place of messages further inside.
    """
    if is_object(value) and isinstance(value.get("simulations"), list):
        yield from _simulations(value, place)
        return
    members = cast("list[object]", value) if isinstance(value, list) else None
    if members is None or is_message_list(members):
        yield _conversation(cast("object", value), place or "session 1", {})
        return
    for index, member in enumerate(members):
        yield _conversation(member, _at(place, f"session {index + 1}"), {}, ELEMENT)


def found_messages(value: object, above: str = "") -> str | None:
    """Return the path of the nearest list of messages inside a value, if its keys are plain names.

    `above` is the path to the value.
    """
    todo: deque[tuple[object, str]] = deque([(value, above)])
    for _ in range(SEARCHED_MAX):
        if not todo:
            break
        inner, path = todo.popleft()
        if isinstance(inner, list):
            members = cast("list[object]", inner)
            if is_message_list(members):
                return path
            todo.extend((member, path + ELEMENT) for member in members[:ELEMENTS_SEARCHED])
        elif is_object(inner):
            keys = [key for key in inner if _PLAIN_KEY.fullmatch(key)]
            todo.extend((inner[key], f"{path}.{key}" if path else key) for key in keys)
    return None


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Return whether the value is a JSON object."""
    return isinstance(value, dict)


def is_message(value: object) -> bool:
    """Return whether the value is an object with a `role` and no list of messages of its own."""
    return is_object(value) and "role" in value and messages_of(value) is None


def is_message_list(members: list[object]) -> bool:
    """Return whether a list is one conversation: some member is a message, and none holds a conversation."""
    return any(map(is_message, members)) and not any(
        isinstance(member, list) or (is_object(member) and messages_of(member) is not None)
        for member in members
    )


def messages_of(value: Mapping[str, object]) -> list[object] | None:
    """Return the list of messages that an object holds, or None."""
    for key in MESSAGE_KEYS:
        found = value.get(key)
        if isinstance(found, list):
            return cast("list[object]", found)
    return None


def _simulations(value: dict[str, object], place: str) -> Iterator[RecordedConversation | InputFlaw]:
    inherited: dict[str, object] = {}
    info = value.get("info")
    agent = info.get("agent_info") if is_object(info) else None
    if is_object(agent):
        inherited["model"] = agent.get("llm")
    for index, member in enumerate(cast("list[object]", value["simulations"])):
        yield _conversation(member, _at(place, f"session {index + 1}"), inherited, f"simulations{ELEMENT}")


def _conversation(
    value: object, place: str, inherited: Mapping[str, object], above: str = ""
) -> RecordedConversation | InputFlaw:
    if isinstance(value, list):
        return RecordedConversation(cast("list[object]", value), {}, place)
    found = messages_of(value) if is_object(value) else None
    if found is None or not is_object(value):
        text = "is neither a list of messages nor an object with `messages` or `traj`"
        if (path := found_messages(value, above)) is not None:
            text += f"; messages are at {path}: add --messages-at {path}"
        return InputFlaw(place, "chat-shape", text)
    header = {key: item for key, item in value.items() if item is not found}
    return RecordedConversation(found, {**inherited, **header}, place)


def _at(place: str, inner: str) -> str:
    return f"{place}, {inner}" if place else inner
