"""When sessions close, by the times of their rows: the open ones, and those that closed in a night."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from ...schemas.event import Kind
from ...schemas.frames.events import EVENT_SCHEMA
from ...schemas.time import NS_MIN
from ..prepare.buckets import until
from ..prepare.spill import passes
from ..sources.discover import SourceFile
from ..sources.event_files import reading

SESSION = ("session_id", "occurrence")


def closings(parts: Sequence[SourceFile], as_of: int) -> pl.DataFrame:
    """Return the sessions with an event up to a time, and the times that decide when each closes.

    `last` is that of its last event, `ended` that of its `end` row, and `followed` that of the first event of
    the occurrence after it; the latter two are null where there is none.
    """
    is_end = pl.col("kind") == Kind.END.value
    found: list[pl.DataFrame] = []
    for one_pass in passes(parts):
        rows = until(one_pass.frame.select(*SESSION, "kind", "time"), as_of)
        time = pl.col("time").to_physical()
        events, ends = time.filter(~is_end), time.filter(is_end)
        each = rows.group_by(SESSION).agg(
            events.min().alias("first"), events.max().alias("last"), ends.min().alias("ended")
        )
        with reading(one_pass.parts):
            found.append(each.collect(engine="streaming"))
    if not found:
        times = dict.fromkeys(("last", "ended", "followed"), pl.Int64())
        return pl.DataFrame(schema={name: EVENT_SCHEMA[name] for name in SESSION} | times)
    whole = (
        pl.concat(found)
        .group_by(SESSION)
        .agg(pl.col("first").min(), pl.col("last").max(), pl.col("ended").min())
    )
    events_only = whole.filter(pl.col("last").is_not_null()).sort(SESSION)
    followed = pl.col("first").shift(-1).over("session_id").alias("followed")
    return events_only.with_columns(followed).drop("first")


def is_closed(at: int, idle: int | None) -> pl.Expr:
    """Return whether a session of `closings` has closed at a time; without `idle` only rows close one."""
    rows = pl.min_horizontal("ended", "followed") <= at
    if idle is None:
        return rows.fill_null(False)
    return rows.fill_null(False) | (pl.col("last") < max(at - idle, NS_MIN))


def closed_between(found: pl.DataFrame, previous: int, as_of: int, idle: int | None) -> tuple[Any, Any]:
    """Return the sessions that closed after one time and not after another, and those that are open then."""
    closed = is_closed(as_of, idle)
    return found.filter(closed & ~is_closed(previous, idle)), found.filter(~closed)
