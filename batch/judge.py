"""Judging one bucket of labelled events: rows to sessions in judged order, and the kernel over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..rules import kernel
from ..rules.compiler.compile import compile_rule
from ..rules.digest import rule_digest
from ..rules.kernel import I32, I64, U8, Found, Memory, Program
from ..rules.label import Labeler
from ..rules.machine import Machine
from ..rules.rule import Rule, RuleSet
from ..rules.words import Words, letters
from ..schemas.event import Kind

Mask = NDArray[np.bool_]

JUDGED_COLUMNS = (
    "session_id",
    "occurrence",
    "time",
    "seq",
    "kind",
    "late",
    "history",
    "agent",
    "event_id",
)
"""Columns of the event frame that judging reads beside the labels."""


@dataclass(frozen=True, slots=True)
class Statute:
    """A rule set ready to judge by: machines, digests and the program, in the order of the rules.

    `propositions` gives each (pack, name) its bit in the labels' words.
    Columns of the program are places in `program.order`; everything else counts rules as the set does.
    """

    rules: tuple[Rule, ...]
    machines: tuple[Machine, ...]
    digests: tuple[str, ...]
    program: Program
    labeler: Labeler
    propositions: Mapping[tuple[str, str], int]


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
class Sessions:
    """The occurrences of a bucket, by slot; `bounds[slot]` to `bounds[slot + 1]` are its rows.

    `counted` are those with an event inside the window, `open` those that have not closed.
    """

    bounds: I64
    counted: Mask
    open: Mask


@dataclass(frozen=True, slots=True)
class Judged:
    """A bucket's events in judged order, where every session stands, and what was found in the window.

    `found` holds violations and unjudged sessions (and satisfactions on request), `closed` closing verdicts;
    stamps are places in `rows`. `slices` are as in `kernel.Rows`, and `slice_rows` holds a row of each slice
    slot that carries its value. `satisfactions` counts by slot and column, without those at history events.
    `duplicates` and `conflicts` count rows that were left out.
    """

    rows: pl.DataFrame
    sessions: Sessions
    words: Words
    codes: I32
    letters: U8
    slices: I32
    slice_rows: I64
    memory: Memory
    found: Found
    closed: Found
    satisfactions: I32
    duplicates: int
    conflicts: int


def statute_of(rule_set: RuleSet) -> Statute:
    """Compile every rule and lay the machines out for the kernel.

    Raises RuleError when a rule runs into a limit of the compiler.
    """
    rules = rule_set.rules
    machines = tuple(compile_rule(rule) for rule in rules)
    labels = Labeler(rule_set)
    keys = [None if rule.for_each is None else labels.slice_keys.index(rule.for_each) for rule in rules]
    return Statute(
        rules=rules,
        machines=machines,
        digests=tuple(rule_digest(rule) for rule in rules),
        program=kernel.lay_out(machines, [rule.steps is not None for rule in rules], keys),
        labeler=labels,
        propositions={name: bit for bit, name in enumerate(labels.propositions)},
    )


def judge(statute: Statute, labelled: pl.DataFrame, clock: Clock, *, satisfied: bool) -> Judged:
    """Judge the whole sessions of a bucket; `satisfied` keeps satisfactions and held sessions one by one.

    `labelled` has `JUDGED_COLUMNS` and the labeler's columns, in any order of rows, `end` rows among them.
    """
    rows, ended, duplicates, conflicts = _in_order(labelled)
    sessions = _sessions(rows, ended, clock)
    slots = np.repeat(np.arange(len(sessions.counted), dtype=np.int32), np.diff(sessions.bounds))
    words, codes = _words(rows, statute.labeler.words)
    slices, slice_rows = _slices(rows, slots, statute.program.keys)
    table = letters(statute.program, statute.rules, statute.machines, statute.propositions, words)
    memory = kernel.remember(statute.program, len(sessions.counted), len(slice_rows))
    told = kernel.Rows(words=codes, slots=slots, stamps=np.arange(len(codes), dtype=np.int64), slices=slices)
    inside = clock.inside(_numbers(rows["time"]))
    history = rows["history"].to_numpy()
    satisfactions = np.zeros((len(sessions.counted), statute.program.columns), dtype=np.int32)
    kept: list[Found] = []
    for found in kernel.judge(statute.program, table, told, memory):
        met = (found.kinds == kernel.FOUND_SATISFIED) & inside[found.stamps]
        rated = met & ~history[found.stamps]
        np.add.at(satisfactions, (found.slots[rated], found.columns[rated]), 1)
        kept.append(take(found, inside[found.stamps] & (satisfied | (found.kinds != kernel.FOUND_SATISFIED))))
    closing = kernel.close(statute.program, memory, np.flatnonzero(~sessions.open).astype(np.int32))
    unmet = closing.kinds == kernel.CLOSING_UNMET
    return Judged(
        rows=rows,
        sessions=sessions,
        words=words,
        codes=codes,
        letters=table,
        slices=slices,
        slice_rows=slice_rows,
        memory=memory,
        found=join(kept),
        closed=take(closing, inside[closing.stamps] & (satisfied | unmet)),
        satisfactions=satisfactions,
        duplicates=duplicates,
        conflicts=conflicts,
    )


def _in_order(labelled: pl.DataFrame) -> tuple[pl.DataFrame, Mask, int, int]:
    """The events in judged order, whether an `end` row follows each, and the repeats and conflicts left out.

    Of several rows for one place (an archive that holds a file twice) the one with the smallest event id
    stays: equal ids are repeats, others conflict.
    """
    by = ["session_id", "occurrence", "end", "seq"]
    rows = labelled.with_columns(end=pl.col("kind") == Kind.END.value)
    rows = rows.sort([*by, "event_id"], nulls_last=True)
    again = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in by).fill_null(False)
    equal = pl.col("event_id").eq_missing(pl.col("event_id").shift())
    repeats = rows.select(again=again, event=~pl.col("end"), equal=equal)
    duplicates = int(repeats.select((pl.col("again") & pl.col("event") & pl.col("equal")).sum()).item())
    conflicts = int(repeats.select((pl.col("again") & pl.col("event") & ~pl.col("equal")).sum()).item())
    if repeats["again"].any():
        rows = rows.filter(~repeats["again"])
    follows = pl.all_horizontal(pl.col(name).shift(-1) == pl.col(name) for name in by[:2])
    ended = rows.select((follows & pl.col("end").shift(-1)).fill_null(False)).to_series()
    events = ~rows["end"]
    return rows.filter(events).drop("end"), ended.filter(events).to_numpy(), duplicates, conflicts


def _sessions(rows: pl.DataFrame, ended: Mask, clock: Clock) -> Sessions:
    """Cut the rows, in judged order, into occurrences, and say which are open and which count."""
    count = len(rows)
    if not count:
        return Sessions(np.zeros(1, dtype=np.int64), np.empty(0, np.bool_), np.empty(0, np.bool_))
    new_session = _changes(rows["session_id"])
    starts = np.flatnonzero(new_session | _changes(rows["occurrence"]))
    bounds = np.append(starts, count)
    times = _numbers(rows["time"])
    last = np.maximum.reduceat(times, starts)
    # The session's next occurrence, or the time, has passed its last event.
    followed = np.append(~new_session[starts[1:]], False)
    closed = ended[bounds[1:] - 1] | followed | (clock.last - last > clock.idle)
    counted = np.logical_or.reduceat(clock.inside(times), starts)
    return Sessions(bounds=bounds, counted=counted, open=~closed)


def _changes(column: pl.Series) -> Mask:
    """Where a column has another value than one row before; true at the first row."""
    return (column != column.shift()).fill_null(True).to_numpy()


def _numbers(times: pl.Series) -> I64:
    """Times as nanoseconds since the epoch."""
    return times.to_physical().cast(pl.Int64).to_numpy()


def _words(rows: pl.DataFrame, count: int) -> tuple[Words, I32]:
    """The distinct words of the rows, and the number of each row's word."""
    names = [f"{letter}{word}" for letter in "tu" for word in range(count)]
    if not names:
        none = np.empty((1, 0), dtype=np.uint64)
        return Words(none, none), np.zeros(len(rows), dtype=np.int32)
    distinct = rows.select(names).unique(maintain_order=True).with_row_index("code")
    codes = rows.select(names).join(distinct, on=names, how="left", maintain_order="left")["code"]
    bits = distinct.select(names).to_numpy().reshape(len(distinct), 2 * count)
    return Words(bits[:, :count], bits[:, count:]), codes.cast(pl.Int32).to_numpy()


