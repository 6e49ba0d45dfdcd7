"""Dead letters: the messages of the topic of records that could not be read or judged."""

from __future__ import annotations

from typing import Annotated

import msgspec

VERSION = 1
"""Version of the JSON."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that could not be read or judged: its position, a code, the reason, and a digest.

    `time` is that of the record, in nanoseconds since the epoch, within 64 bits. The payload is not in it,
    but at that topic, partition and offset.
    """

    process: str
    topic: str
    partition: int
    offset: int
    time: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    place: str
    code: str
    reason: str
    sha256: str


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(DeadLetter)


def encode_dead_letter(dead_letter: DeadLetter) -> bytes:
    """Return a dead letter as JSON, with the version."""
    return _ENCODER.encode({"version": VERSION, **msgspec.structs.asdict(dead_letter)})


def decode_dead_letter(data: bytes) -> DeadLetter:
    """Return a dead letter of the topic. Raises ValueError or RecursionError where the record is none."""
    return _DECODER.decode(data)
