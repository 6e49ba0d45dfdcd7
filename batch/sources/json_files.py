"""Files of JSON values, however people write them: one value, one a line, or one behind another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from ...schemas.chat.find import InputFlaw
from .open import open_bytes

JSON_BYTES_MAX = 1 << 30
"""Bytes of a file that is one JSON value, and so is read whole; larger logs go as JSON lines."""
LINE_BYTES_MAX = 1 << 26
"""Bytes of one line of JSON lines."""
WHOLE = "whole file"
"""The position of a file's only value."""

BOM = b"\xef\xbb\xbf"

_LINES_TRIED = 20
_CLOSED = re.compile(rb"^[}\]][ \t\r]*$", re.MULTILINE)
"""The end of an indented value: its last bracket alone on a line, not indented."""


def json_values(path: Path, read: Callable[[bytes], object]) -> Iterator[tuple[str, object] | InputFlaw]:
    """The values of a file, each with its position (`line 3`, or `whole file`), and what cannot be read.

    `read` makes a value of one JSON text or raises ValueError. Lines are read one by one. Any other file is
    read whole: it is one value, or indented ones one behind another, as consoles print them.
    Raises ValueError where it is neither, and what `open_bytes` raises.
    """
    if not is_lines(path, read):
        with closing(open_bytes(path)) as stream:
            data = stream.read(JSON_BYTES_MAX + 1).removeprefix(BOM)
        if len(data) > JSON_BYTES_MAX:
            text = f"is one JSON value of more than {JSON_BYTES_MAX} bytes; write it as JSON lines"
            yield InputFlaw(WHOLE, "json-size", text)
            return
        try:
            yield WHOLE, read(data)
            return
        except ValueError:
            pieces = _pieces(data)
            if len(pieces) > 1:
                yield from _each(pieces, read)
                return
            if not mostly_lines(data, read):
                raise
    with closing(open_bytes(path)) as stream:
        yield from _lines(stream, read)


def first_piece(data: bytes) -> bytes:
    """The data up to the first closing bracket that stands alone on a line, or all of it."""
    match = _CLOSED.search(data)
    return data[: match.end()] if match else data


def is_lines(path: Path, read: Callable[[bytes], object]) -> bool:
    """Whether the first line that is not blank is a whole object or array, and another line follows it."""
    with closing(open_bytes(path)) as stream:
        rest = iter(lambda: stream.readline(LINE_BYTES_MAX), b"")
        first = next((line for line in rest if line.strip()), b"")
        return _is_whole(first.removeprefix(BOM), read) and any(line.strip() for line in rest)


def mostly_lines(data: bytes, read: Callable[[bytes], object]) -> bool:
    """Return whether half of the first lines are whole values: then the first one is only broken."""
    tried = [line for line in data.split(b"\n", _LINES_TRIED)[:_LINES_TRIED] if line.strip()]
    return 2 * sum(_is_whole(line, read) for line in tried) >= len(tried) > 1


def _is_whole(line: bytes, read: Callable[[bytes], object]) -> bool:
    try:
        return isinstance(read(line), (dict, list))
    except ValueError:
        return False


def _pieces(data: bytes) -> list[tuple[int, bytes]]:
    """The parts of the data up to each closing bracket that stands alone, with their lines."""
    pieces: list[tuple[int, bytes]] = []
    start, line = 0, 1
    for end in (*(match.end() for match in _CLOSED.finditer(data)), len(data)):
        piece = data[start:end]
        if piece.strip():
            blank = len(piece) - len(piece.lstrip())
            pieces.append((line + piece.count(b"\n", 0, blank), piece))
        line += piece.count(b"\n")
        start = end
    return pieces


def _each(
    pieces: list[tuple[int, bytes]], read: Callable[[bytes], object]
) -> Iterator[tuple[str, object] | InputFlaw]:
    for line, piece in pieces:
        yield _value(f"line {line}", piece, read)


def _lines(stream: BinaryIO, read: Callable[[bytes], object]) -> Iterator[tuple[str, object] | InputFlaw]:
    for found in lines(stream):
        yield found if isinstance(found, InputFlaw) else _value(f"line {found[0]}", found[1], read)


def lines(stream: BinaryIO) -> Iterator[tuple[int, bytes] | InputFlaw]:
    """The lines of a stream that are not blank, each with its number from 1; a flaw for one too long."""
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            yield InputFlaw(f"line {number}", "json-size", f"is a line of more than {LINE_BYTES_MAX} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES_MAX)
        elif line.strip():
            yield number, line.removeprefix(BOM) if number == 1 else line


def _value(place: str, text: bytes, read: Callable[[bytes], object]) -> tuple[str, object] | InputFlaw:
    try:
        return place, read(text)
    except ValueError as error:
        return InputFlaw(place, "json", f"cannot be read: {error}")
