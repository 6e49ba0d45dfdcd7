"""The columns that only verdicts need, read late: by row number, and only for sessions with findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ...rules.engine import kernel
from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged
from ...rules.engine.kernel import I64, Findings
from ...rules.engine.sessions import Order, Sessions
from ..prepare.buckets import until, with_missing
from ..prepare.spill import Pass
from ..sources.event_files import changed
from .in_order import ROW
from .row_order import RowOrder

ROWS_MAX = 200_000
"""Rows of sessions with findings whose columns are read together."""


def with_findings(compiled: CompiledRules, judged: Iterable[Judged]) -> Iterator[list[Judged]]:
    """Yield the sessions of buckets that have findings, in lists whose columns are read together."""
    waiting: list[Judged] = []
    for bucket in judged:
        part = _with_findings(compiled, bucket)
        if len(part.codes):
            waiting.append(part)
        if sum(len(part.codes) for part in waiting) >= ROWS_MAX:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


@dataclass(frozen=True, slots=True)
class LateColumns:
    """The columns of the sessions in order; `passes` and `found` are those of their rows."""

    passes: Sequence[Pass]
    found: RowOrder
    as_of: int | None

    def read(self, waiting: Sequence[Judged]) -> Iterator[Judged]:
        """Yield the sessions with all columns of judged events."""
        wanted = [part.labelled[ROW].to_numpy() for part in waiting]
        rows = np.sort(np.concatenate(wanted))
        columns = self._read(rows)
        for part, numbers in zip(waiting, wanted, strict=True):
            events = columns[np.searchsorted(rows, numbers)]
            yield replace(part, labelled=events.hstack(part.labelled.drop(ROW)))

    def _read(self, rows: I64) -> pl.DataFrame:
        """Return the columns of these rows, which ascend."""
        ends = np.cumsum(self.found.sizes)
        cuts = np.searchsorted(rows, ends)
        parts: list[pl.DataFrame] = []
        for number, (begin, end) in enumerate(zip([0, *cuts], cuts, strict=False)):
            if begin < end:
                size = self.found.sizes[number]
                parts.append(
                    self._read_pass(self.passes[number], rows[begin:end] - (ends[number] - size), size)
                )
        return pl.concat(parts)

    def _read_pass(self, one_pass: Pass, rows: I64, size: int) -> pl.DataFrame:
        """Return the columns of these rows of a pass, which has so many."""
        events = until(one_pass.frame, self.as_of)
        columns = with_missing(one_pass.parts, events, JUDGED_COLUMNS)
        if len(columns) != size:
            raise changed(one_pass.parts[0])
        return columns[rows]


def _with_findings(compiled: CompiledRules, judged: Judged) -> Judged:
    """Return the sessions of a bucket that have findings, with their row numbers and the values of slices."""
    bounds = judged.sessions.bounds
    slots = np.unique(np.concatenate([judged.found.slots, judged.closed.slots]))
    sizes = np.diff(bounds)[slots]
    within = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    shifts = bounds[slots] - within[:-1]
    places = np.arange(int(within[-1]), dtype=np.int64) + np.repeat(shifts, sizes)
    new_slots = np.full(len(bounds) - 1, -1, np.int32)
    new_slots[slots] = np.arange(len(slots))

    def moved(found: Findings) -> Findings:
        inside = new_slots[found.slots]
        return replace(found, stamps=found.stamps - shifts[inside], slots=inside)

    owners = new_slots[np.searchsorted(bounds, judged.slice_places, side="right") - 1]
    slice_places = np.where(owners < 0, 0, judged.slice_places - shifts[owners]) if len(slots) else owners
    names = [f"s{key}" for key in range(compiled.program.keys)]
    return replace(
        judged,
        labelled=judged.labelled.select(ROW, *names)[judged.order.rows[places]],
        order=Order(
            rows=np.arange(len(places)),
            sessions=judged.order.sessions[places],
            ended=judged.order.ended[places],
            duplicates=0,
            conflicts=np.empty(0, dtype=np.int64),
        ),
        sessions=Sessions(within, judged.sessions.counted[slots], judged.sessions.open[slots]),
        rated=judged.rated[places],
        codes=judged.codes[places],
        slices=judged.slices[places],
        slice_places=slice_places,
        memory=kernel.remember(compiled.program, 0, 0),
        found=moved(judged.found),
        closed=moved(judged.closed),
        satisfactions=judged.satisfactions[slots],
    )
