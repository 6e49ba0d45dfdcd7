"""Small Parquet files as one file in memory: to open a file takes Polars longer than to read few rows."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from ...rules.model.arrays import I64, U8
from .joined_loop import GROUPS, ODD, ROWS, SCHEMA_END, TAIL, copy_groups

FILES_MIN = 8
"""Files from which on joining them saves time."""
FILE_BYTES_MAX = 1 << 18
"""Average unpacked bytes of such files. Of larger ones, not all bytes need be read."""

_MAGIC = b"PAR1"


def are_small(sizes: Sequence[int]) -> bool:
    """Return whether files of these sizes are worth joining."""
    return len(sizes) >= FILES_MIN and sum(sizes) <= FILE_BYTES_MAX * len(sizes)


def joined(paths: Sequence[Path]) -> BytesIO | None:
    """Return the row groups of Parquet files, in their order, as a file in memory.

    None where a file cannot be read, is odd, or was written in another way than the first: its schema, writer
    and metadata must be the same bytes. The pages of the files are not looked at.
    """
    image = BytesIO()
    image.write(_MAGIC)
    facts, schema, tail = np.zeros(4, np.int64), b"", b""
    groups: list[bytes] = []
    rows = count = 0
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError:
            return None
        length = int.from_bytes(data[-8:-4], "little")
        begin = len(data) - 8 - length
        if data[:4] != _MAGIC or data[-4:] != _MAGIC or begin < len(_MAGIC):
            return None
        text = data[begin:-8]
        copied = _shifted(text, image.tell() - len(_MAGIC), facts)
        if copied is None:
            return None
        schema_end, tail_begin = int(facts[SCHEMA_END]), int(facts[TAIL])
        if not groups:
            schema, tail = text[:schema_end], text[tail_begin:]
        elif text[:schema_end] != schema or text[tail_begin:] != tail:
            return None
        image.write(memoryview(data)[len(_MAGIC) : begin])
        groups.append(copied)
        rows, count = rows + int(facts[ROWS]), count + int(facts[GROUPS])
    footer = b"".join([schema, b"\x16", _varint(rows << 1), b"\x19\xfc", _varint(count), *groups, tail])
    image.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)
    image.seek(0)
    return image


def _shifted(text: bytes, shift: int, facts: I64) -> bytes | None:
    """Return the row groups of a footer, further on by so many bytes; None where it is odd."""
    # An offset and its header have two bytes at least, and at most eleven after the shift.
    out: U8 = np.empty(6 * len(text), dtype=np.uint8)
    end = int(copy_groups(np.frombuffer(text, np.uint8), shift, facts, out, 0))
    return None if end == ODD else out[:end].tobytes()


def _varint(number: int) -> bytes:
    """Return a number that is not negative in Thrift's variable length."""
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
