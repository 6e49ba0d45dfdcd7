"""The status history of an archive: when a rule first applied to a session, was violated or unjudged; closes.

These are the statuses that the live pipeline sends, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from ...rules.engine import kernel
from ...rules.engine.judge import CompiledRules, Judged
from ...rules.engine.kernel import Findings
from ...rules.engine.kernel_loop import FOUND_UNSETTLED
from ...rules.engine.records import is_unknown
from ...rules.engine.sessions import numbers
from ...rules.engine.status import applied_at, first_breaches, unjudged_findings
from ...rules.labels.missing import MISSING
from ...rules.model.arrays import I32, I64
from ...schemas.event import Kind
from ...schemas.records.session_status import SessionStatus, StatusChange
from ...schemas.time import NS
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources
from .audit import judged_batches

SCHEMA = {
    "changed": pl.Int64,
    "status": pl.String,
    "session_id": pl.String,
    "occurrence": pl.Int64,
    "pack": pl.String,
    "rule": pl.String,
    "rule_digest": pl.String,
    "severity": pl.String,
    "agent": pl.String,
    "time": pl.Int64,
    "missing": pl.String,
    "is_certain": pl.Boolean,
}
"""Columns of the frame. Times are nanoseconds since the epoch; `changed` is when the status changed.

`missing` is the state of the content that an unjudged rule lacks, null if it is unjudged for another reason.
`is_certain` is false where it is unknown whether the rule applies to the session.
"""

_TURN = {status.value: turn for turn, status in enumerate(SessionStatus)}


def status_history(
    archive: Sources, compiled: CompiledRules, scratch: Path, options: AuditOptions, population: Population
) -> pl.DataFrame:
    """Return a row for each new status of an occurrence, sorted by `changed`, with the columns of `SCHEMA`.

    `scratch` is an empty folder of the caller. Raises SourceError if there is nothing to read.
    """
    parts = [
        part
        for judged in judged_batches(archive, compiled, scratch, options, population)
        for part in _statuses(compiled, judged, round(options.idle_s * NS))
    ]
    turn = pl.col("status").replace_strict(_TURN, return_dtype=pl.Int8)
    rows = pl.concat([pl.DataFrame(schema=SCHEMA), *parts])
    return rows.sort("changed", turn, "session_id", "occurrence", "pack", "rule")


def status_changes(rows: pl.DataFrame) -> Iterator[tuple[int, StatusChange]]:
    """Yield rows of `status_history` as changes, each with the time at which it happened."""
    for changed, status, *fields, is_certain in rows.select(*SCHEMA).iter_rows():
        yield changed, StatusChange(SessionStatus(status), *fields, is_certain=is_certain)


def _statuses(compiled: CompiledRules, judged: Judged, idle: int) -> Iterator[pl.DataFrame]:
    """Yield the statuses of a bucket's sessions."""
    rows = partial(_rows, compiled, judged)
    times, closes = _times(judged), _closes(judged, idle)
    columns, places = applied_at(compiled, judged)
    slots = np.searchsorted(judged.sessions.bounds, places, side="right") - 1
    certain = pl.Series("is_certain", kernel.applies(judged.memory)[slots, columns])
    yield rows(SessionStatus.APPLIED, columns, places, times[places]).with_columns(certain)
    violated, unmet = first_breaches(judged.found, judged.closed, judged.rated)
    yield rows(SessionStatus.VIOLATED, violated.columns, violated.stamps, times[violated.stamps])
    yield rows(SessionStatus.VIOLATED, unmet.columns, unmet.stamps, closes[unmet.slots])
    dead = unjudged_findings(judged.found)
    at = np.where(dead.kinds == FOUND_UNSETTLED, closes[dead.slots], times[dead.stamps])
    unjudged = rows(SessionStatus.UNJUDGED, dead.columns, dead.stamps, at)
    yield unjudged.with_columns(missing=_missing(judged, dead))
    over = np.flatnonzero(~judged.sessions.open)
    yield rows(SessionStatus.CLOSED, None, judged.sessions.bounds[over + 1] - 1, closes[over])


def _missing(judged: Judged, dead: Findings) -> pl.Series:
    """Return the state of the content that is missing at the findings of unjudged rules."""
    content, seqs = judged.column(MISSING, dead.stamps), judged.column("seq", dead.stamps)
    is_content = [is_unknown(kind, seq) for kind, seq in zip(dead.kinds.tolist(), seqs, strict=True)]
    states = content.struct.field("content")
    return states.zip_with(pl.Series(is_content, dtype=pl.Boolean), pl.Series([None], dtype=pl.String))


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


def _rows(
    compiled: CompiledRules,
    judged: Judged,
    status: SessionStatus,
    columns: I64 | I32 | None,
    places: I64,
    at: I64,
) -> pl.DataFrame:
    """Return rows of `SCHEMA`: rules by column (None for a close), the places of events, and times."""
    events = [judged.column(name, places) for name in ("session_id", "occurrence", "agent", "time")]
    rows = pl.DataFrame(events).with_columns(pl.col("occurrence", "time").to_physical(), changed=at)
    rows = rows.with_columns(
        pl.lit(status.value).alias("status"),
        pl.lit(None, pl.String).alias("missing"),
        pl.lit(True).alias("is_certain"),
    )
    rules = [None] * len(places) if columns is None else compiled.program.order[columns]
    numbered = pl.DataFrame({"number": pl.Series(rules, dtype=pl.Int64)})
    fields = numbered.join(_rule_fields(compiled), on="number", how="left", maintain_order="left")
    return pl.concat([rows, fields.drop("number")], how="horizontal").select(*SCHEMA)


def _rule_fields(compiled: CompiledRules) -> pl.DataFrame:
    """Return the fields of a row about its rule, by the rule's number."""
    rules = compiled.rules
    return pl.DataFrame(
        {
            "number": range(len(rules)),
            "pack": [rule.pack for rule in rules],
            "rule": [rule.id for rule in rules],
            "rule_digest": compiled.digests,
            "severity": [rule.severity.value for rule in rules],
        },
        schema_overrides={"number": pl.Int64},
    )


def statuses_of(compiled: CompiledRules, judged: Judged, idle: int) -> pl.DataFrame:
    """Return the statuses of a bucket's sessions, with the columns of `SCHEMA`, in no particular order."""
    return pl.concat([pl.DataFrame(schema=SCHEMA), *_statuses(compiled, judged, idle)])
