"""The status history of an archive: when a rule first applied to a session, was violated or unjudged; closes.

These are the statuses that the live pipeline sends, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from ...rules.engine import kernel, kernel_loop
from ...rules.engine.judge import Judged, Statute, join, take
from ...rules.engine.kernel import I32, I64
from ...rules.engine.sessions import numbers
from ...schemas.event import Kind
from ...schemas.time import NS
from ..prepare.options import AuditOptions
from ..sources.discover import Population
from .audit import judged_batches

SCHEMA = {
    "said": pl.Int64,
    "status": pl.String,
    "session_id": pl.String,
    "occurrence": pl.Int64,
    "pack": pl.String,
    "rule": pl.String,
    "rule_digest": pl.String,
    "severity": pl.String,
    "agent": pl.String,
    "time": pl.Int64,
}
"""Columns of the frame. Times are nanoseconds since the epoch; `said` is that of the event or the close."""

APPLIED, VIOLATED, UNJUDGED, CLOSED = "applied", "violated", "unjudged", "closed"
_TURN = {APPLIED: 0, VIOLATED: 1, UNJUDGED: 2, CLOSED: 3}


def status_history(
    archive: str | Path, statute: Statute, scratch: Path, options: AuditOptions, population: Population
) -> pl.DataFrame:
    """Return a row for each new status of an occurrence, sorted by `said`, with the columns of `SCHEMA`.

    `scratch` is an empty folder of the caller. Raises SourceError if there is nothing to read.
    """
    parts = [
        part
        for judged in judged_batches(archive, statute, scratch, options, population)
        for part in _statuses(statute, judged, round(options.idle_s * NS))
    ]
    turn = pl.col("status").replace_strict(_TURN, return_dtype=pl.Int8)
    rows = pl.concat([pl.DataFrame(schema=SCHEMA), *parts])
    return rows.sort("said", turn, "session_id", "occurrence", "pack", "rule")


def _statuses(statute: Statute, judged: Judged, idle: int) -> Iterator[pl.DataFrame]:
    """Yield the statuses of a bucket's sessions."""
    found, unmet, times, closes = judged.found, judged.closed, _times(judged), _closes(judged, idle)
    columns, places = _applied(statute, judged)
    yield _rows(statute, judged, APPLIED, columns, places, times[places])
    violated = take(found, (found.kinds == kernel_loop.FOUND_VIOLATED) & judged.rated[found.stamps])
    unmet = take(unmet, (unmet.kinds == kernel.CLOSING_UNMET) & judged.rated[unmet.stamps])
    both = join([violated, unmet])
    at = np.append(times[violated.stamps], closes[unmet.slots])
    first = _firsts(both.slots, both.columns, at)
    yield _rows(statute, judged, VIOLATED, both.columns[first], both.stamps[first], at[first])
    dead = (found.kinds == kernel_loop.FOUND_UNKNOWN) | (found.kinds == kernel_loop.FOUND_SLICES)
    dead = take(found, dead)
    yield _rows(statute, judged, UNJUDGED, dead.columns, dead.stamps, times[dead.stamps])
    over = np.flatnonzero(~judged.sessions.open)
    yield _rows(statute, judged, CLOSED, None, judged.sessions.bounds[over + 1] - 1, closes[over])


def _times(judged: Judged) -> I64:
    """Return the time of each event, or that of an earlier event of its session if that is later."""
    times = pl.DataFrame({"time": numbers(judged.column("time")), "slot": _slots(judged)})
    return times.select(pl.col("time").cum_max().over("slot"))["time"].to_numpy()


def _slots(judged: Judged) -> I64:
    lengths = np.diff(judged.sessions.bounds)
    return np.repeat(np.arange(len(lengths)), lengths)


def _closes(judged: Judged, idle: int) -> I64:
    """Return the time at which each session closes: that of its `end` row, or `idle` after its last event."""
    first = judged.sessions.bounds[:-1]
    keys = ["session_id", "occurrence"]
    sessions = pl.DataFrame([judged.column(name, first) for name in keys])
    ends = judged.labelled.filter(pl.col("kind") == Kind.END.value).group_by(keys).agg(pl.col("time").min())
    marked = sessions.join(ends, on=keys, how="left", maintain_order="left")["time"]
    last = np.maximum.reduceat(numbers(judged.column("time")), first) if len(first) else first
    idle_out = pl.Series(last) + idle
    return marked.to_physical().cast(pl.Int64).fill_null(idle_out).to_numpy()


def _firsts(slots: I32, columns: I32, times: I64) -> I64:
    """Return the index of the earliest time of each pair of slot and column."""
    order = np.lexsort((times, columns, slots))
    pairs = np.stack([slots, columns])[:, order]
    new = np.append(True, np.any(pairs[:, 1:] != pairs[:, :-1], axis=0))[: len(order)]
    return order[new]


def _rows(
    statute: Statute, judged: Judged, status: str, columns: I64 | I32 | None, places: I64, at: I64
) -> pl.DataFrame:
    """Return rows of `SCHEMA`: rules by column (None for a close), the places of events, and times."""
    events = [judged.column(name, places) for name in ("session_id", "occurrence", "agent", "time")]
    rows = pl.DataFrame(events).with_columns(pl.col("occurrence", "time").to_physical(), said=at)
    rows = rows.with_columns(pl.lit(status).alias("status"))
    rules = [None] * len(places) if columns is None else statute.program.order[columns]
    numbered = pl.DataFrame({"number": pl.Series(rules, dtype=pl.Int64)})
    fields = numbered.join(_rule_fields(statute), on="number", how="left", maintain_order="left")
    return pl.concat([rows, fields.drop("number")], how="horizontal").select(*SCHEMA)


def _rule_fields(statute: Statute) -> pl.DataFrame:
    """Return the fields of a row about its rule, by the rule's number."""
    rules = statute.rules
    return pl.DataFrame(
        {
            "number": range(len(rules)),
            "pack": [rule.pack for rule in rules],
            "rule": [rule.id for rule in rules],
            "rule_digest": statute.digests,
            "severity": [rule.severity.value for rule in rules],
        },
        schema_overrides={"number": pl.Int64},
    )


def _applied(statute: Statute, judged: Judged) -> tuple[I64, I64]:
    """Return the columns of rules that start to apply, and the places of the events.

    The kernel steps again over the first event of all sessions, then over the second, and so on.
    """
    program, bounds = statute.program, judged.sessions.bounds
    lengths = np.diff(bounds)
    longest = np.argsort(-lengths, kind="stable").astype(np.int32)
    steps = np.arange(int(lengths.max(initial=0)), dtype=np.int64)
    still: I64 = np.searchsorted(-lengths[longest], -steps)
    memory = kernel.remember(program, len(lengths), len(judged.slice_places))
    known = np.zeros(memory.state.shape, dtype=np.bool_)
    found: list[I64] = []
    for at, count in enumerate(still.tolist()):
        slots = longest[:count]
        places = bounds[slots] + at
        rows = kernel.Rows(judged.codes[places], slots, places, judged.slices[places])
        for _ in kernel.judge(program, judged.letters, rows, memory, found_max=1 << 10):
            pass
        new = kernel.applies(memory)[slots] & ~known[slots]
        which, columns = np.nonzero(new)
        known[slots[which], columns] = True
        found.append(np.stack([columns, places[which]]))
    if not found:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    columns, places = np.concatenate(found, axis=1)
    return columns, places
