"""Rows of event Parquet in judged order: of whole sessions that are no claims of spans."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson
import polars as pl

from ..event import Kind, event_content, event_id
from ..frames.events import EVENT_SCHEMA

PLACES = {"conversation_place": pl.Int64(), "message_place": pl.Int64()}
"""Columns that candidates may have beside those of events: the index in the conversation's input (outputs
after it, null last), and the index in the message."""

_CONTENT = ("kind", "text", "tool", "call_id", "args", "result")
_TIES = (
    *("error", "content", "agent", "model", "service", "trace_id", "span_id", "nested", "late", "history"),
    *("args", "text", "result", "tool", "call_id"),
)
"""Sort columns for rows with equal content, so that their order in the files decides nothing."""


@dataclass(frozen=True, slots=True)
class OrderedEvents:
    """Events in judged order (session, occurrence, seq).

    `repeats` counts rows with the event id of an earlier row, `stray_ends` the `end` rows of what had closed.
    """

    events: pl.DataFrame
    repeats: int
    stray_ends: int


def judged_order(candidates: pl.DataFrame, idle_s: float) -> OrderedEvents:
    """Order the candidates of whole sessions, split them into occurrences and number them.

    `candidates` has the columns of the event frame (and may have `PLACES`), all rows of each session it
    holds, in any order; `seq` and `occurrence` are not read. Rows sort by time, place in the conversation
    (none last), kind, place in the message, event id. Of rows with one event id the first stays. An
    occurrence ends at its `end` row, or where more than `idle_s` seconds pass before the next row. A row
    without an event id gets one; rows with equal content and no id all stay.
    """
    frame = candidates.with_columns(
        *(pl.lit(None, dtype).alias(name) for name, dtype in PLACES.items() if name not in candidates.columns)
    ).with_columns(_content_digests(candidates))
    ordered = frame.sort(
        "session_id",
        "time",
        pl.when(pl.col("kind") == Kind.END).then(None).otherwise(pl.col("conversation_place")),
        "kind",
        "message_place",
        pl.coalesce("event_id", "content_digest"),
        *_TIES,
        _attributes(),
        nulls_last=True,
    )
    repeat = pl.col("event_id").is_not_null() & ~pl.struct("session_id", "event_id").is_first_distinct()
    distinct = ordered.filter(~repeat)
    numbered = distinct.with_columns(_opens(idle_s).cum_sum().over("session_id").alias("nth"))
    group = ("session_id", "nth")
    is_event = pl.col("kind") != Kind.END
    events = (
        numbered.with_columns(pl.col("time").filter(is_event).first().over(group).alias("occurrence"))
        .filter(pl.col("occurrence").is_not_null())
        .with_columns(pl.int_range(1, pl.len() + 1).over(group).cast(pl.UInt32).alias("seq"))
    )
    return OrderedEvents(
        _with_ids(events).select(list(EVENT_SCHEMA)),
        repeats=ordered.height - distinct.height,
        stray_ends=distinct.height - events.height,
    )


def numbered_order(rows: pl.DataFrame) -> OrderedEvents:
    """Return rows of whole sessions that have `seq` in judged order, completed with what they lack.

    Where rows name no occurrence it begins with its first event, and an `end` row ends it: the next row
    begins the next one, with its own `seq`. An `end` row without `seq` is the last of the occurrence that it
    names, else of the last one that began before it. Rows with equal content, place and time are repeats.
    Rows without an event id get one.
    """
    named = _name_ends(rows)
    frame = named.with_columns(_content_digests(named))
    place = ("session_id", "occurrence", "seq", "kind")
    who = pl.coalesce("event_id", "content_digest")
    ordered = frame.sort(*place, "time", who, *_TIES, _attributes(), nulls_last=True)
    distinct = ordered.filter(pl.struct(*place, "time", who.alias("who")).is_first_distinct())
    key, is_end = ("session_id", "occurrence"), pl.col("kind") == Kind.END
    ends = is_end.cast(pl.UInt32).cum_sum().over(key) - is_end.cast(pl.UInt32)
    before = pl.when(is_end).then("seq").shift(1).forward_fill().over(key)
    unnamed = pl.col("occurrence").is_null()
    cut = distinct.with_columns(
        pl.when(unnamed).then(ends).otherwise(0).alias("nth"),
        pl.when(unnamed).then(pl.col("seq") - before.fill_null(0)).otherwise("seq").alias("seq"),
    )
    group = (*key, "nth")
    first = pl.col("time").filter(~is_end).first().over(group)
    last = pl.col("seq").max().over(group).fill_null(0)
    events = cut.with_columns(
        pl.coalesce("occurrence", first), pl.coalesce("seq", (last + 1).cast(pl.UInt32))
    ).filter(pl.col("occurrence").is_not_null())
    return OrderedEvents(
        _with_ids(events).select(list(EVENT_SCHEMA)),
        repeats=ordered.height - distinct.height,
        stray_ends=distinct.height - events.height,
    )


def _name_ends(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows; an `end` without a place names the last occurrence that began before it."""
    loose = (pl.col("kind") == Kind.END) & pl.col("seq").is_null() & pl.col("occurrence").is_null()
    ends = rows.filter(loose)
    begun = rows.filter(pl.col("occurrence").is_not_null()).select("session_id", "occurrence").unique()
    if ends.is_empty() or begun.is_empty():
        return rows
    named = (
        ends.drop("occurrence")
        .sort("time")
        .join_asof(
            begun.sort("occurrence"), left_on="time", right_on="occurrence", by="session_id", coalesce=False
        )
    )
    return pl.concat([rows.filter(~loose), named.select(rows.columns)])


