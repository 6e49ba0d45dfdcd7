"""Judging one bucket of labelled events: rows become sessions in judged order, and the kernel steps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from ...schemas.verdict import Unknown
from ..compiler.compile import compile_rules
from ..labels.labeler import Labeler
from ..model.arrays import I32, I64, Mask
from ..model.digest import rule_digest
from ..model.machine import Machine
from ..model.rule import Rule, RuleSet
from . import kernel, kernel_loop
from .closing import become_unjudged, close_sessions
from .kernel import Findings, LetterTable, Memory, Program
from .letters import LabelWords, label_words, letters, unjudged_word
from .sessions import Clock, CutSessions, Order, Sessions, in_order, numbers, occurrences_of, value_codes
from .witness import TrailProgram, lay_out_trails

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
"""Columns of the event frame that judging reads in addition to the labels."""


@dataclass(frozen=True)
class CompiledRules:
    """A compiled rule set: machines, digests and the kernel's program, in the order of the rules.

    `propositions` maps each (pack, name) to its bit in the label words. The program orders its columns by
    `program.order`; everything else numbers rules as the rule set does.
    """

    rules: tuple[Rule, ...]
    machines: tuple[Machine, ...]
    digests: tuple[str, ...]
    program: Program
    labeler: Labeler
    propositions: Mapping[tuple[str, str], int]

    @cached_property
    def trails(self) -> TrailProgram:
        """Return the trail tables of the rules, made when the first witness is asked for."""
        return lay_out_trails(self.rules, self.machines, self.propositions, self.program)


@dataclass(frozen=True, slots=True)
class Judged:
    """A bucket's events in judged order, the kernel's state of every session, and the findings in the window.

    `labelled` has the judged rows in their original order; `column` returns a column in judged order. `found`
    holds violations and unjudged sessions (and satisfactions on request), `closed` holds closing verdicts;
    their stamps are places in judged order. `slices` are as in `kernel.Rows`, and `slice_places` holds, for
    each slice slot, the place of an event that carries its value. `rated` is false at history events;
    `satisfactions` counts satisfactions by slot and column at the other events.
    """

    labelled: pl.DataFrame
    order: Order
    sessions: Sessions
    rated: Mask
    words: LabelWords
    codes: I32
    letters: LetterTable
    slices: I32
    slice_places: I64
    memory: Memory
    found: Findings
    closed: Findings
    satisfactions: I32

    def column(self, name: str, places: I64 | None = None) -> pl.Series:
        """Return a column of the events in judged order, or at some places of that order."""
        # A Polars query for a single column takes four times as long.
        return self.labelled[name][self.order.rows if places is None else self.order.rows[places]]


def compile_rule_set(rule_set: RuleSet) -> CompiledRules:
    """Compile every rule and lay the machines out for the kernel.

    Raises RuleError where a rule exceeds a limit of the compiler.
    """
    rules = rule_set.rules
    machines = compile_rules(rules)
    labels = Labeler(rule_set)
    keys = [None if rule.for_each is None else labels.slice_keys.index(rule.for_each) for rule in rules]
    return CompiledRules(
        rules=rules,
        machines=machines,
        digests=tuple(rule_digest(rule) for rule in rules),
        program=kernel.lay_out(
            machines,
            [rule.steps is not None for rule in rules],
            keys,
            [rule.unknown is Unknown.FOLLOW for rule in rules],
        ),
        labeler=labels,
        propositions={name: bit for bit, name in enumerate(labels.propositions)},
    )


def judge(
    compiled: CompiledRules,
    labelled: pl.DataFrame,
    clock: Clock,
    *,
    satisfied: bool,
    cut: CutSessions = occurrences_of,
) -> Judged:
    """Judge the whole sessions of a bucket; with `satisfied`, report each satisfaction and held closing.

    `cut` divides the events into runs, and each run is judged with an empty history at its start. `labelled`
    has `JUDGED_COLUMNS` and the labeler's columns, with rows in any order and `end` rows among them.
    """
    order = in_order(labelled)
    return judge_sessions(compiled, labelled, order, cut(order, labelled, clock), clock, satisfied=satisfied)


def judge_sessions(
    compiled: CompiledRules,
    labelled: pl.DataFrame,
    order: Order,
    sessions: Sessions,
    clock: Clock,
    *,
    satisfied: bool,
) -> Judged:
    """Judge sessions whose order and bounds are known, like `judge`.

    `labelled` has `seq`, `history`, the labeler's columns, and `time` if the clock has a window.
    """
    labels = columns_at(labelled, ["seq", *label_columns(compiled)], order.rows)
    slots = np.repeat(np.arange(len(sessions.counted), dtype=np.int32), np.diff(sessions.bounds))
    words, codes, table = read_labels(compiled, labels)
    slices, slice_places = slice_slots(labels, slots, compiled.program.keys)
    memory = kernel.remember(compiled.program, len(sessions.counted), len(slice_places))
    rows = kernel.Rows(words=codes, slots=slots, stamps=np.arange(len(codes), dtype=np.int64), slices=slices)
    inside = _inside(clock, labelled, order)
    rated = ~labelled["history"].to_numpy()[order.rows]
    satisfactions = np.zeros(memory.state.shape, dtype=np.int32)
    found = kernel.judge(compiled.program, table, rows, memory)
    parts = [_counted(part, inside, rated, satisfactions, satisfied) for part in found]
    closed, unsettled = _closed(compiled.program, memory, sessions, inside, held=satisfied)
    return Judged(
        labelled=labelled,
        order=order,
        sessions=sessions,
        rated=rated,
        words=words,
        codes=codes,
        letters=table,
        slices=slices,
        slice_places=slice_places,
        memory=memory,
        found=kernel.in_judged_order(kernel.join([*parts, unsettled])),
        closed=closed,
        satisfactions=satisfactions,
    )


def _closed(
    program: Program, memory: Memory, sessions: Sessions, inside: Mask, *, held: bool
) -> tuple[Findings, Findings]:
    """Return the closing verdicts in the window, and the rules there that become unjudged at a close."""
    closing = np.flatnonzero(~sessions.open).astype(np.int32)
    closed, unsettled = close_sessions(program, memory, closing, held=held)
    unsettled = become_unjudged(memory, unsettled)
    return closed.take(inside[closed.stamps]), unsettled.take(inside[unsettled.stamps])


def _inside(clock: Clock, labelled: pl.DataFrame, order: Order) -> Mask:
    """Return which events are in the clock's window."""
    if not clock.has_window:
        return np.ones(len(order.rows), dtype=np.bool_)
    return clock.inside(numbers(labelled["time"])[order.rows])


