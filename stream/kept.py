"""What the monitor remembers as it stands in its table: a session's record, and a partition's."""

from __future__ import annotations

import struct

import msgspec
import zstandard

from .error import StreamError
from .state import SessionState, decode, encode

STATE_VERSION = 1
_HEAD = struct.Struct(">BqqB")
"""Before a session's state (`stream/state.py`): version, offset of the message behind it, due, packing."""
_PLAIN, _ZSTD = 0, 1
PACKED_FROM_BYTES = 1_024
"""States from this size on are packed with zstd: the events of a session look alike."""
STATE_BYTES_MAX = 256 << 20
HINT = "finish the sessions with the release that wrote it, or begin with new topics"


class Facts(msgspec.Struct, frozen=True):
    """What is remembered of an events partition.

    `offset` is that of the last message that is done with, `watermarks` those of the sources by partition,
    of which there are `sources`; `watermark` the least of them once all are known. `active` is the key of
    the rule set in force, None before there is one. `unfinished` are the sessions of which a source's next
    message has more.
    """

    offset: int = -1
    sources: int = 0
    watermarks: dict[int, int] = {}
    watermark: int | None = None
    active: str | None = None
    unfinished: dict[int, str] = {}


def written(state: SessionState, offset: int, due: int) -> bytes:
    """A session's record: its state once the message at that offset is done with, and when it is due."""
    data, packing = encode(state), _PLAIN
    if len(data) >= PACKED_FROM_BYTES:
        data, packing = zstandard.compress(data, 1), _ZSTD
    return _HEAD.pack(STATE_VERSION, offset, due, packing) + data


def read(data: bytes) -> SessionState:
    """The state in a session's record. Raises StreamError where it is another release's, or damaged."""
    read_head(data)
    body = data[_HEAD.size :]
    if data[_HEAD.size - 1] == _ZSTD:
        try:
            body = zstandard.decompress(body, STATE_BYTES_MAX)
        except zstandard.ZstdError:
            raise StreamError("TRL741", "a session's state is damaged", HINT) from None
    return decode(body)


def read_head(data: bytes) -> tuple[int, int]:
    """The offset that a session's record holds, and when it has something to do next."""
    if len(data) < _HEAD.size or data[0] != STATE_VERSION:
        what = f"a session's state has version {data[0] if data else 'none'}, not {STATE_VERSION}"
        raise StreamError("TRL741", what, HINT)
    _, offset, due, _ = _HEAD.unpack_from(data)
    return offset, due


def write_facts(facts: Facts) -> bytes:
    """A partition's record."""
    return bytes([STATE_VERSION]) + msgspec.msgpack.encode(facts)


def read_facts(data: bytes) -> Facts:
    """The facts in a partition's record. Raises StreamError where it is another release's, or damaged."""
    if data[:1] != bytes([STATE_VERSION]):
        what = f"a partition's state has version {data[0] if data else 'none'}, not {STATE_VERSION}"
        raise StreamError("TRL741", what, HINT)
    try:
        return msgspec.msgpack.decode(data[1:], type=Facts)
    except msgspec.MsgspecError:
        raise StreamError("TRL741", "a partition's state is damaged", HINT) from None
