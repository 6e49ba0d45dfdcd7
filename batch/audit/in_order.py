"""Judging of the sessions whose rows arrive in judged order: without a sort, and with few columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from ...rules.engine.judge import CompiledRules, Judged, judge_sessions
from ...rules.engine.sessions import Order, Sessions
from ...rules.labels.labeler import EventLabels
from ...rules.model.arrays import I32, Mask
from ...schemas.frames.events import TIME
from ..prepare.ahead import ahead
from ..prepare.buckets import OnRows, PassRows, in_few_chunks, until
from ..prepare.observer import EventObserver
from ..prepare.options import AuditOptions
from ..prepare.spill import Pass
from ..sources.event_files import changed, reading
from .row_order import RowOrder
from .row_order_loop import grouped

ROW = "row"
"""The column with the number of a row among all rows of the archive, in the order of the passes."""


EARLY_COLUMNS = ("seq", "history", "agent", "model", "kind", "tool")
"""The columns of events that are held from the first reading on: most rules need them, and they are small."""


@dataclass(frozen=True, slots=True)
class PassLabels:
    """The labels of the events of passes, the further columns that the events have, and their observer."""

    labels: EventLabels
    columns: Sequence[str] = ()
    observer: EventObserver | None = None


def judge_in_order(
    compiled: CompiledRules,
    passes: Sequence[Pass],
    found: RowOrder,
    options: AuditOptions,
    on_rows: OnRows,
    labels: PassLabels,
) -> Iterator[Judged]:
    """Judge the occurrences of sessions that are not disordered, each when its last row has come.

    The results have of the columns that judging reads only the occurrence, `EARLY_COLUMNS`, those of
    `labels`, and `ROW`. Its observer sees the events of all sessions. Raises SourceError with the name of a
    damaged file, and if a file changed since `found` was made.
    """
    held: list[pl.DataFrame] = []
    occurrences = np.empty(0, np.int32)
    local = np.full(len(found.begins), -1, np.int32)
    work = partial(_labelled, labels, passes, found, options)
    read, total = 0, sum(one_pass.rows for one_pass in passes)
    for number, (labelled, numbered) in enumerate(ahead(work, range(len(passes)), options.threads)):
        held.append(labelled)
        occurrences = np.concatenate([occurrences, numbered])
        awaited = occurrences >= 0
        done = awaited & (found.last_pass[occurrences] <= number)
        if done.any():
            rows = pl.concat(held)
            order, sessions = _sessions(occurrences, done, local, found)
            _check_order(rows, order, passes[number])
            begins = pl.Series("occurrence", found.begins[occurrences]).cast(TIME)
            events = rows.with_columns(begins)
            yield judge_sessions(compiled, events, order, sessions, found.clock, satisfied=options.satisfied)
            awaited &= ~done
            held, occurrences = [rows.filter(awaited)], occurrences[awaited]
        read += passes[number].rows
        on_rows(read, total)


def _labelled(
    labels: PassLabels, passes: Sequence[Pass], found: RowOrder, options: AuditOptions, number: int
) -> tuple[pl.DataFrame, I32]:
    """Return the labels of a pass's rows that need no sort, and their occurrences, of an `end` row -1."""
    one_pass, occurrences = passes[number], found.occurrences(number)
    rows = np.arange(found.sizes[number])
    times = ["time"] if found.clock.has_window else []
    keep = [*dict.fromkeys([*EARLY_COLUMNS, *labels.columns, *times])]
    fields = {*keep, *labels.labels.fields, *([] if options.as_of is None else ["time"])}
    fields.update(() if labels.observer is None else labels.observer.columns)
    with reading(one_pass.parts):
        read = until(one_pass.frame.select(*fields), options.as_of).collect(engine="streaming")
    events = in_few_chunks(read)
    if len(events) != len(occurrences):
        raise changed(one_pass.parts[0])
    if labels.observer is not None:
        labels.observer.add(events)
    if found.disordered_rows:
        taken = ~found.needs_sort(occurrences)
        events, rows, occurrences = events.filter(taken), rows[taken], occurrences[taken]
    # The few `end` rows stay: to filter the columns of events takes longer than to label these.
    labelled = labels.labels.label(events.lazy(), keep=keep).collect()
    numbers = pl.Series(ROW, rows + sum(found.sizes[:number]))
    return labelled.with_columns(numbers), np.maximum(occurrences, np.int32(-1))


def _sessions(occurrences: I32, done: Mask, local: I32, found: RowOrder) -> tuple[Order, Sessions]:
    """Return the order and the sessions of the rows that are `done`, which are whole occurrences."""
    rows = np.flatnonzero(done)
    places, bounds, slots = grouped(occurrences[rows], local)
    order = Order(
        rows=rows[places],
        sessions=np.repeat(slots, np.diff(bounds)).astype(np.int64),
        ended=np.zeros(len(rows), dtype=np.bool_),
        duplicates=0,
        conflicts=np.empty(0, dtype=np.int64),
    )
    return order, Sessions(bounds=bounds, counted=found.counted[slots], open=found.open[slots])


def disordered(passes: Sequence[Pass], found: RowOrder, as_of: int | None) -> Iterator[PassRows]:
    """Yield the rows of the disordered sessions."""
    for number, one_pass in enumerate(passes):
        rows = np.flatnonzero(found.needs_sort(found.occurrences(number)))
        if len(rows):
            wanted = pl.LazyFrame({ROW: pl.Series(rows, dtype=pl.get_index_type())})
            events = until(one_pass.frame, as_of).with_row_index(ROW)
            yield PassRows(one_pass.parts, len(rows), events.join(wanted, on=ROW, how="semi").drop(ROW))


def _check_order(labels: pl.DataFrame, order: Order, one_pass: Pass) -> None:
    """Raise SourceError if the events of an occurrence are not in the order that was found before."""
    seq = labels["seq"].to_numpy()[order.rows]
    if ((order.sessions[1:] == order.sessions[:-1]) & (seq[1:] <= seq[:-1])).any():
        raise changed(one_pass.parts[0])
