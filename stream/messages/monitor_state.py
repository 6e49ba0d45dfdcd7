"""The records of the monitor's table, and their keys: one for each session, one for each partition.

The key of a session's record is `s/SESSION`, of a partition's `p/PARTITION`, of the texts of a rule set that
sessions of a partition are judged by `r/PARTITION/KEY`, of a chunk `c/PARTITION/OFFSET/INDEX/SESSION`, of
a page `g/PARTITION/OFFSET/INDEX/SESSION`, of a partition's detectors of drift `d/PARTITION`, and of their
chunks `d/PARTITION/OFFSET/INDEX` (`drift_state.py`).
A state too large for a Kafka record is cut into chunks, which the session's record counts. The monitor writes
the chunks before the record, under keys with the same offset, so that a record always has its chunks. A crash
may leave chunks without a record, which the next monitor deletes. A page is written once, before the first
record that names it, and deleted after a record that no longer names it: most of a session's state does not
change with each message.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import zstandard

from ...schemas.paged.page import PagePlace
from ...schemas.time import NS_MAX
from ..error import StreamError
from .session_state import SessionState, decode, encode_with_places, store_pages

STATE_VERSION = 2
"""The version of a partition's record."""
SESSION_VERSION = 3
_HEAD = struct.Struct(">BqqBI")
"""The head before a session's state: version, offset, due, compression, number of chunks.

From version 3 on the number of pages follows, and their places.
"""
_PAGES = struct.Struct(">H")
_PAGE = struct.Struct(">qHI")
_UNCOMPRESSED, _ZSTD = 0, 1
PACKED_FROM_BYTES = 1_024
"""States of this size or more are compressed with zstd."""
STATE_BYTES_MAX = 256 << 20
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
"""Shared, since a new compressor takes four times as long as a record; one thread writes records."""
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
    and `chunks` their number, 0 where the state is in the record. `pages` are the places of the pages.
    """

    offset: int
    due: int
    chunks: int
    pages: tuple[PagePlace, ...] = ()


class TableKey(NamedTuple):
    """A key of the table: its kind, and the rest of it, which for sessions is the id."""

    kind: str
    name: str

    @property
    def partition(self) -> int:
        """Return the partition that the key of a partition's record, of rules or of a chunk names."""
        return int(self.name.partition("/")[0])


SESSION, PARTITION, RULES, CHUNK, PAGE, DRIFT = "s", "p", "r", "c", "g", "d"
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


def drift_key(partition: int) -> str:
    """Return the key of a partition's detectors of drift."""
    return f"{DRIFT}/{partition}"


def rules_key(partition: int, key: str) -> str:
    """Return the key of a rule set's texts."""
    return f"{RULES}/{partition}/{key}"


def chunk_keys(partition: int, session_id: str, head: SessionHead) -> list[str]:
    """Return the keys of the chunks that a session's record in that partition counts."""
    return [f"{CHUNK}/{partition}/{head.offset}/{index}/{session_id}" for index in range(head.chunks)]


def page_key(partition: int, session_id: str, place: PagePlace) -> str:
    """Return the key of a page."""
    return f"{PAGE}/{partition}/{place.offset}/{place.number}/{session_id}"


def keys_of_session(partition: int, session_id: str, head: SessionHead) -> list[str]:
    """Return the keys of the chunks and the pages that a session's record in that partition names."""
    pages = [page_key(partition, session_id, place) for place in head.pages]
    return [*chunk_keys(partition, session_id, head), *pages]


class SessionRecords(NamedTuple):
    """A session's record, the chunks of its state, its new pages with their places, and the record's head."""

    record: bytes
    chunks: list[bytes]
    pages: list[tuple[PagePlace, bytes]]
    head: SessionHead


def encode_session(state: SessionState, offset: int, due: int, bytes_max: int) -> SessionRecords:
    """Return a session's records after the message at that offset.

    `due` is FORGOTTEN where the monitor deletes the record next. A state of at most `bytes_max` bytes has no
    chunks. The state's pages of at most that size are stored by themselves from now on.
    """
    new = store_pages(state, offset, packed, bytes_max)
    stored, places = encode_with_places(state)
    data = packed(stored)
    packing = _UNCOMPRESSED if data is stored else _ZSTD
    chunks = chunks_of(data, bytes_max)
    if chunks:
        data = b""
    head = SessionHead(offset, min(due, NS_MAX), len(chunks), tuple(places))
    written = _HEAD.pack(SESSION_VERSION, offset, head.due, packing, head.chunks)
    written += b"".join([_PAGES.pack(len(places)), *(_PAGE.pack(*place) for place in places)])
    return SessionRecords(written + data, chunks, new, head)


def packed(data: bytes) -> bytes:
    """Return the bytes, compressed where they are many."""
    return data if len(data) < PACKED_FROM_BYTES else _COMPRESSOR.compress(data)


def chunks_of(data: bytes, bytes_max: int) -> list[bytes]:
    """Return the bytes in chunks of at most that size; none where they need no division."""
    if len(data) <= bytes_max:
        return []
    return [data[begin : begin + bytes_max] for begin in range(0, len(data), bytes_max)]


def decode_session(
    data: bytes, chunks: Iterable[bytes | None] = (), pages: Iterable[bytes | None] = ()
) -> SessionState:
    """Return the state in a session's record, or in its chunks; with the pages that the record names.

    Raises StreamError where it is damaged or incompatible.
    """
    head = decode_head(data)
    packing, begin = _HEAD.unpack_from(data)[3], _HEAD.size
    if data[0] == SESSION_VERSION:
        begin += _PAGES.size + len(head.pages) * _PAGE.size
    body = b"".join([data[begin:], *(chunk or b"" for chunk in chunks)])
    stored = [_page(place, page) for place, page in zip(head.pages, pages, strict=True)]
    return decode(unpacked(body) if packing == _ZSTD else body, stored)


def _page(place: PagePlace, data: bytes | None) -> tuple[PagePlace, bytes]:
    """Return place and bytes of a page. Raises StreamError (TRL741) where it is missing or damaged."""
    if data is None or zlib.crc32(data) != place.crc:
        raise StreamError("TRL741", "a session's state is damaged", HINT)
    return place, unpacked(data) if data.startswith(zstandard.FRAME_HEADER) else data


def unpacked(data: bytes) -> bytes:
    """Return what `packed` compressed. Raises StreamError (TRL741) where it is damaged."""
    try:
        return zstandard.decompress(data, STATE_BYTES_MAX)
    except zstandard.ZstdError:
        raise StreamError("TRL741", "a session's state is damaged", HINT) from None


def decode_head(data: bytes) -> SessionHead:
    """Return the head of a session's record. Raises StreamError where another release wrote it."""
    head = decode_fixed_head(data)
    if data[0] < SESSION_VERSION:
        return head
    (count,) = _PAGES.unpack_from(data, _HEAD.size)
    if not count:
        return head
    begin = _HEAD.size + _PAGES.size
    places = _PAGE.iter_unpack(data[begin : begin + count * _PAGE.size])
    return SessionHead(*head[:3], tuple([PagePlace(*place) for place in places]))


def decode_fixed_head(data: bytes) -> SessionHead:
    """Return the head of a session's record as if it had no pages. Raises as `decode_head`."""
    if len(data) < _HEAD.size or data[0] not in (2, SESSION_VERSION):
        problem = f"a session's state has version {data[0] if data else 'none'}, not {SESSION_VERSION}"
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