def _counted(found: Findings, inside: Mask, rated: Mask, satisfactions: I32, satisfied: bool) -> Findings:
    """Count the satisfactions of a part, and return its findings in the window.

    The result has satisfactions only where `satisfied` is true.
    """
    within, is_satisfied = inside[found.stamps], found.kinds == kernel_loop.FOUND_SATISFIED
    counted = within & is_satisfied & rated[found.stamps]
    # `np.add.at` takes five times as long.
    flat = found.slots[counted].astype(np.int64) * satisfactions.shape[1] + found.columns[counted]
    satisfactions += np.bincount(flat, minlength=satisfactions.size).reshape(satisfactions.shape)
    return found.take(within & (satisfied | ~is_satisfied))


def read_labels(compiled: CompiledRules, labels: pl.DataFrame) -> tuple[LabelWords, I32, LetterTable]:
    """Return the distinct label words of rows, the number of each row's word, and the letter table.

    `labels` has the labeler's columns and `seq`; no rule can judge events with more than `EVENTS_MAX`.
    """
    words, codes = label_words(labels, compiled.labeler.words)
    table = letters(compiled.program, compiled.rules, compiled.machines, compiled.propositions, words)
    over = labels["seq"].to_numpy() > kernel.EVENTS_MAX
    if not over.any():
        return words, codes, table
    codes = np.where(over, np.int32(len(words.true)), codes)
    word, row = unjudged_word(compiled.program, words)
    words = LabelWords(np.vstack([words.true, word.true]), np.vstack([words.unknown, word.unknown]))
    return words, codes, _joined(table, row)


def _joined(table: LetterTable, known: LetterTable) -> LetterTable:
    """Return a table with the rows of another one, in which nothing is unknown."""
    return replace(
        table,
        letters=np.vstack([table.letters, known.letters]),
        choice=np.vstack([table.choice, known.choice]),
        stand_in=np.vstack([table.stand_in, known.stand_in]),
    )


def columns_at(frame: pl.DataFrame, names: Iterable[str], rows: I64) -> pl.DataFrame:
    """Return columns of a frame at some rows.

    `select` would copy all columns of the frame where their chunks differ.
    """
    return pl.DataFrame([frame[name][rows] for name in names])


def label_columns(compiled: CompiledRules) -> list[str]:
    """Return the names of the labeler's columns."""
    words = [f"{letter}{word}" for letter in "tu" for word in range(compiled.labeler.words)]
    return words + [f"{letter}{key}" for letter in ("s", "su") for key in range(compiled.program.keys)]


def slice_slots(rows: pl.DataFrame, slots: I32, keys: int) -> tuple[I32, I64]:
    """Return the slice slot of each row and key, and for each slot a row that carries its value.

    Each session and value has a slot.
    """
    slices = np.full((len(slots), keys), kernel_loop.NO_SLICE, dtype=np.int32)
    firsts = [np.empty(0, dtype=np.int64)]
    count = 0
    for key in range(keys):
        unknown = rows[f"su{key}"].to_numpy()
        slices[unknown, key] = kernel_loop.UNKNOWN_SLICE
        valued = np.flatnonzero(rows[f"s{key}"].is_not_null().to_numpy() & ~unknown)
        pairs = slots[valued].astype(np.int64) << 32 | value_codes(rows[f"s{key}"][valued])
        _, at, places = np.unique(pairs, return_index=True, return_inverse=True)
        # Slots are numbered in the order of their first rows.
        order = np.argsort(at)
        numbered = np.empty(len(order), dtype=np.int32)
        numbered[order] = np.arange(count, count + len(order), dtype=np.int32)
        slices[valued, key] = numbered[places]
        firsts.append(valued[at[order]])
        count += len(order)
    return slices, np.concatenate(firsts)
