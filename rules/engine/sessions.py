"""Sessions: rows in judged order without repeats, cut into occurrences that are open or closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...schemas.event import Kind
from ..model.arrays import I64, Mask

_END_BIT = np.uint64(31)
_SESSION_BIT = np.uint64(32)

SEGMENT = "segment"
"""The column that numbers the segments of sessions that several rule sets judged in turn."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of judging and its window, in nanoseconds since the epoch.

    A session without an end closes when `last` is later than its last event by more than `idle`. Judging
    leaves out verdicts outside `since <= time < until`, and sessions with no event inside.
    """

    last: int
    idle: int
    since: int | None = None
    until: int | None = None

    @property
    def has_window(self) -> bool:
        """Return whether the window excludes any time."""
        return self.since is not None or self.until is not None

    def inside(self, times: I64) -> Mask:
        """Return which of the times are in the window."""
        inside = np.ones(len(times), dtype=np.bool_)
        if self.since is not None:
            inside &= times >= self.since
        if self.until is not None:
            inside &= times < self.until
        return inside


@dataclass(frozen=True, slots=True)
class Order:
    """Events in judged order, as row numbers of their frame, without `end` rows and repeats.

    `sessions` numbers their session ids, and `ended` is true where an `end` row follows. `duplicates` counts
    rows that repeat an event; `conflicts` are rows that claim the place of another event.
    """

    rows: I64
    sessions: I64
    ended: Mask
    duplicates: int
    conflicts: I64


@dataclass(frozen=True, slots=True)
class Sessions:
    """The occurrences of a bucket, by slot; the events of a slot are `bounds[slot]` to `bounds[slot + 1]`.

    `counted` is true for those with an event inside the window, `open` for those that have not closed.
    """

    bounds: I64
    counted: Mask
    open: Mask


_NONE = Sessions(np.zeros(1, dtype=np.int64), np.empty(0, np.bool_), np.empty(0, np.bool_))


def in_order(labelled: pl.DataFrame) -> Order:
    """Put the rows of whole sessions into judged order: by session, occurrence, `end` rows last, seq.

    An archive may hold a file twice. Of several rows for one place, the order has the one with the smallest
    event id: rows with an equal id are repeats, others are conflicts.
    """
    codes = value_codes(labelled["session_id"])
    occurrences, ends = numbers(labelled["occurrence"]), (labelled["kind"] == Kind.END.value).to_numpy()
    seq = labelled["seq"].to_numpy()
    found = _by_one_key(codes, occurrences, ends, seq)
    duplicates, conflicts = 0, np.empty(0, dtype=np.int64)
    if found is None:
        found, duplicates, conflicts = _by_all_keys(codes, occurrences, ends, labelled)
    follows = (codes[found[1:]] == codes[found[:-1]]) & (occurrences[found[1:]] == occurrences[found[:-1]])
    ended = np.append(follows & ends[found[1:]], False)[: len(found)]
    events = ~ends[found]
    rows = found[events]
    return Order(rows, codes[rows], ended[events], duplicates, conflicts)


def value_codes(values: pl.Series) -> I64:
    """Return a number for each text, from 0 in the order of first occurrence; no text is null."""
    column = cast("Any", values.to_arrow())
    return np.asarray(column.dictionary_encode().indices, dtype=np.int64)


def _by_one_key(codes: I64, occurrences: I64, ends: Mask, seq: NDArray[np.uint32]) -> I64 | None:
    """Return the order by session, end and seq, or None where that is not the judged order.

    It is the judged order where no place occurs twice and each session's occurrences follow one another.
    """
    if len(seq) and seq.max() >> _END_BIT:
        return None
    key = codes.astype(np.uint64) << _SESSION_BIT | ends.astype(np.uint64) << _END_BIT | seq
    order = np.argsort(key)
    key, codes, occurrences = key[order], codes[order], occurrences[order]
    back = (occurrences[1:] < occurrences[:-1]) & (codes[1:] == codes[:-1])
    return None if back.any() or (key[1:] == key[:-1]).any() else order


def _by_all_keys(codes: I64, occurrences: I64, ends: Mask, labelled: pl.DataFrame) -> tuple[I64, int, I64]:
    """Return the judged order without repeats and conflicts, the number of repeats, and the conflicts."""
    rows = labelled.select("seq", "event_id").with_columns(
        code=codes, occurrence=occurrences, end=ends, row=np.arange(len(codes))
    )
    by = ["code", "occurrence", "end", "seq"]
    rows = rows.sort([*by, "event_id"])
    again = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in by).fill_null(False)
    rows = rows.with_columns(again=again, equal=pl.col("event_id") == pl.col("event_id").shift())
    left_out = pl.col("again") & ~pl.col("end")
    conflicts = rows.filter(left_out & ~pl.col("equal"))["row"].to_numpy()
    duplicates = rows.select((left_out & pl.col("equal")).sum()).item()
    return rows.filter(~pl.col("again"))["row"].to_numpy(), duplicates, conflicts


CutSessions = Callable[[Order, pl.DataFrame, Clock], Sessions]
"""A function that cuts events of a frame, in judged order, into runs; each is judged with its own history."""


def occurrences_of(order: Order, labelled: pl.DataFrame, clock: Clock) -> Sessions:
    """Cut events in judged order into occurrences."""
    count = len(order.rows)
    if not count:
        return _NONE
    times, occurrences = (numbers(labelled[name])[order.rows] for name in ("time", "occurrence"))
    new_session = changes(order.sessions)
    starts = np.flatnonzero(new_session | changes(occurrences))
    bounds = np.append(starts, count)
    last = np.maximum.reduceat(times, starts)
    # An occurrence that another one of its session follows has closed.
    followed = np.append(~new_session[starts[1:]], False)
    # The subtraction is in Python integers: the difference of two times may exceed 64 bits of nanoseconds.
    closed = order.ended[bounds[1:] - 1] | followed | (last < clock.last - clock.idle)
    counted = np.logical_or.reduceat(clock.inside(times), starts)
    return Sessions(bounds=bounds, counted=counted, open=~closed)


def in_segments(labelled: pl.DataFrame) -> pl.DataFrame:
    """Return the events that one of several rule sets judged in a live process, with their `segment` numbers.

    `labelled` has whole sessions without the events that other rule sets judged. Where `seq` has a gap, the
    rule set restarted with an empty history. An `end` row belongs to the segment whose last event it follows.
    """
    is_end = pl.col("kind") == Kind.END.value
    rows = labelled.sort("session_id", "occurrence", "seq", is_end)
    same = [pl.col(name) == pl.col(name).shift() for name in ("session_id", "occurrence")]
    near = pl.col("seq").cast(pl.Int64) - pl.col("seq").cast(pl.Int64).shift() <= 1
    begins = ~pl.all_horizontal(*same, near).fill_null(False)
    rows = rows.with_columns(begins.cum_sum().alias(SEGMENT))
    return rows.filter((~is_end).any().over(SEGMENT))


def segments_of(order: Order, labelled: pl.DataFrame, clock: Clock) -> Sessions:
    """Cut events in judged order into the segments of `in_segments`; only an `end` row closes a segment."""
    if not len(order.rows):
        return _NONE
    times, segments = numbers(labelled["time"])[order.rows], labelled[SEGMENT].to_numpy()[order.rows]
    starts = np.flatnonzero(changes(segments))
    bounds = np.append(starts, len(order.rows))
    counted = np.logical_or.reduceat(clock.inside(times), starts)
    return Sessions(bounds=bounds, counted=counted, open=~order.ended[bounds[1:] - 1])


def changes(values: I64) -> Mask:
    """Return where a value differs from its predecessor; the first one does."""
    return np.append(True, values[1:] != values[:-1])


def numbers(times: pl.Series) -> I64:
    """Return times as nanoseconds since the epoch."""
    return times.cast(pl.Int64).to_numpy()