def _attributes() -> pl.Expr:
    """Return the attributes as one text."""
    pair = pl.concat_str(pl.element().struct.field("key"), pl.element().struct.field("value"), separator="\0")
    return pl.col("attributes").map.entries().list.eval(pair).list.join("\0", ignore_nulls=True)


def _opens(idle_s: float) -> pl.Expr:
    """Return whether a row is the first of an occurrence, among the rows of its session in order."""
    before = pl.col("time").shift(1).over("session_id")
    # Times lie up to 584 years apart, which 64 bits hold without a sign only; the difference wraps to it.
    passed = (pl.col("time").to_physical() - before.to_physical()).reinterpret(signed=False)
    idle = passed > min(round(idle_s * 1e9), 2**64 - 1)
    ended = (pl.col("kind") == Kind.END).shift(1).over("session_id")
    return (before.is_null() | idle | ended).cast(pl.UInt32)


def _content_digests(frame: pl.DataFrame) -> pl.Series:
    """Return a digest of each row's content; null where every id is known."""
    if not frame["event_id"].has_nulls():
        return pl.repeat(None, frame.height, dtype=pl.String, eager=True).alias("content_digest")
    # Rows come a few at a time: as Python's texts they are many times as large.
    rows: Any = frame.select(_CONTENT).iter_rows(named=True)
    digests = [hashlib.blake2b(orjson.dumps(_content(row)), digest_size=16).hexdigest() for row in rows]
    return pl.Series("content_digest", digests, dtype=pl.String)


def _content(row: dict[str, Any]) -> list[str | None]:
    return event_content(str(row["kind"]), **{name: row[name] for name in _CONTENT if name != "kind"})


def _with_ids(events: pl.DataFrame) -> pl.DataFrame:
    if not events["event_id"].has_nulls():
        return events
    equals = ("session_id", "occurrence", "nth", "kind", "content_digest")
    rows: Any = events.select(
        "session_id",
        pl.col("occurrence").to_physical(),
        *_CONTENT,
        pl.int_range(pl.len()).over(equals).alias("ordinal"),
        "event_id",
    ).iter_rows(named=True)
    ids = [
        row["event_id"]
        or event_id(row["session_id"], row["occurrence"], row["kind"], _content(row), row["ordinal"])
        for row in rows
    ]
    return events.with_columns(pl.Series("event_id", ids, dtype=pl.String))
