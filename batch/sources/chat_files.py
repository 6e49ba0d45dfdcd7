"""Chat logs in files: conversations as JSON or JSON lines, plain or compressed."""

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
    """Yield the conversations of one chat log in the file's order, and its flaws.

    A file of JSON lines is read line by line. A line is a conversation (a list of messages, or an object with
    one) or a message; messages are grouped by the session that they name, and form one conversation if they
    name none. Any other file is one JSON value and is read whole.
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
            # JSON lines with a broken first line: the other lines can be read.
            if not mostly_lines(data, read_json):
                raise
            yield from _lines_of(path)
            return
        if is_object(value) and is_message(value):
            # A single JSON line.
            yield from _add({}, value, 1).values()
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
    by_session: dict[str, RecordedConversation] = {}
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
            text = f"messages on lines exceed {JSON_BYTES_MAX} bytes; write one conversation per line"
            yield InputFlaw(place, "json-size", text)
            break
        _add(by_session, value, number)
    yield from by_session.values()


def _add(
    by_session: dict[str, RecordedConversation], message: dict[str, object], number: int
) -> dict[str, RecordedConversation]:
    """Add the message of one line to the conversation that it names."""
    header = {key: message[key] for key in SESSION_KEYS if key != "id" and key in message}
    key = repr(next(iter(header.values()), None))
    if key not in by_session:
        by_session[key] = RecordedConversation([], header, f"session from line {number}")
    by_session[key].messages.append(message)
    return by_session
