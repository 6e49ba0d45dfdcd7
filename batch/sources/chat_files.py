"""Chat logs from files: conversations in JSON, whole or by lines, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from ...schemas.chat.decode import SESSION_KEYS
from ...schemas.chat.find import InputFlaw, RecordedConversation, conversations, is_message, is_object
from ...schemas.tolerant_json import read_json
from .json_files import BOM, JSON_BYTES_MAX, WHOLE, is_lines, lines, mostly_lines
from .open import open_bytes


def read_conversations(path: Path) -> Iterator[RecordedConversation | InputFlaw]:
    """The conversations of one chat log in the file's order, one at a time, and what cannot be read of it.

    A file of JSON lines is read line by line: each is a conversation (a list of messages or an object that
    holds one), or a message; messages are put together by the session they name, or are one conversation
    where they name none. Any other file is one JSON value and is read whole.
    """
    try:
        if is_lines(path, read_json):
            yield from _lines_of(path)
            return
        with closing(open_bytes(path)) as stream:
            data = stream.read(JSON_BYTES_MAX + 1)
        if len(data) > JSON_BYTES_MAX:
            text = f"is one JSON value of more than {JSON_BYTES_MAX} bytes; write it as JSON lines"
            yield InputFlaw(WHOLE, "json-size", text)
            return
        try:
            value = read_json(data.removeprefix(BOM))
        except ValueError:
            # Lines of which the first is broken: the others can still be read, each by itself.
            if not mostly_lines(data, read_json):
                raise
            yield from _lines_of(path)
            return
        if is_object(value) and is_message(value):
            # JSON lines of which there is one.
            yield from _put({}, value, 1).values()
            return
        yield from conversations(value)
    except ValueError as error:
        yield InputFlaw(WHOLE, "json", f"cannot be read: {error}")
    except OSError:
        yield InputFlaw(WHOLE, "compressed", "cannot be unpacked: the compressed data is damaged or cut off")


def _lines_of(path: Path) -> Iterator[RecordedConversation | InputFlaw]:
    with closing(open_bytes(path)) as stream:
        yield from _by_lines(stream)


def _by_lines(stream: BinaryIO) -> Iterator[RecordedConversation | InputFlaw]:
    told: dict[str, RecordedConversation] = {}
    held = 0
    for found in lines(stream):
        if isinstance(found, InputFlaw):
            yield found
            continue
        number, line = found
        place = f"line {number}"
        try:
            value = read_json(line)
        except ValueError as error:
            yield InputFlaw(place, "json", f"cannot be read: {error}")
            continue
        if not (is_object(value) and is_message(value)):
            yield from conversations(value, place)
            continue
        held += len(line)
        if held > JSON_BYTES_MAX:
            text = (
                f"messages by lines go on for more than {JSON_BYTES_MAX} bytes; write a conversation a line"
            )
            yield InputFlaw(place, "json-size", text)
            break
        _put(told, value, number)
    yield from told.values()


def _put(
    told: dict[str, RecordedConversation], message: dict[str, object], number: int
) -> dict[str, RecordedConversation]:
    """Add a message that stands on a line of its own to the conversation that it names."""
    header = {key: message[key] for key in SESSION_KEYS if key != "id" and key in message}
    key = repr(next(iter(header.values()), None))
    if key not in told:
        told[key] = RecordedConversation([], header, f"session from line {number}")
    told[key].messages.append(message)
    return told
