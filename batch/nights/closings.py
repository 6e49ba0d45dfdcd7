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
_TIMES = ("last", "ended", "followed", "resumed")
_IS_END = pl.col("kind") == Kind.END.value
_BEGAN = pl.col("occurrence").to_physical()


def closings(parts: Sequence[SourceFile], as_of: int, idle: int | None, unread_until: int) -> pl.DataFrame:
    """Return the sessions with an event up to a time, and the times that decide when each closes.

    `last` is that of its last event, `ended` that of its `end` row, and `followed` that of the first event of
    the occurrence after it. A session that was silent for longer than `idle` between two events closed then,
    whatever came later: `last` is the event before the silence, and `resumed` the one after it. A time is
    null where there is none. Occurrences that began up to `unread_until` may have rows in other files; each
    had an event when it began.
    """
    found: list[pl.DataFrame] = []
    for one_pass in passes(parts):
        rows = until(one_pass.frame.select(*SESSION, "kind", "time"), as_of)
        time = pl.col("time").to_physical()
        events, ends = time.filter(~_IS_END), time.filter(_IS_END)
        each = rows.group_by(SESSION).agg(
            events.min().alias("first"), events.max().alias("last"), ends.min().alias("ended")
        )
        with reading(one_pass.parts):
            found.append(each.collect(engine="streaming"))
    if not found:
        times = dict.fromkeys(_TIMES, pl.Int64())
        return pl.DataFrame(schema={name: EVENT_SCHEMA[name] for name in SESSION} | times)
    whole = (
        pl.concat(found)
        .group_by(SESSION)
        .agg(pl.col("first").min(), pl.col("last").max(), pl.col("ended").min())
    )
    events_only = whole.filter(pl.col("last").is_not_null()).sort(SESSION)
    followed = pl.col("first").shift(-1).over("session_id").alias("followed")
    all_times = events_only.with_columns(followed)
    if idle is None:
        return all_times.select(*SESSION, "last", "ended", "followed", resumed=pl.lit(None, pl.Int64()))
    silent = _silences(parts, as_of, idle, unread_until, all_times)
    last = pl.coalesce("silent_from", "last").alias("last")
    return all_times.join(silent, SESSION, "left").select(*SESSION, last, "ended", "followed", "resumed")


def _silences(
    parts: Sequence[SourceFile], as_of: int, idle: int, unread_until: int, found: pl.DataFrame
) -> pl.DataFrame:
    """Return the first silence of each session that has one: `silent_from` and `resumed`.

    A late event is older than the beginning of its occurrence, and counts as one at the beginning.
    """
    first = pl.min_horizontal("first", _BEGAN)
    long = found.filter(_is_longer(first, pl.col("last"), idle)).select(SESSION)
    schema = {name: EVENT_SCHEMA[name] for name in SESSION} | {"at": pl.Int64()}
    begun = long.filter(unread_until >= _BEGAN).with_columns(at=_BEGAN)
    times = [pl.DataFrame(schema=schema), begun]
    for one_pass in passes(parts) if len(long) else ():
        rows = until(one_pass.frame.select(*SESSION, "kind", "time"), as_of).filter(~_IS_END)
        at = pl.max_horizontal(pl.col("time").to_physical(), _BEGAN).alias("at")
        with reading(one_pass.parts):
            chosen = rows.join(long.lazy(), SESSION, "semi").select(*SESSION, at)
            times.append(chosen.collect(engine="streaming"))
    ordered = pl.concat(times).sort(*SESSION, "at")
    resumed = pl.col("at").shift(-1).over(SESSION).alias("resumed")
    silent = ordered.with_columns(resumed).filter(_is_longer(pl.col("at"), pl.col("resumed"), idle))
    return silent.group_by(SESSION).agg(silent_from=pl.col("at").min(), resumed=pl.col("resumed").min())


def _is_longer(first: pl.Expr, last: pl.Expr, idle: int) -> pl.Expr:
    """Return whether more than `idle` passes between two times, whose difference may exceed 64 bits."""
    return pl.max_horizontal(last, NS_MIN + idle) - idle > first


def before_silences(rows: pl.LazyFrame, found: pl.DataFrame) -> pl.LazyFrame:
    """Return the rows of some sessions in their order, up to the first silence of each, from `closings`."""
    sessions = found.lazy().select(*SESSION, "resumed")
    is_after = (pl.col("time").to_physical() >= pl.col("resumed")).fill_null(False)
    return rows.join(sessions, SESSION, maintain_order="left").filter(~is_after).drop("resumed")


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
