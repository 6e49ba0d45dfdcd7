"""The records of the monitor's table, and their keys: one for each session, one for each partition.

The key of a session's record is `s/SESSION`, of a partition's `p/PARTITION`, of the texts of a rule set that
sessions of a partition are judged by `r/PARTITION/KEY`, and of a chunk `c/PARTITION/OFFSET/INDEX/SESSION`.
A state too large for a Kafka record is cut into chunks, which the session's record counts. The monitor writes
the chunks before the record, under keys with the same offset, so that a record always has its chunks. A crash
may leave chunks without a record, which the next monitor deletes.
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
"""The head before a session's state: version, offset, due, compression, number of chunks."""
_UNCOMPRESSED, _ZSTD = 0, 1
_NEVER = (1 << 63) - 1
PACKED_FROM_BYTES = 1_024
"""States of this size or more are compressed with zstd."""
STATE_BYTES_MAX = 256 << 20
FORGOTTEN = -(1 << 63)
"""The `due` of a session that the monitor forgets: its record is deleted next, and counts as none."""
HINT = "finish the sessions with the release that wrote it, or use new topics"


class PartitionState(msgspec.Struct, frozen=True):
    """The monitor's state of an events partition.

    `offset` is that of the last finished message. `watermarks` are those of the `sources` source partitions,
    and `watermark` the least of them once all are known. `active` is the key of the rule set in force, None
    before there is one. `unfinished` has, by source, the session of which its next message has more.
    `topic_id` is that of the events topic, empty in state of an earlier release.
    """

    offset: int = -1
    sources: int = 0
    watermarks: dict[int, int] = {}
    watermark: int | None = None
    active: str | None = None
    unfinished: dict[int, str] = {}
    topic_id: str = ""


class SessionHead(NamedTuple):
    """The head of a session's record.

    `offset` is that of the message that led to the state, `due` the watermark at which the session is due,
    and `chunks` their number, 0 where the state is in the record.
    """

    offset: int
    due: int
    chunks: int


class TableKey(NamedTuple):
    """A key of the table: its kind, and the rest of it, which for sessions is the id."""

    kind: str
    name: str

    @property
    def partition(self) -> int:
        """Return the partition that the key of a partition's record, of rules or of a chunk names."""
        return int(self.name.partition("/")[0])


SESSION, PARTITION, RULES, CHUNK = "s", "p", "r", "c"
"""The kinds of keys."""


def key_of(text: str) -> TableKey:
    """Return the parts of a key."""
    kind, _, name = text.partition("/")
    return TableKey(kind, name)


def session_key(session_id: str) -> str:
    """Return the key of a session's record."""
    return f"{SESSION}/{session_id}"


def partition_key(partition: int) -> str:
    """Return the key of a partition's record."""
    return f"{PARTITION}/{partition}"


def rules_key(partition: int, key: str) -> str:
    """Return the key of a rule set's texts."""
    return f"{RULES}/{partition}/{key}"


def chunk_keys(partition: int, session_id: str, head: SessionHead) -> list[str]:
    """Return the keys of the chunks that a session's record in that partition counts."""
    return [f"{CHUNK}/{partition}/{head.offset}/{index}/{session_id}" for index in range(head.chunks)]


def encode_session(state: SessionState, offset: int, due: int, bytes_max: int) -> tuple[bytes, list[bytes]]:
    """Return a session's record after the message at that offset, and the chunks of its state.

    `due` is FORGOTTEN where the monitor deletes the record next. A state of at most `bytes_max` bytes has no
    chunks.
    """
    data, packing = encode(state), _UNCOMPRESSED
    if len(data) >= PACKED_FROM_BYTES:
        data, packing = zstandard.compress(data, 1), _ZSTD
    chunks: list[bytes] = []
    if len(data) > bytes_max:
        chunks = [data[begin : begin + bytes_max] for begin in range(0, len(data), bytes_max)]
        data = b""
    return _HEAD.pack(STATE_VERSION, offset, min(due, _NEVER), packing, len(chunks)) + data, chunks


def decode_session(data: bytes, chunks: Iterable[bytes | None] = ()) -> SessionState:
    """Return the state in a session's record, or in its chunks.

    Raises StreamError where it is damaged or incompatible.
    """
    decode_head(data)
    packing = _HEAD.unpack_from(data)[3]
    body = b"".join([data[_HEAD.size :], *(chunk or b"" for chunk in chunks)])
    if packing == _ZSTD:
        try:
            body = zstandard.decompress(body, STATE_BYTES_MAX)
        except zstandard.ZstdError:
            raise StreamError("TRL741", "a session's state is damaged", HINT) from None
    return decode(body)


def decode_head(data: bytes) -> SessionHead:
    """Return the head of a session's record. Raises StreamError where another release wrote it."""
    if len(data) < _HEAD.size or data[0] != STATE_VERSION:
        problem = f"a session's state has version {data[0] if data else 'none'}, not {STATE_VERSION}"
        raise StreamError("TRL741", problem, HINT)
    _, offset, due, _, chunks = _HEAD.unpack_from(data)
    return SessionHead(offset, due, chunks)


def encode_partition(state: PartitionState) -> bytes:
    """Return a partition's record."""
    return bytes([STATE_VERSION]) + msgspec.msgpack.encode(state)


def decode_partition(data: bytes) -> PartitionState:
    """Return the state in a partition's record. Raises StreamError where it is damaged or incompatible."""
    if data[:1] != bytes([STATE_VERSION]):
        problem = f"a partition's state has version {data[0] if data else 'none'}, not {STATE_VERSION}"
        raise StreamError("TRL741", problem, HINT)
    try:
        return msgspec.msgpack.decode(data[1:], type=PartitionState)
    except msgspec.MsgspecError:
        raise StreamError("TRL741", "a partition's state is damaged", HINT) from None
