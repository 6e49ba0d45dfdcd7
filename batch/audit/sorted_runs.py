"""Sorting of verdicts in bounded memory: sorted runs on disk, merged at the end."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from ...rules.engine.records import RecordKey, record_key
from ...schemas.records.verdict_record import VerdictRecord, encode_verdict

RUN_RECORDS = 50_000
RUN_BYTES = 1 << 26
"""Records, and bytes of their lines, that are sorted in memory."""
RUNS_OPEN_MAX = 200
"""Runs that are merged at once, each an open file."""

PlacedLine = tuple[RecordKey, bytes]
"""A record's place in a bundle, and its line."""


class Runs:
    """Records that are added in any order and read in that of their places; `folder` is for the runs alone.

    Only places and lines are stored: a record is about forty objects, which the garbage collector would scan
    repeatedly.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[Path] = []
        self._held: list[PlacedLine] = []
        self._bytes = 0
        self._count = 0

    def add(self, record: VerdictRecord) -> None:
        """Store the line of a record."""
        text = encode_verdict(record) + b"\n"
        self._held.append((record_key(record), text))
        self._bytes += len(text)
        if len(self._held) >= RUN_RECORDS or self._bytes >= RUN_BYTES:
            self._files.append(self._write(sorted(self._held)))
            self._held, self._bytes = [], 0

    def merged(self) -> Iterator[PlacedLine]:
        """Return all lines in order."""
        while len(self._files) > RUNS_OPEN_MAX:
            merged, self._files = self._files[:RUNS_OPEN_MAX], self._files[RUNS_OPEN_MAX:]
            self._files.append(self._write(heapq.merge(*map(_read, merged))))
            for file in merged:
                file.unlink()
        return heapq.merge(*map(_read, self._files), sorted(self._held))

    def _write(self, ordered: Iterable[PlacedLine]) -> Path:
        """Write a run of ordered lines: for each a line with its place, then the line."""
        file = self._folder / f"run-{self._count:06d}"
        self._count += 1
        with file.open("wb") as run:
            for at, text in ordered:
                run.write(orjson.dumps([*at], option=orjson.OPT_APPEND_NEWLINE))
                run.write(text)
        return file


def _read(run: Path) -> Iterator[PlacedLine]:
    with run.open("rb") as file:
        for at in file:
            yield RecordKey(*orjson.loads(at)), file.readline()
