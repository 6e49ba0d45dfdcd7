"""What the monitor remembers as it stands in its table: a session's record, and a partition's.

A state that is too large for a record of Kafka's stands in pieces of its own, which the session's record
counts. They are written before it, under keys that say the offset as it does, so that a record is never
there without its pieces; pieces without a record, which a crash may leave, are forgotten by whoever goes on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import zstandard

from ..error import StreamError
from .session_state import SessionState, decode, encode

STATE_VERSION = 2
_HEAD = struct.Struct(">BqqBI")
"""Before a session's state: version, then `SessionHead`, the packing before its pieces."""
_PLAIN, _ZSTD = 0, 1
_NEVER = (1 << 63) - 1
PACKED_FROM_BYTES = 1_024
"""States from this size on are packed with zstd: the events of a session look alike."""
STATE_BYTES_MAX = 256 << 20
HINT = "finish the sessions with the release that wrote it, or begin with new topics"


class PartitionState(msgspec.Struct, frozen=True):
    """What is remembered of an events partition.

    `offset` is that of the last message that is done with, `watermarks` those of the sources by partition,
    of which there are `sources`; `watermark` the least of them once all are known. `active` is the key of
    the rule set in force, None before there is one. `unfinished` are the sessions of which a source's next
    message has more. `topic_id` is that of the topic of events, empty in state of an earlier release.
    """

    offset: int = -1
    sources: int = 0
    watermarks: dict[int, int] = {}
    watermark: int | None = None
    active: str | None = None
    unfinished: dict[int, str] = {}
    topic_id: str = ""


class SessionHead(NamedTuple):
    """What a session's record says of its state.

    `offset` is that of the message behind it, `due` when the session has something to do next, `pieces` how
    many there are, 0 where the state stands in the record.
    """

    offset: int
    due: int
    pieces: int


def encode_session(state: SessionState, offset: int, due: int, bytes_max: int) -> tuple[bytes, list[bytes]]:
    """A session's record once the message at that offset is done with, and the pieces of its state.

    There are none where the state has `bytes_max` at most.
    """
    data, packing = encode(state), _PLAIN
    if len(data) >= PACKED_FROM_BYTES:
        data, packing = zstandard.compress(data, 1), _ZSTD
    pieces: list[bytes] = []
    if len(data) > bytes_max:
        pieces = [data[begin : begin + bytes_max] for begin in range(0, len(data), bytes_max)]
        data = b""
    return _HEAD.pack(STATE_VERSION, offset, min(due, _NEVER), packing, len(pieces)) + data, pieces


def decode_session(data: bytes, pieces: Iterable[bytes | None] = ()) -> SessionState:
    """The state in a session's record, or in its pieces.

    Raises StreamError where it is another release's, or damaged.
    """
    decode_head(data)
    packing = _HEAD.unpack_from(data)[3]
    body = b"".join([data[_HEAD.size :], *(piece or b"" for piece in pieces)])
    if packing == _ZSTD:
        try:
            body = zstandard.decompress(body, STATE_BYTES_MAX)
        except zstandard.ZstdError:
            raise StreamError("TRL741", "a session's state is damaged", HINT) from None
    return decode(body)


def decode_head(data: bytes) -> SessionHead:
    """Return what a session's record says of its state. Raises StreamError where it is another release's."""
    if len(data) < _HEAD.size or data[0] != STATE_VERSION:
        what = f"a session's state has version {data[0] if data else 'none'}, not {STATE_VERSION}"
        raise StreamError("TRL741", what, HINT)
    _, offset, due, _, pieces = _HEAD.unpack_from(data)
    return SessionHead(offset, due, pieces)


def encode_partition(facts: PartitionState) -> bytes:
    """A partition's record."""
    return bytes([STATE_VERSION]) + msgspec.msgpack.encode(facts)


def decode_partition(data: bytes) -> PartitionState:
    """The facts in a partition's record. Raises StreamError where it is another release's, or damaged."""
    if data[:1] != bytes([STATE_VERSION]):
        what = f"a partition's state has version {data[0] if data else 'none'}, not {STATE_VERSION}"
        raise StreamError("TRL741", what, HINT)
    try:
        return msgspec.msgpack.decode(data[1:], type=PartitionState)
    except msgspec.MsgspecError:
        raise StreamError("TRL741", "a partition's state is damaged", HINT) from None
