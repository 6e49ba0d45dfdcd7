"""The fields of a message in protobuf's wire format, without knowing the message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; groups are none that OTLP has."""


class WireField(NamedTuple):
    """Where in some bytes a field is: from its tag at `start` to `end`, its content from `content` on."""

    number: int
    wire: int
    start: int
    content: int
    end: int

    @property
    def size(self) -> int:
        """Return how many bytes the content has."""
        return self.end - self.content


def fields_of(data: bytes, start: int, end: int) -> Iterator[WireField]:
    """Yield the fields between two places; raises ValueError where the bytes are none."""
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
    """Return the number at a place and where it ends; raises ValueError where there is none."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("no number")
