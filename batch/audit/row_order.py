"""The order in which an archive's rows arrive, and the sessions that need no sort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...rules.engine.sessions import Clock, numbers
from ...rules.model.arrays import I32, I64, Mask
from ...schemas.event import Kind
from ...schemas.time import NS
from ..prepare.ahead import ahead
from ..prepare.buckets import OnRows, until
from ..prepare.options import AuditOptions
from ..prepare.spill import Pass
from ..report.draw_numbers import draw_numbers
from ..sources.event_files import reading
from . import row_order_loop

ROWS_HELD_MAX = 4_000_000
"""Rows of sessions that continue in a later pass. If there are more, all sessions are sorted."""
DISORDERED_MAX = 0.5
"""Share of the rows that are in disordered sessions. If it is larger, all sessions are sorted."""

_SEEDS = (1, 2)
"""Seeds of the two hashes of a session id."""
_SESSIONS = (np.uint64, np.uint64, np.int32, np.bool_)
"""Types by session: both hashes, the current occurrence, and whether the session is disordered."""
_OCCURRENCES = (np.int32, np.int64, np.uint32, np.int64, np.uint8, np.int32, np.int32, np.int64)
"""Types by occurrence: session, begin, last `seq`, last time, flags, first and last pass, number of rows."""
_ID_BYTES = np.dtype(np.int32).itemsize


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The occurrences of an archive, numbered in the order of their first rows.

    `sizes` are the rows of each pass. `file` has the occurrence of each row, for an `end` row its complement.
    `begins`, `last_pass`, `draws` and the masks have an entry per occurrence. `draws` are the upper halves of
    the numbers by which sessions are drawn. The occurrences of sessions with rows out of order are
    `disordered`; `disordered_rows` counts their rows. `rows_held` is an upper bound of the other rows whose
    occurrences continue in a later pass. The `clock` ends with the last row.
    """

    file: Path
    sizes: tuple[int, ...]
    begins: I64
    last_pass: I32
    counted: Mask
    open: Mask
    disordered: Mask
    draws: NDArray[np.uint32]
    disordered_rows: int
    rows_held: int
    clock: Clock

    @property
    def is_ordered(self) -> bool:
        """Return whether sessions are judged without a sort: most are in order, and few are held at once."""
        few = self.disordered_rows <= DISORDERED_MAX * sum(self.sizes)
        return few and self.rows_held <= ROWS_HELD_MAX

    def occurrences(self, number: int) -> I32:
        """Return the occurrence of each row of a pass, of an `end` row its complement."""
        begin = sum(self.sizes[:number]) * _ID_BYTES
        return np.fromfile(self.file, np.int32, self.sizes[number], offset=begin)

    def needs_sort(self, occurrences: I32) -> Mask:
        """Return which of the rows with these `occurrences` are in disordered sessions."""
        return self.disordered[np.where(occurrences < 0, ~occurrences, occurrences)]


def row_order(passes: Sequence[Pass], file: Path, options: AuditOptions, on_rows: OnRows) -> RowOrder:
    """Read the order of all rows, and write the occurrence of each to `file`.

    Raises SourceError with the name of a damaged file.
    """
    clock = Clock(0, round(options.idle_s * NS), since=options.since, until=options.until)
    numbering = _Numbering(options.seed)
    total = sum(one_pass.rows for one_pass in passes)
    sizes: list[int] = []
    lasts: list[int] = []
    read = 0
    with file.open("wb") as out:
        work = partial(_order_columns, as_of=options.as_of)
        for number, rows in enumerate(ahead(work, passes, options.threads)):
            times = numbers(rows["time"])
            found = numbering.add(_columns(rows, times, clock.inside(times)), rows["session_id"], number)
            found.tofile(out)
            sizes.append(len(rows))
            lasts += [int(times.max())] if len(times) else []
            read += passes[number].rows
            on_rows(read, total)
    last = max(lasts, default=0) if options.as_of is None else options.as_of
    return numbering.row_order(file, tuple(sizes), replace(clock, last=last))


