"""Chat logs from files: conversations in JSON, whole or by lines, plain or compressed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

from ..schemas.chat import SESSION_KEYS
from ..schemas.conversation import Conversation, Flaw, conversations, is_message, is_object
from ..schemas.jsontext import read_json

JSON_BYTES_MAX = 1 << 30
"""Bytes of a file that is one JSON value, and so is read whole; larger logs go as JSON lines."""
LINE_BYTES_MAX = 1 << 26
"""Bytes of one line of JSON lines."""
RATIO_MAX = 1_000
"""How many times its own size a compressed file may unpack to."""
_LINES_TRIED = 20
_FILE = "whole file"
_BOM = b"\xef\xbb\xbf"


def read_conversations(path: Path) -> Iterator[Conversation | Flaw]:
    """The conversations of one chat log in the file's order, one at a time, and what cannot be read of it.

    A file of JSON lines is read line by line: each is a conversation (a list of messages or an object that
    holds one), or a message; messages are put together by the session they name, or are one conversation
    where they name none. Any other file is one JSON value and is read whole.
    """
    try:
        if _first_line_is_whole(path):
            yield from _lines_of(path)
            return
        with closing(open_bytes(path)) as stream:
            data = stream.read(JSON_BYTES_MAX + 1)
        if len(data) > JSON_BYTES_MAX:
            text = f"is one JSON value of more than {JSON_BYTES_MAX} bytes; write it as JSON lines"
            yield Flaw(_FILE, "json-size", text)
            return
        try:
            value = read_json(data.removeprefix(_BOM))
        except ValueError:
            # Lines of which the first is broken: the others can still be read, each by itself.
            if not _mostly_whole(data):
                raise
            yield from _lines_of(path)
            return
        if is_object(value) and is_message(value):
            # JSON lines of which there is one.
            yield from _put({}, value, 1).values()
            return
        yield from conversations(value)
    except ValueError as error:
        yield Flaw(_FILE, "json", f"cannot be read: {error}")
    except OSError:
        yield Flaw(_FILE, "compressed", "cannot be unpacked: the compressed data is damaged or cut off")


def open_bytes(path: Path) -> BinaryIO:
    """The file's content as a stream, decompressed where it is gzip or zstd by its first bytes.

    Reading raises ValueError past `RATIO_MAX` times the file's size, OSError where the data is damaged.
    """
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"\x1f\x8b":
        compression = "gzip"
    elif start == b"\x28\xb5\x2f\xfd":
        compression = "zstd"
    else:
        return path.open("rb")
    source: Any = pa.input_stream(str(path), compression=compression)  # pyright: ignore
    return io.BufferedReader(_Unpacked(source, path.stat().st_size * RATIO_MAX), 1 << 20)


class _Unpacked(io.RawIOBase):
    """A decompressed stream that refuses to grow without bound."""

    def __init__(self, source: Any, bytes_max: int) -> None:
        super().__init__()
        self._source = source
        self._left = bytes_max

    def readable(self) -> bool:
        """It is made for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer; ValueError once more came out than is allowed."""
        data: bytes = self._source.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"unpacks to more than {RATIO_MAX} times its size")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the compressed file too."""
        self._source.close()
        super().close()


def _first_line_is_whole(path: Path) -> bool:
    """Whether the first line that is not blank is a JSON object or array, and another line follows it."""
    with closing(open_bytes(path)) as stream:
        lines = iter(lambda: stream.readline(LINE_BYTES_MAX), b"")
        first = next((line for line in lines if line.strip()), b"")
        return _is_whole(first.removeprefix(_BOM)) and any(line.strip() for line in lines)


def _mostly_whole(data: bytes) -> bool:
    lines = [line for line in data.split(b"\n", _LINES_TRIED)[:_LINES_TRIED] if line.strip()]
    return 2 * sum(map(_is_whole, lines)) >= len(lines) > 1


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(read_json(line), (dict, list))
    except ValueError:
        return False


def _lines_of(path: Path) -> Iterator[Conversation | Flaw]:
    with closing(open_bytes(path)) as stream:
        yield from _by_lines(stream)


def _by_lines(stream: BinaryIO) -> Iterator[Conversation | Flaw]:
    told: dict[str, Conversation] = {}
    held = 0
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        place = f"line {number}"
        if len(line) > LINE_BYTES_MAX:
            yield Flaw(place, "json-size", f"is a line of more than {LINE_BYTES_MAX} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES_MAX)
            continue
        if not line.strip():
            continue
        try:
            value = read_json(line.removeprefix(_BOM) if number == 1 else line)
        except ValueError as error:
            yield Flaw(place, "json", f"cannot be read: {error}")
            continue
        if not (is_object(value) and is_message(value)):
            yield from conversations(value, place)
            continue
        held += len(line)
        if held > JSON_BYTES_MAX:
            text = (
                f"messages by lines go on for more than {JSON_BYTES_MAX} bytes; write a conversation a line"
            )
            yield Flaw(place, "json-size", text)
            break
        _put(told, value, number)
    yield from told.values()


def _put(told: dict[str, Conversation], message: dict[str, object], number: int) -> dict[str, Conversation]:
    """Add a message that stands on a line of its own to the conversation that it names."""
    header = {key: message[key] for key in SESSION_KEYS if key != "id" and key in message}
    key = repr(next(iter(header.values()), None))
    if key not in told:
        told[key] = Conversation([], header, f"session from line {number}")
    told[key].messages.append(message)
    return told
