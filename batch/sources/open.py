"""Files as streams of bytes, unpacked where they are compressed, and never without bound."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

RATIO_MAX = 1_000
"""How many times its own size a compressed file may unpack to."""


def open_bytes(path: Path) -> BinaryIO:
    """The file's content as a stream, decompressed where it is gzip or zstd by its first bytes.

    Reading raises ValueError past `RATIO_MAX` times the file's size, OSError where the data is damaged.
    """
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"\x1f\x8b":
        compression = "gzip"
    elif start == b"\x28\xb5\x2f\xfd":
        compression = "zstd"
    else:
        return path.open("rb")
    source: Any = pa.input_stream(str(path), compression=compression)  # pyright: ignore
    return io.BufferedReader(_Unpacked(source, path.stat().st_size * RATIO_MAX), 1 << 20)


class _Unpacked(io.RawIOBase):
    """A decompressed stream that refuses to grow without bound."""

    def __init__(self, source: Any, bytes_max: int) -> None:
        super().__init__()
        self._source = source
        self._left = bytes_max

    def readable(self) -> bool:
        """It is made for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer; ValueError once more came out than is allowed."""
        data: bytes = self._source.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"unpacks to more than {RATIO_MAX} times its size")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the compressed file too."""
        self._source.close()
        super().close()
