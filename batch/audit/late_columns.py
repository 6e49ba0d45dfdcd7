"""The columns that only the evidence needs, read late: by row number, and only for the sessions in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ...rules.engine import kernel
from ...rules.engine.judge import CompiledRules, Judged, columns_at, label_columns
from ...rules.engine.kernel import Findings
from ...rules.engine.sessions import Order, Sessions
from ...rules.model.arrays import I32, I64
from ..prepare.buckets import until, with_missing
from ..prepare.spill import Pass
from ..report.choice import SAMPLE_MAX, breach_weights, clean_slots
from ..sources.event_files import changed, reading
from .in_order import EARLY_COLUMNS, ROW
from .row_order import RowOrder

HELD = ("occurrence", *EARLY_COLUMNS)
"""The columns of judged events that need not be read again."""

ROWS_MAX = 100_000
"""Rows of sessions with findings whose columns are read together."""


def explained(
    compiled: CompiledRules, judged: Iterable[Judged], found: RowOrder, more: Sequence[str] = ()
) -> Iterator[list[Judged]]:
    """Yield the sessions of buckets that have findings or may be drawn, in lists to be read together.

    They have the labels, the columns `more` beside them, and those of `HELD`.
    """
    waiting: list[Judged] = []
    least = np.empty(0, np.uint32)
    for bucket in judged:
        clean = clean_slots(bucket, breach_weights(compiled, bucket))
        # The slots of sessions in order are their occurrences.
        drawn = found.draws[bucket.order.sessions[bucket.sessions.bounds[clean]]]
        least = np.sort(np.concatenate([least, drawn]))[:SAMPLE_MAX]
        sample = clean[drawn <= least.max(initial=0)]
        names = [*dict.fromkeys([*HELD, *label_columns(compiled), *more])]
        part = _only(compiled, bucket, [bucket.found.slots, bucket.closed.slots, sample], names)
        if len(part.codes):
            waiting.append(part)
        if sum(len(part.codes) for part in waiting) >= ROWS_MAX:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


@dataclass(frozen=True, slots=True)
class LateColumns:
    """The columns `names` of the sessions in order; `passes` and `found` are those of their rows.

    With `gaps`, they have the column of missing content, too.
    """

    names: Sequence[str]
    passes: Sequence[Pass]
    found: RowOrder
    as_of: int | None
    gaps: bool = True

    def read(self, waiting: Sequence[Judged]) -> Iterator[Judged]:
        """Yield the sessions with the columns."""
        wanted = [part.labelled[ROW].to_numpy() for part in waiting]
        rows = np.sort(np.concatenate(wanted))
        columns = self.at(rows)
        for part, numbers in zip(waiting, wanted, strict=True):
            events = columns[np.searchsorted(rows, numbers)]
            yield replace(part, labelled=events.hstack(part.labelled.drop(ROW)))

    def at(self, rows: I64) -> pl.DataFrame:
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
        if self.gaps:
            columns = with_missing(one_pass.parts, events, self.names)
        else:
            with reading(one_pass.parts):
                columns = events.select(self.names).collect(engine="streaming")
        if len(columns) != size:
            raise changed(one_pass.parts[0])
        return columns[rows]


def _only(
    compiled: CompiledRules, judged: Judged, chosen: Sequence[I64 | I32], names: Sequence[str]
) -> Judged:
    """Return the chosen sessions of a bucket, with their row numbers and these columns."""
    bounds = judged.sessions.bounds
    slots = np.unique(np.concatenate(chosen))
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
    slice_places = owners.astype(np.int64)
    if len(slots):
        slice_places = np.where(owners < 0, 0, judged.slice_places - shifts[owners])
    return replace(
        judged,
        labelled=columns_at(judged.labelled, [ROW, *names], judged.order.rows[places]),
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
