"""Rows to sessions: events in judged order, repeats left out, occurrences cut, open ones told from closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...schemas.event import Kind
from .kernel import I64

Mask = NDArray[np.bool_]

_END_BIT = np.uint64(31)
_SESSION_BIT = np.uint64(32)

SEGMENT = "segment"
"""The column that numbers the segments of sessions that several rule sets judged."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What time decides: all in nanoseconds since the epoch.

    A session without an end closes when `last` has passed its last event by more than `idle`. Verdicts
    outside `since <= time < until` are left out, and so are sessions with no event inside.
    """

    last: int
    idle: int
    since: int | None = None
    until: int | None = None

    def inside(self, times: I64) -> Mask:
        """Which of the times lie in the window."""
        inside = np.ones(len(times), dtype=np.bool_)
        if self.since is not None:
            inside &= times >= self.since
        if self.until is not None:
            inside &= times < self.until
        return inside


@dataclass(frozen=True, slots=True)
class Order:
    """Events in judged order, as `rows` of the frame they came in; `end` rows and repeats are not among them.

    `sessions` numbers their session ids, `ended` says whether an `end` row follows. `duplicates` counts rows
    that repeat an event, `conflicts` are those that have the place of another.
    """

    rows: I64
    sessions: I64
    ended: Mask
    duplicates: int
    conflicts: I64


@dataclass(frozen=True, slots=True)
class Sessions:
    """The occurrences of a bucket, by slot; `bounds[slot]` to `bounds[slot + 1]` are its events.

    `counted` are those with an event inside the window, `open` those that have not closed.
    """

    bounds: I64
    counted: Mask
    open: Mask


_NONE = Sessions(np.zeros(1, dtype=np.int64), np.empty(0, np.bool_), np.empty(0, np.bool_))


def in_order(labelled: pl.DataFrame) -> Order:
    """Put the rows of whole sessions into judged order: by session, occurrence, `end` rows last, seq.

    Of several rows for one place (an archive that holds a file twice) the one with the smallest event id
    stays: equal ids are repeats, others conflict.
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
    """A number for each of some texts, none of them null: 0 for the first and so on as new ones come."""
    column = cast("Any", values.to_arrow())
    return np.asarray(column.dictionary_encode().indices, dtype=np.int64)


def _by_one_key(codes: I64, occurrences: I64, ends: Mask, seq: NDArray[np.uint32]) -> I64 | None:
    """The order by session, end and seq, if that is the order wanted: no place twice, occurrences in turn."""
    if len(seq) and seq.max() >> _END_BIT:
        return None
    key = codes.astype(np.uint64) << _SESSION_BIT | ends.astype(np.uint64) << _END_BIT | seq
    order = np.argsort(key)
    key, codes, occurrences = key[order], codes[order], occurrences[order]
    back = (occurrences[1:] < occurrences[:-1]) & (codes[1:] == codes[:-1])
    return None if back.any() or (key[1:] == key[:-1]).any() else order


def _by_all_keys(codes: I64, occurrences: I64, ends: Mask, labelled: pl.DataFrame) -> tuple[I64, int, I64]:
    """The order in full, without repeats and conflicts; how many events repeat, and those that conflict."""
    told = labelled.select("seq", "event_id").with_columns(
        code=codes, occurrence=occurrences, end=ends, row=np.arange(len(codes))
    )
    by = ["code", "occurrence", "end", "seq"]
    told = told.sort([*by, "event_id"])
    again = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in by).fill_null(False)
    told = told.with_columns(again=again, equal=pl.col("event_id") == pl.col("event_id").shift())
    left_out = pl.col("again") & ~pl.col("end")
    conflicts = told.filter(left_out & ~pl.col("equal"))["row"].to_numpy()
    duplicates = told.select((left_out & pl.col("equal")).sum()).item()
    return told.filter(~pl.col("again"))["row"].to_numpy(), duplicates, conflicts


Cut = Callable[[Order, pl.DataFrame, Clock], Sessions]
"""What cuts events of a frame, in judged order, into runs, each of which is judged with its own history."""


def occurrences_of(order: Order, labelled: pl.DataFrame, clock: Clock) -> Sessions:
    """Cut events in judged order into occurrences, and say which are open and which count."""
    count = len(order.rows)
    if not count:
        return _NONE
    times, occurrences = (numbers(labelled[name])[order.rows] for name in ("time", "occurrence"))
    new_session = changes(order.sessions)
    starts = np.flatnonzero(new_session | changes(occurrences))
    bounds = np.append(starts, count)
    last = np.maximum.reduceat(times, starts)
    # The session's next occurrence, or the time, has passed its last event.
    followed = np.append(~new_session[starts[1:]], False)
    # Plain numbers on one side: times may lie further apart than 64 bits of nanoseconds reach.
    closed = order.ended[bounds[1:] - 1] | followed | (last < clock.last - clock.idle)
    counted = np.logical_or.reduceat(clock.inside(times), starts)
    return Sessions(bounds=bounds, counted=counted, open=~closed)


def in_segments(labelled: pl.DataFrame) -> pl.DataFrame:
    """The events that one of several rule sets judged in a live process, their `segment`s numbered.

    `labelled` has whole sessions but for the events that other sets judged: where `seq` leaves some out the
    set began anew, with empty history. An `end` row stays where it follows the segment's last event.
    """
    is_end = pl.col("kind") == Kind.END.value
    rows = labelled.sort("session_id", "occurrence", "seq", is_end)
    same = [pl.col(name) == pl.col(name).shift() for name in ("session_id", "occurrence")]
    near = pl.col("seq").cast(pl.Int64) - pl.col("seq").cast(pl.Int64).shift() <= 1
    begins = ~pl.all_horizontal(*same, near).fill_null(False)
    rows = rows.with_columns(begins.cum_sum().alias(SEGMENT))
    return rows.filter((~is_end).any().over(SEGMENT))


def segments_of(order: Order, labelled: pl.DataFrame, clock: Clock) -> Sessions:
    """Cut events in judged order into the segments of `in_segments`; only an `end` row closes one."""
    if not len(order.rows):
        return _NONE
    times, segments = numbers(labelled["time"])[order.rows], labelled[SEGMENT].to_numpy()[order.rows]
    starts = np.flatnonzero(changes(segments))
    bounds = np.append(starts, len(order.rows))
    counted = np.logical_or.reduceat(clock.inside(times), starts)
    return Sessions(bounds=bounds, counted=counted, open=~order.ended[bounds[1:] - 1])


def changes(values: I64) -> Mask:
    """Return where a value differs from the one before; true at the first."""
    return np.append(True, values[1:] != values[:-1])


def numbers(times: pl.Series) -> I64:
    """Times as nanoseconds since the epoch."""
    return times.cast(pl.Int64).to_numpy()
