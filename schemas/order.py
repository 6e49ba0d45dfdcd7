"""Session assembly, stage (b): from told candidates of whole sessions to events in judged order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import polars as pl

from .event import Kind, event_content, event_id
from .frame import EVENT_SCHEMA

PLACES = {"conversation_place": pl.Int64(), "message_place": pl.Int64()}
"""Columns that candidates may have beside those of events: the index in the conversation's input (outputs
after it, null last), and the place in the message."""

_SAID = ("kind", "text", "tool", "call_id", "args", "result")
_TIES = (
    *("error", "content", "agent", "model", "service", "trace_id", "span_id", "nested", "late", "history"),
    *("args", "text", "result", "tool", "call_id"),
)
"""What tells rows apart that say the same: then their order in the files decides nothing."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Events in judged order (session, occurrence, seq), and how many rows told what was already told.

    `repeats` are rows with the event id of an earlier row, `stray_ends` are `end` rows of what had closed.
    """

    events: pl.DataFrame
    repeats: int
    stray_ends: int


def judged_order(candidates: pl.DataFrame, idle_s: float) -> Judged:
    """Order the candidates of whole sessions, split them into occurrences and number them.

    `candidates` has the columns of the event frame (and may have `PLACES`), all rows of each session it
    holds, in any order; `seq` and `occurrence` are not read. Rows sort by time, place in the conversation
    (none last), kind, place in the message, event id. Of rows with one event id the first stays. An
    occurrence ends at its `end` row, or where more than `idle_s` seconds pass before the next row. Where a
    row has no event id it gets one, and says-the-same rows tell nothing of being repeats: all stay.
    """
    frame = candidates.with_columns(
        *(
            pl.lit(None, dtype).alias(name)
            for name, dtype in PLACES.items()
            if name not in candidates.columns
        ),
    ).with_columns(_said(candidates))
    ordered = frame.sort(
        "session_id",
        "time",
        pl.when(pl.col("kind") == Kind.END).then(None).otherwise(pl.col("conversation_place")),
        "kind",
        "message_place",
        pl.coalesce("event_id", "said"),
        *_TIES,
        _attributes(),
        nulls_last=True,
    )
    repeat = pl.col("event_id").is_not_null() & ~pl.struct("session_id", "event_id").is_first_distinct()
    kept = ordered.filter(~repeat)
    numbered = kept.with_columns(_opens(idle_s).cum_sum().over("session_id").alias("nth"))
    group = ("session_id", "nth")
    is_event = pl.col("kind") != Kind.END
    events = (
        numbered.with_columns(pl.col("time").filter(is_event).first().over(group).alias("occurrence"))
        .filter(pl.col("occurrence").is_not_null())
        .with_columns(pl.int_range(1, pl.len() + 1).over(group).cast(pl.UInt32).alias("seq"))
    )
    return Judged(
        _with_ids(events).select(list(EVENT_SCHEMA)),
        repeats=ordered.height - kept.height,
        stray_ends=kept.height - events.height,
    )


def numbered_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that have `seq`, of whole sessions, in judged order with what they lack beside it.

    Where a session's rows name no occurrence it is one occurrence, which began with its first event. Rows
    without an event id get one.
    """
    ordered = rows.sort("session_id", "occurrence", "seq", *_TIES, _attributes(), nulls_last=True)
    first = pl.col("time").filter(pl.col("kind") != Kind.END).first().over("session_id")
    events = ordered.with_columns(pl.coalesce("occurrence", first, "time"), _said(ordered))
    return _with_ids(events.with_columns(pl.lit(0).alias("nth"))).select(list(EVENT_SCHEMA))


def _attributes() -> pl.Expr:
    """The attributes as one text."""
    pair = pl.concat_str(pl.element().struct.field("key"), pl.element().struct.field("value"), separator="\0")
    return pl.col("attributes").map.entries().list.eval(pair).list.join("\0", ignore_nulls=True)


def _opens(idle_s: float) -> pl.Expr:
    """Whether a row is the first of an occurrence, among the rows of its session in order."""
    before = pl.col("time").shift(1).over("session_id")
    idle = (pl.col("time") - before).dt.total_nanoseconds() > round(idle_s * 1e9)
    ended = (pl.col("kind") == Kind.END).shift(1).over("session_id")
    return (before.is_null() | idle | ended).cast(pl.UInt32)


def _said(frame: pl.DataFrame) -> pl.Series:
    """What each row says, as text that is equal where rows say the same; null where every id is known."""
    if not frame["event_id"].has_nulls():
        return pl.repeat(None, frame.height, dtype=pl.String, eager=True).alias("said")
    rows: Any = frame.select(_SAID).iter_rows(named=True)
    return pl.Series("said", [_text_of(row) for row in rows], dtype=pl.String)


def _text_of(row: dict[str, str | None]) -> str:
    said = {name: row[name] for name in _SAID if name != "kind"}
    return orjson.dumps(event_content(str(row["kind"]), **said)).decode()


def _with_ids(events: pl.DataFrame) -> pl.DataFrame:
    if not events["event_id"].has_nulls():
        return events
    equals = ("session_id", "occurrence", "nth", "kind", "said")
    rows = events.select(
        "session_id",
        pl.col("occurrence").to_physical(),
        "kind",
        "said",
        pl.int_range(pl.len()).over(equals).alias("ordinal"),
        "event_id",
    ).iter_rows()
    ids = [
        known or event_id(session, occurrence, kind, orjson.loads(said), ordinal)
        for session, occurrence, kind, said, ordinal, known in rows
    ]
    return events.with_columns(pl.Series("event_id", ids, dtype=pl.String))