def _slices(rows: pl.DataFrame, slots: I32, keys: int) -> tuple[I32, I64]:
    """The slice slot of each row and key, one per session and value, and for each slot a row that has it."""
    slices = np.full((len(rows), keys), kernel.NO_SLICE, dtype=np.int32)
    firsts = [np.empty(0, dtype=np.int64)]
    count = 0
    for key in range(keys):
        unknown = rows[f"su{key}"].to_numpy()
        slices[unknown, key] = kernel.UNKNOWN_SLICE
        valued = np.flatnonzero(rows[f"s{key}"].is_not_null().to_numpy() & ~unknown)
        pairs = pl.DataFrame({"slot": slots[valued], "value": rows[f"s{key}"].gather(valued), "row": valued})
        by = ["slot", "value"]
        distinct = pairs.unique(by, keep="first", maintain_order=True).with_row_index("place", offset=count)
        places = pairs.join(distinct, on=by, how="left", maintain_order="left")["place"]
        slices[valued, key] = places.cast(pl.Int32).to_numpy()
        firsts.append(distinct["row"].to_numpy())
        count += len(distinct)
    return slices, np.concatenate(firsts)


def take(found: Found, which: Mask | I64) -> Found:
    """The findings that a mask or places pick, in that order."""
    return Found(
        found.stamps[which], found.slots[which], found.columns[which], found.slices[which], found.kinds[which]
    )


def join(parts: Sequence[Found]) -> Found:
    """Findings one after another."""
    if not parts:
        none = np.empty(0, dtype=np.int32)
        return Found(none.astype(np.int64), none, none, none, none.astype(np.uint8))
    return Found(
        np.concatenate([part.stamps for part in parts]),
        np.concatenate([part.slots for part in parts]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.slices for part in parts]),
        np.concatenate([part.kinds for part in parts]),
    )
