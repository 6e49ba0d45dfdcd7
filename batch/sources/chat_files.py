"""Chat logs in files: conversations as JSON or JSON lines, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...schemas.chat.decode import SESSION_KEYS
from ...schemas.chat.find import InputFlaw, RecordedConversation, conversations, is_message, is_object
from ...schemas.chat.reading import AS_LOGGED, ChatReading, conversations_at, with_agent
from ...schemas.tolerant_json import read_json
from .json_files import JSON_BYTES_MAX, WHOLE, json_values


def read_conversations(
    path: Path, reading: ChatReading = AS_LOGGED
) -> Iterator[RecordedConversation | InputFlaw]:
    """Yield the conversations of one chat log in the file's order, and its flaws.

    A value of the file is conversations (a list of messages, an object or a list with some, or any value that
    has them at the path of the options) or one message. Messages are grouped by the session that they name,
    and form one conversation if they name none.
    """
    try:
        for found in _conversations(path, reading):
            yield found if isinstance(found, InputFlaw) else with_agent(found, reading)
    except ValueError as error:
        yield InputFlaw(WHOLE, "json", f"cannot be read: {error}")
    except OSError:
        yield InputFlaw(WHOLE, "compressed", "cannot be unpacked: the compressed data is damaged or cut off")


def _conversations(path: Path, reading: ChatReading) -> Iterator[RecordedConversation | InputFlaw]:
    by_session: dict[str, RecordedConversation] = {}
    held = 0
    for found in json_values(path, read_json):
        if isinstance(found, InputFlaw):
            yield found
            continue
        place, value, size = found
        if not (is_object(value) and is_message(value)):
            yield from _of_value(value, "" if place == WHOLE else place, reading)
            continue
        held += size
        if held > JSON_BYTES_MAX:
            text = f"messages on lines exceed {JSON_BYTES_MAX} bytes; write one conversation per line"
            yield InputFlaw(place, "json-size", text)
            break
        _add(by_session, value, "line 1" if place == WHOLE else place)
    yield from by_session.values()


def _of_value(value: object, place: str, reading: ChatReading) -> Iterator[RecordedConversation | InputFlaw]:
    """Yield the conversations of one value: those at the path of the options, or else those of its shape."""
    found = conversations_at(value, reading.messages_at, place) if reading.messages_at else []
    yield from found or conversations(value, place)


def _add(by_session: dict[str, RecordedConversation], message: dict[str, object], place: str) -> None:
    """Add a message to the conversation that it names."""
    header = {key: message[key] for key in SESSION_KEYS if key != "id" and key in message}
    key = repr(next(iter(header.values()), None))
    if key not in by_session:
        by_session[key] = RecordedConversation([], header, f"session from {place}")
    by_session[key].messages.append(message)
