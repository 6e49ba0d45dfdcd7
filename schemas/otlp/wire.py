"""The fields of a message in protobuf's wire format, without knowing the message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; OTLP has no groups."""


class WireField(NamedTuple):
    """The offsets of a field: from its tag at `start` to `end`, with the content from `content` on."""

    number: int
    wire: int
    start: int
    content: int
    end: int

    @property
    def size(self) -> int:
        """Return the number of bytes of the content."""
        return self.end - self.content


def fields_of(data: bytes, start: int, end: int) -> Iterator[WireField]:
    """Yield the fields between two offsets; raise ValueError where the bytes are no fields."""
    at = start
    while at < end:
        begin = at
        tag, at = varint(data, at)
        wire, content = tag & 7, at
        if wire == VARINT:
            _, at = varint(data, at)
        elif wire == FIXED64:
            at += 8
        elif wire == BYTES:
            size, content = varint(data, at)
            at = content + size
        elif wire == FIXED32:
            at += 4
        else:
            raise ValueError("no wire type of OTLP")
        if at > end:
            raise ValueError("cut off")
        yield WireField(tag >> 3, wire, begin, content, at)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset and the offset of its end; raise ValueError where there is none."""
    size = len(data)
    if at < size and (value := data[at]) < 128:
        return value, at + 1
    value = shift = 0
    while at < size and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("no number")


def delimited(number: int, content: bytes) -> bytes:
    """Return a field of bytes with its tag and its length."""
    return header(number, len(content)) + content


def header(number: int, size: int) -> bytes:
    """Return the tag and the length of a field of so many bytes."""
    tag = number << 3 | BYTES
    if tag < 128 and size < 128:
        return bytes((tag, size))
    if tag < 128 and size < 1 << 14:
        return bytes((tag, size & 127 | 128, size >> 7))
    out = bytearray()
    for value in (tag, size):
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    return bytes(out)
