"""Files as byte streams, decompressed up to a limit."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

RATIO_MAX = 1_000
"""Maximum ratio of the decompressed size to the size of a file."""


def open_bytes(path: Path) -> BinaryIO:
    """Open a file as a stream, decompressed if its first bytes are those of gzip or zstd.

    Reading raises ValueError beyond `RATIO_MAX` times the file's size, and OSError for damaged data.
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
    return io.BufferedReader(_Decompressed(source, path.stat().st_size * RATIO_MAX), 1 << 20)


class _Decompressed(io.RawIOBase):
    """A decompressed stream with a size limit."""

    def __init__(self, source: Any, bytes_max: int) -> None:
        super().__init__()
        self._source = source
        self._left = bytes_max

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer. Raises ValueError if the stream exceeds its limit."""
        data: bytes = self._source.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"unpacks to more than {RATIO_MAX} times its size")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the stream and the compressed file."""
        self._source.close()
        super().close()
