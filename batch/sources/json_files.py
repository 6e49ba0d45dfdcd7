"""Files of JSON values: one value, one per line, or several indented ones in sequence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ...schemas.chat.find import InputFlaw
from .open import open_bytes

JSON_BYTES_MAX = 1 << 30
"""Maximum bytes of a file with one JSON value, which is read whole; larger logs must be JSON lines."""
LINE_BYTES_MAX = 1 << 26
"""Maximum bytes of a JSON line."""
WHOLE = "whole file"
"""The position of a file's only value."""

BOM = b"\xef\xbb\xbf"

_LINES_TRIED = 20
_CLOSED = re.compile(rb"^[}\]][ \t\r]*$", re.MULTILINE)
"""The end of an indented value: an unindented bracket alone on a line."""


JsonValue: TypeAlias = tuple[str, object, int]
"""The position of a value (`line 3`, or `whole file`), the value, and the bytes of its text."""


def json_values(path: Path, read: Callable[[bytes], object]) -> Iterator[JsonValue | InputFlaw]:
    """Yield the values of a file, and its flaws.

    `read` parses one JSON text or raises ValueError. Lines are read one by one. Any other file is read whole:
    it is one value, or indented values in sequence, as consoles print them. Raises ValueError if it is
    neither, and the errors of `open_bytes`.
    """
    if not _is_lines(path, read):
        with closing(open_bytes(path)) as stream:
            data = stream.read(JSON_BYTES_MAX + 1).removeprefix(BOM)
        if len(data) > JSON_BYTES_MAX:
            text = f"is one JSON value of more than {JSON_BYTES_MAX} bytes; write it as JSON lines"
            yield InputFlaw(WHOLE, "json-size", text)
            return
        try:
            yield WHOLE, read(data), len(data)
            return
        except ValueError:
            texts = _texts(data)
            if len(texts) > 1:
                yield from _values(texts, read)
                return
            if not _mostly_lines(data, read):
                raise
    with closing(open_bytes(path)) as stream:
        yield from _values(_lines(stream), read)


def first_text(data: bytes) -> bytes:
    """Return the data up to the first closing bracket alone on a line, or all of it."""
    match = _CLOSED.search(data)
    return data[: match.end()] if match else data


def _is_lines(path: Path, read: Callable[[bytes], object]) -> bool:
    """Return whether the first line that is not blank is an object or array, and another line follows."""
    with closing(open_bytes(path)) as stream:
        rest = iter(lambda: stream.readline(LINE_BYTES_MAX), b"")
        first = next((line for line in rest if line.strip()), b"")
        return _is_whole(first.removeprefix(BOM), read) and any(line.strip() for line in rest)


def _mostly_lines(data: bytes, read: Callable[[bytes], object]) -> bool:
    """Return whether half of the first lines are values: then only the first one is broken."""
    tried = [line for line in data.split(b"\n", _LINES_TRIED)[:_LINES_TRIED] if line.strip()]
    return 2 * sum(_is_whole(line, read) for line in tried) >= len(tried) > 1


def _is_whole(line: bytes, read: Callable[[bytes], object]) -> bool:
    try:
        return isinstance(read(line), (dict, list))
    except ValueError:
        return False


def _texts(data: bytes) -> list[tuple[int, bytes]]:
    """Return the JSON texts up to each closing bracket alone on a line, with their line numbers."""
    texts: list[tuple[int, bytes]] = []
    start, line = 0, 1
    for end in (*(match.end() for match in _CLOSED.finditer(data)), len(data)):
        text = data[start:end]
        if text.strip():
            blank = len(text) - len(text.lstrip())
            texts.append((line + text.count(b"\n", 0, blank), text))
        line += text.count(b"\n")
        start = end
    return texts


def _values(
    texts: Iterable[tuple[int, bytes] | InputFlaw], read: Callable[[bytes], object]
) -> Iterator[JsonValue | InputFlaw]:
    """Yield the value of each text, which has the number of its first line, or a flaw."""
    for found in texts:
        yield found if isinstance(found, InputFlaw) else _value(f"line {found[0]}", found[1], read)


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes] | InputFlaw]:
    """Yield the lines of a stream that are not blank, each with its number from 1, or a flaw if too long."""
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            yield InputFlaw(f"line {number}", "json-size", f"is a line of more than {LINE_BYTES_MAX} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES_MAX)
        elif line.strip():
            yield number, line.removeprefix(BOM) if number == 1 else line


def _value(place: str, text: bytes, read: Callable[[bytes], object]) -> JsonValue | InputFlaw:
    try:
        return place, read(text), len(text)
    except ValueError as error:
        return InputFlaw(place, "json", f"cannot be read: {error}")
