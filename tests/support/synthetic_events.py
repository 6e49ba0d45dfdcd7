"""Millions of events for benchmarks, from repetitions of a few simulated conversations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.schemas.time import NS

TEMPLATES = 2_000
"""Simulated conversations; all others repeat one of them with other ids and times."""
SPAN_S = 30 * 86_400
"""Seconds over which the conversations start."""
CHUNK_EVENTS = 250_000

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class _Bank:
    """The simulated conversations: their rows, and the first row and number of rows of each."""

    rows: pl.DataFrame
    first: Integers
    length: Integers


def synthetic_events(n_events: int, seed: int, *, chunk_events: int = CHUNK_EVENTS) -> Iterator[pl.DataFrame]:
    """Yield at least `n_events` rows with the columns of `EVENT_SCHEMA`, in order of time, in chunks.

    Conversations overlap in time, are whole (the rows may exceed `n_events` by one conversation, and include
    `end` rows) and may continue in the next chunk. Session ids, order numbers, call ids, times and event ids
    are unique to a conversation; other content repeats after `TEMPLATES` conversations. Event ids are random
    instead of digests. The same seed gives the same rows for any chunk size, except for event ids. About two
    chunks are in memory at a time.
    """
    if n_events <= 0 or chunk_events <= 0:
        raise ValueError("the numbers of events and of events in a chunk must be above 0")
    rng = np.random.default_rng(seed)
    bank = _bank(seed)
    chosen = _choose(rng, bank, n_events)
    starts = np.sort(rng.integers(0, SPAN_S * NS, len(chosen)))
    orders = rng.integers(1_000_000, 10_000_000, len(chosen))
    ends = np.cumsum(bank.length[chosen])
    carried: pl.DataFrame | None = None
    done = 0
    while done < len(chosen):
        before = int(ends[done - 1]) if done else 0
        until = max(int(np.searchsorted(ends, before + chunk_events)), done + 1)
        part = slice(done, until)
        rows = _rows_of(bank, chosen[part], starts[part], orders[part], done)
        rows = rows if carried is None else pl.concat([carried, rows])
        rows = rows.sort("time", "session_id", "seq")
        if until < len(chosen):
            complete = pl.col("time").cast(pl.Int64) < int(starts[until]) + _epoch(bank)
            rows, carried = rows.filter(complete), rows.filter(~complete)
        done = until
        yield rows.with_columns(_event_ids(rng, rows.height))


@lru_cache(maxsize=1)
def _bank(seed: int) -> _Bank:
    rows = event_frame(conversations(Desk(sessions=TEMPLATES, seed=seed)))
    first = np.flatnonzero(rows["seq"].to_numpy() == 1).astype(np.int64)
    return _Bank(rows, first, np.diff(np.append(first, rows.height)))


def _choose(rng: np.random.Generator, bank: _Bank, n_events: int) -> Integers:
    """Choose the smallest number of conversations with enough rows, in order."""
    chosen = rng.integers(0, len(bank.first), n_events // int(bank.length.min()) + 1)
    enough = int(np.searchsorted(np.cumsum(bank.length[chosen]), n_events)) + 1
    return chosen[:enough]


def _epoch(bank: _Bank) -> int:
    """Return the time of the bank's first conversation, the origin of all times."""
    return int(bank.rows["occurrence"].to_physical().min())  # pyright: ignore[reportArgumentType]


def _rows_of(bank: _Bank, chosen: Integers, starts: Integers, orders: Integers, number: int) -> pl.DataFrame:
    """Return the rows of the chosen conversations, numbered from `number`, with new ids, times and orders."""

    length = bank.length[chosen]
    offset = np.repeat(bank.first[chosen] - (np.cumsum(length) - length), length)
    rows = bank.rows[offset + np.arange(len(offset))]
    columns = pl.DataFrame(
        {
            "start": np.repeat(starts + _epoch(bank), length),
            "number": np.repeat(np.arange(number, number + len(chosen)), length),
            "order": pl.Series(np.repeat(orders, length)).cast(pl.String),
        }
    )
    name = pl.col("number").cast(pl.String).str.zfill(9)
    start, order = pl.col("start").cast(pl.Datetime("ns", "UTC")), pl.format("#W{}", "order")
    return (
        rows.hstack(columns)
        .with_columns(
            pl.format("synthetic-{}", name).alias("session_id"),
            (pl.col("time") - pl.col("occurrence") + start).alias("time"),
            start.alias("occurrence"),
            pl.format("{}_{}", pl.col("call_id").str.head(13), name).alias("call_id"),
            *(pl.col(text).str.replace_all(r"#W\d{7}", order) for text in ("text", "args", "result")),
        )
        .select(bank.rows.columns)
    )


def _event_ids(rng: np.random.Generator, count: int) -> pl.Series:
    digits = np.frombuffer(rng.bytes(16 * count).hex().encode(), dtype="S32")
    return pl.Series("event_id", digits.astype("U32").tolist(), dtype=pl.String)