def _order_columns(one_pass: Pass, as_of: int | None) -> pl.DataFrame:
    """Return the columns of a pass that decide its order."""
    hashes = [pl.col("session_id").hash(seed).alias(f"hash{seed}") for seed in _SEEDS]
    is_end = (pl.col("kind") == Kind.END.value).alias("is_end")
    columns = until(one_pass.frame, as_of).select("session_id", *hashes, "occurrence", "time", "seq", is_end)
    with reading(one_pass.parts):
        return columns.collect(engine="streaming")


def _columns(rows: pl.DataFrame, times: I64, inside: Mask) -> tuple[Any, ...]:
    """Return the columns as `row_order_loop.arrive` takes them."""
    hashes = [rows[f"hash{seed}"].to_numpy() for seed in _SEEDS]
    return (
        *hashes,
        numbers(rows["occurrence"]),
        times,
        rows["seq"].to_numpy(),
        rows["is_end"].to_numpy(),
        inside,
    )


class _Numbering:
    """The sessions and occurrences so far; their arrays grow by doubling."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._draws: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)]
        self._table = np.full(2, -1, np.int32)
        self._sessions: list[Any] = [np.empty(0, dtype) for dtype in _SESSIONS]
        self._occurrences: list[Any] = [np.empty(0, dtype) for dtype in _OCCURRENCES]
        self._counts = (0, 0)

    def add(self, columns: tuple[Any, ...], ids: pl.Series, number: int) -> I32:
        """Number the occurrences of the rows of a pass, and return those of the rows."""
        rows = len(columns[0])
        self._reserve(rows)
        found = np.empty(rows, np.int32)
        last = self._counts[1] - 1
        self._counts = row_order_loop.arrive(
            columns,
            number,
            self._table,
            tuple(self._sessions),
            tuple(self._occurrences),
            self._counts,
            found,
        )
        newest = np.maximum.accumulate(np.maximum(np.where(found < 0, ~found, found), last))
        firsts = np.flatnonzero(np.diff(newest, prepend=np.int32(last)))
        drawn = draw_numbers(ids[firsts], self._occurrences[1][last + 1 : self._counts[1]], self._seed)
        self._draws.append((drawn >> np.uint64(32)).astype(np.uint32))
        return found

    def _reserve(self, rows: int) -> None:
        """Make room for as many further sessions and occurrences."""
        sessions, occurrences = self._counts
        if occurrences + rows > len(self._occurrences[0]):
            _grow(self._occurrences, occurrences, rows)
        if sessions + rows > len(self._sessions[0]):
            _grow(self._sessions, sessions, rows)
        if 2 * (sessions + rows) > len(self._table):
            self._table = np.full(1 << (2 * (sessions + rows)).bit_length(), -1, np.int32)
            row_order_loop.fill_table(self._table, self._sessions[0][:sessions])

    def row_order(self, file: Path, sizes: tuple[int, ...], clock: Clock) -> RowOrder:
        """Return the result."""
        sessions, count = self._counts
        found = [array[:count] for array in self._occurrences]
        session_of, begins, _, last_of, flags, first_pass, last_pass, rows = found
        disordered = self._sessions[3][:sessions][session_of]
        held = ~disordered & (first_pass < last_pass)
        begun, done = (
            np.bincount(passes[held], rows[held], len(sizes) + 1) for passes in (first_pass, last_pass)
        )
        return RowOrder(
            file=file,
            sizes=sizes,
            begins=begins.copy(),
            last_pass=last_pass.copy(),
            counted=flags & row_order_loop.COUNTED != 0,
            open=(flags & row_order_loop.CLOSED == 0) & ~(last_of < clock.last - clock.idle),
            disordered=disordered,
            draws=np.concatenate(self._draws),
            disordered_rows=int(rows[disordered].sum()),
            rows_held=int(np.cumsum(begun - done).max(initial=0)),
            clock=clock,
        )


def _grow(arrays: list[Any], used: int, more: int) -> None:
    """Replace arrays with longer ones, one after the other, which begin with the used entries."""
    for number, array in enumerate(arrays):
        arrays[number] = np.empty(max(used + more, 2 * len(array)), array.dtype)
        arrays[number][:used] = array[:used]
