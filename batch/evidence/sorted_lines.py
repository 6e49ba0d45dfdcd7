"""Sorting of texts of lines in bounded memory: sorted runs on disk, merged at the end."""

from __future__ import annotations

import heapq
import marshal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

RUN_LINES = 50_000
RUN_BYTES = 1 << 22
"""Lines, and their bytes, that are sorted in memory."""
BLOCK_LINES = 64
BLOCK_BYTES = 1 << 16
"""Lines of a run, and their bytes, that are read from it at once."""
RUNS_OPEN_MAX = 200
"""Runs that are merged at once, each an open file."""

_SIZE_BYTES = 8

SortKey = TypeVar("SortKey", bound=tuple[Any, ...])


class SortedLines(Generic[SortKey]):
    """Texts of lines that are added in any order and read in that of their keys; `folder` is for them alone.

    `key` makes a key of its members, which are texts, numbers, and lists and tuples of such. Only keys and
    lines are stored: a record is about forty objects, which the garbage collector would scan repeatedly.
    """

    def __init__(self, folder: Path, key: Callable[..., SortKey]) -> None:
        self._folder = folder
        self._key = key
        self._files: list[Path] = []
        self._held: list[tuple[SortKey, bytes]] = []
        self._bytes = 0
        self._count = 0

    def add(self, key: SortKey, text: bytes) -> None:
        """Store a line, or several that stay together."""
        self._held.append((key, text))
        self._bytes += len(text)
        if len(self._held) >= RUN_LINES or self._bytes >= RUN_BYTES:
            self._files.append(self._write(sorted(self._held)))
            self._held, self._bytes = [], 0

    def merged(self) -> Iterator[tuple[SortKey, bytes]]:
        """Return all keys and texts in order."""
        while len(self._files) > RUNS_OPEN_MAX:
            merged, self._files = self._files[:RUNS_OPEN_MAX], self._files[RUNS_OPEN_MAX:]
            self._files.append(self._write(heapq.merge(*map(self._read, merged))))
            for file in merged:
                file.unlink()
        return heapq.merge(*map(self._read, self._files), sorted(self._held))

    def _write(self, ordered: Iterable[tuple[SortKey, bytes]]) -> Path:
        """Write a run of ordered texts, in blocks with their sizes."""
        self._folder.mkdir(exist_ok=True)
        file = self._folder / f"run-{self._count:06d}"
        self._count += 1
        with file.open("wb") as run:
            for block in _blocks(ordered):
                text = marshal.dumps(block)
                run.write(len(text).to_bytes(_SIZE_BYTES, "little"))
                run.write(text)
        return file

    def _read(self, run: Path) -> Iterator[tuple[SortKey, bytes]]:
        with run.open("rb") as file:
            while size := file.read(_SIZE_BYTES):
                for key, text in marshal.loads(file.read(int.from_bytes(size, "little"))):
                    yield self._key(*key), text


def _blocks(
    ordered: Iterable[tuple[tuple[Any, ...], bytes]],
) -> Iterator[list[tuple[tuple[Any, ...], bytes]]]:
    """Yield keys and texts in lists of bounded size."""
    block: list[tuple[tuple[Any, ...], bytes]] = []
    size = 0
    for key, text in ordered:
        # `marshal` writes no subclass of a tuple.
        block.append((tuple(key), text))
        size += len(text)
        if len(block) == BLOCK_LINES or size >= BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block
