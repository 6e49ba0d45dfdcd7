"""Requests one behind another in a stream of bytes, as the collector's file exporter writes them.

Each stands behind its length in 4 bytes, big-endian: requests in protobuf, or (with compression) zstd frames
of one request each, in protobuf or JSON.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import zstandard

from ..chat.find import InputFlaw
from .decoded import Unreadable

REQUEST_BYTES_MAX = 1 << 26
"""Bytes of one request of a file, packed and unpacked."""
REQUEST_RATIO_MAX = 1_000
"""How many times its own size a compressed request may unpack to."""

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WBITS = 16 + zlib.MAX_WBITS

_LENGTH_BYTES = 4
_SKIPPED_BYTES = 1 << 20
_WINDOW_BYTES_MAX = REQUEST_BYTES_MAX
_TAGS = (b"\x0a", b"\x0a\x12", b"\x0a\x12\x1a")
"""The tags with which a request begins, a ResourceSpans in it, and a Resource or ScopeSpans in that."""


class Layout(StrEnum):
    """How requests stand in a file that is no text."""

    FRAMES = "frames"
    """Each behind its length."""
    REQUEST = "request"
    """There is one, in protobuf."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What stood behind a length, and the byte at which that length begins."""

    offset: int
    data: bytes


def layout_of(start: bytes) -> Layout | None:
    """Return how requests stand in a file that begins with these bytes, or None where it is no such file."""
    size = int.from_bytes(start[:_LENGTH_BYTES], "big")
    inner = start[_LENGTH_BYTES:]
    if 0 < size <= REQUEST_BYTES_MAX and (inner.startswith(ZSTD_MAGIC) or _begins_request(inner, size)):
        return Layout.FRAMES
    return Layout.REQUEST if _begins_request(start, REQUEST_BYTES_MAX) else None


def frames(read: Callable[[int], bytes], bytes_max: int = REQUEST_BYTES_MAX) -> Iterator[Frame | InputFlaw]:
    """What stands behind the lengths that `read` gives, which returns fewer bytes than asked at the end only.

    Of a frame of more than `bytes_max` a flaw says where it is, and it is passed over. So it is with one that
    the stream ends in, as after a crash of its writer; nothing can follow that one.
    """
    offset = 0
    while head := read(_LENGTH_BYTES):
        size = int.from_bytes(head, "big")
        place = f"byte {offset}"
        if len(head) < _LENGTH_BYTES:
            yield InputFlaw(place, "otlp-cut", "ends inside the length of a request")
            return
        data = b"" if size > bytes_max else read(size)
        got = _skip(read, size) if size > bytes_max else len(data)
        if got < size:
            yield InputFlaw(place, "otlp-cut", f"ends inside a request: {got} of its {size} bytes are there")
            return
        if size > bytes_max:
            yield InputFlaw(place, "otlp-size", f"is a request of {size} bytes, more than {bytes_max}")
        else:
            yield Frame(offset, data)
        offset += _LENGTH_BYTES + size


def unpacked(data: bytes, bytes_max: int = REQUEST_BYTES_MAX) -> bytes:
    """Return a request out of gzip or zstd by its first bytes; other bytes as they are.

    Raises Unreadable where the compressed data is damaged or cut off, or where it unpacks to more than
    `bytes_max` or `REQUEST_RATIO_MAX` times its size; it stops there.
    """
    limit = min(bytes_max, REQUEST_RATIO_MAX * len(data))
    if data.startswith(ZSTD_MAGIC):
        return _from_zstd(data, limit)
    return inflated(data, limit, "gzip", _GZIP_WBITS) if data.startswith(GZIP_MAGIC) else data


def _skip(read: Callable[[int], bytes], size: int) -> int:
    """Pass over that many bytes; how many there were."""
    left = size
    while left and (data := read(min(left, _SKIPPED_BYTES))):
        left -= len(data)
    return size - left


def _from_zstd(data: bytes, limit: int) -> bytes:
    """Return the content of the one frame; where it says no size itself, room for all that is allowed is taken."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    try:
        size = zstandard.frame_content_size(data)
        if size > limit:
            raise Unreadable("otlp-size", f"unpacks to more than {limit} bytes")
        out = unpacker.decompress(data, max_output_size=limit, allow_extra_data=False)
    except zstandard.ZstdError:
        raise _fault_of_zstd(data, limit) from None
    if size < 0:
        # Of such a frame the library does not look at what follows it.
        again = unpacker.decompressobj()
        again.decompress(data)
        if again.unused_data:
            raise Unreadable("otlp-packed", "is zstd that something follows")
    return out


def _fault_of_zstd(data: bytes, limit: int) -> Unreadable:
    """Return whether a frame that does not unpack is too large, or else damaged."""
    try:
        unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
        if len(unpacker.stream_reader(data).read(limit + 1)) > limit:
            return Unreadable("otlp-size", f"unpacks to more than {limit} bytes")
    except zstandard.ZstdError:
        pass
    return Unreadable("otlp-packed", "is zstd that is damaged or cut off")


def inflated(data: bytes, limit: int, name: str, wbits: int) -> bytes:
    """Data in one of zlib's formats, unpacked: `wbits` is zlib's, `name` what errors call the format.

    Raises Unreadable for what is damaged, cut off, followed by something, or unpacks to more than `limit`.
    """
    part = zlib.decompressobj(wbits=wbits)
    try:
        out = part.decompress(data, limit + 1)
    except zlib.error:
        raise Unreadable("otlp-packed", f"is {name} that is damaged") from None
    if len(out) > limit:
        raise Unreadable("otlp-size", f"unpacks to more than {limit} bytes")
    if not part.eof or part.unused_data:
        raise Unreadable("otlp-packed", f"is {name} that is cut off, or that something follows")
    return out


def _begins_request(data: bytes, size: int) -> bool:
    """Return whether the bytes begin a TracesData of at most that size: three messages in one another."""
    at = 0
    for tags in _TAGS:
        if at >= len(data) or data[at] not in tags:
            return False
        start = at + 1
        inner, at = _length(data, start)
        size -= at - start + 1
        if inner > size:
            return False
        size = inner
    return True


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at that place and where it ends; zero bytes stand for what is not there."""
    value = shift = 0
    while shift < 35:
        byte = data[at] if at < len(data) else 0
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return value, at
