"""The extent of an input file: its rows and their times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class FileExtent:
    """The number of rows, messages or spans of a file, and the first and last of their times, if any."""

    rows: int = 0
    first: int | None = None
    last: int | None = None

    def add(self, rows: int, times: Iterable[int | None]) -> None:
        """Add rows, and the times of some of them."""
        self.rows += rows
        known = [time for time in (self.first, self.last, *times) if time is not None]
        self.first, self.last = min(known, default=None), max(known, default=None)
