"""The event frame: one row per event, and its columns' types."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any

import polars as pl
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

from ..event import Content, Event, Kind

TIME = pl.Datetime("ns", "UTC")
KIND = pl.Enum([kind.value for kind in Kind])
"""Categories in sort order: `user` first, `end` last."""
CONTENT = pl.Enum([content.value for content in Content])

EVENT_SCHEMA: dict[str, pl.DataType] = {
    "session_id": pl.String(),
    "occurrence": TIME,
    "time": TIME,
    "seq": pl.UInt32(),
    "kind": KIND,
    "late": pl.Boolean(),
    "history": pl.Boolean(),
    "agent": pl.String(),
    "model": pl.String(),
    "service": pl.String(),
    "nested": pl.Boolean(),
    "text": pl.String(),
    "tool": pl.String(),
    "call_id": pl.String(),
    "args": pl.String(),
    "result": pl.String(),
    "error": pl.String(),
    "content": CONTENT,
    "trace_id": pl.String(),
    "span_id": pl.String(),
    "event_id": pl.String(),
    "attributes": pl.Map(pl.String, pl.String),
}
"""Column names and Polars types, in the order of the columns of event Parquet."""

REQUIRED = ("session_id", "time", "kind")
"""Columns that event Parquet cannot lack; every other one is null (or its default) where it is absent."""


def event_frame(events: Sequence[Event], names: Collection[str] = EVENT_SCHEMA.keys()) -> pl.DataFrame:
    """Return the events as rows of the event frame, in their order, with the columns of these names."""
    columns: dict[str, Any] = {name: None for name in EVENT_SCHEMA if name in names}
    for name in columns:
        is_map = name == "attributes"
        columns[name] = _map_column(events) if is_map else list(map(attrgetter(name), events))
    return pl.DataFrame(columns, schema={name: EVENT_SCHEMA[name] for name in columns})


def _map_column(events: Sequence[Event]) -> pl.Series:
    # Polars takes 40 us to turn one dict into a map; Arrow takes the flat lists at once.
    arrow: Any = pa
    offsets = [0, *accumulate(len(event.attributes) for event in events)]
    keys = [key for event in events for key in event.attributes]
    values = [value for event in events for value in event.attributes.values()]
    text = arrow.large_string()
    maps = arrow.MapArray.from_arrays(
        arrow.array(offsets, arrow.int32()), arrow.array(keys, text), arrow.array(values, text)
    )
    return pl.Series("attributes", maps)


def frame_events(frame: pl.DataFrame) -> Iterator[Event]:
    """Yield the rows of an event frame as events, in their order."""
    times = pl.col("occurrence", "time").to_physical()
    for row in frame.select(*EVENT_SCHEMA).with_columns(times).iter_rows(named=True):
        row["kind"], row["content"] = Kind(row["kind"]), Content(row["content"])
        row["attributes"] = dict(row["attributes"] or {})
        yield Event(**row)
