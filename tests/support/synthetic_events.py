"""Event frames by the million, for benchmarks: a few simulated conversations told again and again."""

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
"""How many conversations are simulated; every other one repeats one of them with its own ids and times."""
SPAN_S = 30 * 86_400
"""Over how long the conversations begin, in seconds."""
CHUNK_EVENTS = 250_000

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class _Bank:
    """The simulated conversations: their rows, and where each one's rows begin and how many they are."""

    rows: pl.DataFrame
    first: Integers
    length: Integers


def synthetic_events(n_events: int, seed: int, *, chunk_events: int = CHUNK_EVENTS) -> Iterator[pl.DataFrame]:
    """At least `n_events` rows with the columns of `EVENT_SCHEMA`, in order of time, in chunks.

    Conversations overlap in time, are whole (so there may be up to one conversation's rows too many, `end`
    rows are counted) and may go on in the next chunk. Session ids, order numbers, call ids, times and event
    ids are each conversation's own; what else is said repeats after `TEMPLATES` conversations. Event ids are
    random here and no digests of their events. The same seed gives the same rows however they are cut into
    chunks (event ids aside). At any time about two chunks are in memory.
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
        rows = _tell(bank, chosen[part], starts[part], orders[part], done)
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
    """Which conversations are told, in order, so that their rows are enough and one fewer would not be."""
    chosen = rng.integers(0, len(bank.first), n_events // int(bank.length.min()) + 1)
    enough = int(np.searchsorted(np.cumsum(bank.length[chosen]), n_events)) + 1
    return chosen[:enough]


def _epoch(bank: _Bank) -> int:
    """The time of the bank's first conversation, from which all are counted anew."""
    return int(bank.rows["occurrence"].to_physical().min())  # pyright: ignore[reportArgumentType]


def _tell(bank: _Bank, chosen: Integers, starts: Integers, orders: Integers, number: int) -> pl.DataFrame:
    """The rows of those conversations, numbered from `number`, with their own ids, times and orders."""
    length = bank.length[chosen]
    offset = np.repeat(bank.first[chosen] - (np.cumsum(length) - length), length)
    rows = bank.rows[offset + np.arange(len(offset))]
    own = pl.DataFrame(
        {
            "start": np.repeat(starts + _epoch(bank), length),
            "number": np.repeat(np.arange(number, number + len(chosen)), length),
            "order": pl.Series(np.repeat(orders, length)).cast(pl.String),
        }
    )
    name = pl.col("number").cast(pl.String).str.zfill(9)
    start, order = pl.col("start").cast(pl.Datetime("ns", "UTC")), pl.format("#W{}", "order")
    return (
        rows.hstack(own)
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
