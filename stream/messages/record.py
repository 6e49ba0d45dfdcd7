"""Records of the pipeline's topics, as a process reads and writes them."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from ...schemas.records.dead_letter import DeadLetter, encode_dead_letter
from .topics import Topic


class Input(NamedTuple):
    """A partition that is read."""

    topic: Topic
    partition: int


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record that was read: its partition and offset, its timestamp (ns since the epoch) and its value."""

    partition: int
    offset: int
    time: int
    value: bytes
    topic: Topic = Topic.SPANS

    @property
    def input(self) -> Input:
        """Return the partition that it was read from."""
        return Input(self.topic, self.partition)

    @property
    def origin(self) -> tuple[int, bytes]:
        """Return its offset and the SHA-256 of its value, for dead letters."""
        return self.offset, hashlib.sha256(self.value).digest()


class Output(msgspec.Struct, frozen=True, gc=False):
    """A record to be written; `partition` None where any will do, `value` None where the key is deleted."""

    topic: Topic
    partition: int | None
    key: str | None
    value: bytes | None


def dead_letter_output(dead_letter: DeadLetter) -> Output:
    """Return a dead letter as a record to be written."""
    return Output(Topic.DEAD_LETTER, None, None, encode_dead_letter(dead_letter))
