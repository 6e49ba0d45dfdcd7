"""Sequences of requests in a stream of bytes, as the collector's file exporter writes them.

Each request follows its length in 4 bytes, big-endian: requests in protobuf, or (with compression) zstd
frames of one request each, in protobuf or JSON.
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
"""The largest ratio of an unpacked request to the compressed one."""

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WBITS = 16 + zlib.MAX_WBITS

_LENGTH_BYTES = 4
_SKIPPED_BYTES = 1 << 20
_WINDOW_BYTES_MAX = REQUEST_BYTES_MAX
_TAGS = (b"\x0a", b"\x0a\x12", b"\x0a\x12\x1a")
"""The tags with which a request begins, a ResourceSpans in it, and a Resource or ScopeSpans in that."""


class Layout(StrEnum):
    """The layout of requests in a binary file."""

    FRAMES = "frames"
    """Each request follows its length."""
    REQUEST = "request"
    """The file is one request, in protobuf."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The bytes after a length, and the offset of that length."""

    offset: int
    data: bytes


def layout_of(start: bytes) -> Layout | None:
    """Return the layout of a file that begins with these bytes, or None where it holds no requests."""
    size = int.from_bytes(start[:_LENGTH_BYTES], "big")
    inner = start[_LENGTH_BYTES:]
    if 0 < size <= REQUEST_BYTES_MAX and (inner.startswith(ZSTD_MAGIC) or _begins_request(inner, size)):
        return Layout.FRAMES
    return Layout.REQUEST if _begins_request(start, REQUEST_BYTES_MAX) else None


def frames(read: Callable[[int], bytes], bytes_max: int = REQUEST_BYTES_MAX) -> Iterator[Frame | InputFlaw]:
    """Yield the frames of a stream; `read` returns fewer bytes than requested only at its end.

    A frame of more than `bytes_max` is skipped and yields a flaw. So does a frame that the stream ends in, as
    after a crash of its writer.
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

    Raises Unreadable where the compressed data is damaged or cut off, or as soon as it unpacks to more than
    `bytes_max` or `REQUEST_RATIO_MAX` times its size.
    """
    limit = min(bytes_max, REQUEST_RATIO_MAX * len(data))
    if data.startswith(ZSTD_MAGIC):
        return _from_zstd(data, limit)
    return inflated(data, limit, "gzip", _GZIP_WBITS) if data.startswith(GZIP_MAGIC) else data


def _skip(read: Callable[[int], bytes], size: int) -> int:
    """Skip up to `size` bytes; return how many there were."""
    left = size
    while left and (data := read(min(left, _SKIPPED_BYTES))):
        left -= len(data)
    return size - left


def _from_zstd(data: bytes, limit: int) -> bytes:
    """Return the content of a zstd frame; a frame without a size gets a buffer of `limit` bytes."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    try:
        size = zstandard.frame_content_size(data)
        if size > limit:
            raise Unreadable("otlp-size", f"unpacks to more than {limit} bytes")
        out = unpacker.decompress(data, max_output_size=limit, allow_extra_data=False)
    except zstandard.ZstdError:
        raise _fault_of_zstd(data, limit) from None
    if size < 0:
        # The library does not check for bytes after such a frame.
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
    """Return data unpacked from one of zlib's formats: `wbits` is zlib's, `name` is for errors.

    Raises Unreadable for data that is damaged, cut off, followed by other bytes, or unpacks beyond `limit`.
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
    """Return whether the bytes begin a TracesData of at most that size, by its three nested messages."""
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
    """Return the varint at an offset and the offset of its end; missing bytes count as zero."""
    value = shift = 0
    while shift < 35:
        byte = data[at] if at < len(data) else 0
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return value, at
