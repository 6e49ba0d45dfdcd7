"""Judging one bucket of labelled events: rows to sessions in judged order, and the kernel over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..compiler.compile import compile_rules
from ..labels.labeler import Labeler
from ..model.digest import rule_digest
from ..model.machine import Machine
from ..model.rule import Rule, RuleSet
from . import kernel, kernel_loop
from .kernel import I32, I64, U8, Findings, Memory, Program
from .letters import LabelWords, label_words, letters
from .sessions import Clock, Cut, Mask, Order, Sessions, in_order, numbers, occurrences_of, value_codes

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
class CompiledRules:
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
class Judged:
    """A bucket's events in judged order, where every session stands, and what was found in the window.

    `labelled` is what was judged, in its own order; `column` gives a column in judged order. `found` holds
    violations and unjudged sessions (and satisfactions on request), `closed` closing verdicts; their stamps
    are places in judged order. `slices` are as in `kernel.Rows`, and `slice_places` holds a place of each
    slice slot that carries its value. `satisfactions` counts by slot and column, without those at history
    events, which `rated` leaves out.
    """

    labelled: pl.DataFrame
    order: Order
    sessions: Sessions
    rated: Mask
    words: LabelWords
    codes: I32
    letters: U8
    slices: I32
    slice_places: I64
    memory: Memory
    found: Findings
    closed: Findings
    satisfactions: I32

    def column(self, name: str, places: I64 | None = None) -> pl.Series:
        """A column of the events in judged order, or at some places of it."""
        # What Polars would run as a query for a single column costs four times as much.
        return self.labelled[name][self.order.rows if places is None else self.order.rows[places]]


def compile_rule_set(rule_set: RuleSet) -> CompiledRules:
    """Compile every rule and lay the machines out for the kernel.

    Raises RuleError when a rule runs into a limit of the compiler.
    """
    rules = rule_set.rules
    machines = compile_rules(rules)
    labels = Labeler(rule_set)
    keys = [None if rule.for_each is None else labels.slice_keys.index(rule.for_each) for rule in rules]
    return CompiledRules(
        rules=rules,
        machines=machines,
        digests=tuple(rule_digest(rule) for rule in rules),
        program=kernel.lay_out(machines, [rule.steps is not None for rule in rules], keys),
        labeler=labels,
        propositions={name: bit for bit, name in enumerate(labels.propositions)},
    )


def judge(
    compiled: CompiledRules,
    labelled: pl.DataFrame,
    clock: Clock,
    *,
    satisfied: bool,
    cut: Cut = occurrences_of,
) -> Judged:
    """Judge the whole sessions of a bucket; `satisfied` keeps satisfactions and held sessions one by one.

    What `cut` gives is judged each with a history of its own. `labelled` has `JUDGED_COLUMNS` and the
    labeler's columns, in any order of rows, `end` rows among them.
    """
    order = in_order(labelled)
    labels = labelled.select("seq", *label_columns(compiled))[order.rows]
    times = numbers(labelled["time"])[order.rows]
    sessions = cut(order, labelled, clock)
    slots = np.repeat(np.arange(len(sessions.counted), dtype=np.int32), np.diff(sessions.bounds))
    words, codes = label_words(labels, compiled.labeler.words)
    slices, slice_places = _slices(labels, slots, compiled.program.keys)
    table = letters(compiled.program, compiled.rules, compiled.machines, compiled.propositions, words)
    over = labels["seq"].to_numpy() > kernel.EVENTS_MAX
    if over.any():
        words, table, codes = _with_blind_word(compiled.program, words, table, codes, over)
    memory = kernel.remember(compiled.program, len(sessions.counted), len(slice_places))
    told = kernel.Rows(words=codes, slots=slots, stamps=np.arange(len(codes), dtype=np.int64), slices=slices)
    inside = clock.inside(times)
    rated = ~labelled["history"].to_numpy()[order.rows]
    satisfactions = np.zeros((len(sessions.counted), compiled.program.columns), dtype=np.int32)
    kept: list[Findings] = []
    for found in kernel.judge(compiled.program, table, told, memory):
        within, met = inside[found.stamps], found.kinds == kernel_loop.FOUND_SATISFIED
        counted = within & met & rated[found.stamps]
        np.add.at(satisfactions, (found.slots[counted], found.columns[counted]), 1)
        kept.append(take(found, within & (satisfied | ~met)))
    closing = np.flatnonzero(~sessions.open).astype(np.int32)
    closed = kernel.close(compiled.program, memory, closing, held=satisfied)
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
        found=join(kept),
        closed=take(closed, inside[closed.stamps]),
        satisfactions=satisfactions,
    )


def label_columns(compiled: CompiledRules) -> list[str]:
    """The labeler's columns, by name."""
    words = [f"{letter}{word}" for letter in "tu" for word in range(compiled.labeler.words)]
    return words + [f"{letter}{key}" for letter in ("s", "su") for key in range(compiled.program.keys)]


def _with_blind_word(
    program: Program, words: LabelWords, table: U8, codes: I32, which: Mask
) -> tuple[LabelWords, U8, I32]:
    """LabelWords, letters and codes in which some events have a word that no rule can judge."""
    none = np.zeros((1, words.true.shape[1]), dtype=np.uint64)
    blind = LabelWords(np.vstack([words.true, none]), np.vstack([words.unknown, none]))
    code = np.int32(len(words.true))
    return blind, np.vstack([table, program.unknown[None, :]]), np.where(which, code, codes)


def _slices(rows: pl.DataFrame, slots: I32, keys: int) -> tuple[I32, I64]:
    """The slice slot of each row and key, one per session and value, and for each slot a row that has it."""
    slices = np.full((len(slots), keys), kernel_loop.NO_SLICE, dtype=np.int32)
    firsts = [np.empty(0, dtype=np.int64)]
    count = 0
    for key in range(keys):
        unknown = rows[f"su{key}"].to_numpy()
        slices[unknown, key] = kernel_loop.UNKNOWN_SLICE
        valued = np.flatnonzero(rows[f"s{key}"].is_not_null().to_numpy() & ~unknown)
        pairs = slots[valued].astype(np.int64) << 32 | value_codes(rows[f"s{key}"][valued])
        _, at, places = np.unique(pairs, return_index=True, return_inverse=True)
        # Slots are numbered as they come.
        order = np.argsort(at)
        numbered = np.empty(len(order), dtype=np.int32)
        numbered[order] = np.arange(count, count + len(order), dtype=np.int32)
        slices[valued, key] = numbered[places]
        firsts.append(valued[at[order]])
        count += len(order)
    return slices, np.concatenate(firsts)


def take(found: Findings, which: Mask | I64) -> Findings:
    """The findings that a mask or places pick, in that order."""
    return Findings(
        found.stamps[which], found.slots[which], found.columns[which], found.slices[which], found.kinds[which]
    )


def join(parts: Sequence[Findings]) -> Findings:
    """Findings one after another."""
    if not parts:
        none = np.empty(0, dtype=np.int32)
        return Findings(none.astype(np.int64), none, none, none, none.astype(np.uint8))
    return Findings(
        np.concatenate([part.stamps for part in parts]),
        np.concatenate([part.slots for part in parts]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.slices for part in parts]),
        np.concatenate([part.kinds for part in parts]),
    )
