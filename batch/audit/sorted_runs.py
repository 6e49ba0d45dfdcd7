"""Verdicts put in order: as many as memory may hold at a time, the rest on disk in sorted runs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from ...rules.engine.records import Record, RecordKey, line, record_key

RUN_RECORDS = 50_000
RUN_BYTES = 1 << 26
"""Records, and bytes of their lines, that are sorted at a time."""
RUNS_OPEN_MAX = 200
"""Runs that are merged at a time, each an open file."""

PlacedLine = tuple[RecordKey, bytes]
"""A record's place in a bundle, and its line."""


class Runs:
    """Records added in any order, told in that of their places. `folder` is for the runs alone.

    Only places and lines are kept: a record is some forty objects, which Python would look through again
    and again for garbage.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[Path] = []
        self._held: list[PlacedLine] = []
        self._bytes = 0
        self._count = 0

    def add(self, record: Record) -> None:
        """Keep the line of a record."""
        # A copy: what orjson gives keeps ten times the memory that it needs.
        text = bytes(memoryview(line(record)))
        self._held.append((record_key(record), text))
        self._bytes += len(text)
        if len(self._held) >= RUN_RECORDS or self._bytes >= RUN_BYTES:
            self._files.append(self._written(sorted(self._held)))
            self._held, self._bytes = [], 0

    def merged(self) -> Iterator[PlacedLine]:
        """All that was added, in order."""
        while len(self._files) > RUNS_OPEN_MAX:
            some, self._files = self._files[:RUNS_OPEN_MAX], self._files[RUNS_OPEN_MAX:]
            self._files.append(self._written(heapq.merge(*map(_read, some))))
            for file in some:
                file.unlink()
        return heapq.merge(*map(_read, self._files), sorted(self._held))

    def _written(self, told: Iterable[PlacedLine]) -> Path:
        """A new run of these, which are in order: for each a line of its place and its own."""
        file = self._folder / f"run-{self._count:06d}"
        self._count += 1
        with file.open("wb") as run:
            for at, text in told:
                run.write(orjson.dumps([*at], option=orjson.OPT_APPEND_NEWLINE))
                run.write(text)
        return file


def _read(run: Path) -> Iterator[PlacedLine]:
    with run.open("rb") as file:
        for at in file:
            yield RecordKey(*orjson.loads(at)), file.readline()
