"""Labels: which propositions are true at each event, which are unknown, and which slice it belongs to.

Predicates become Polars expressions and nothing else, on an archive's files and on a handful of live events
alike. A nullable Boolean is Kleene's logic: null is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from ...schemas.frames.events import EVENT_SCHEMA
from ..model.predicate import Path, Predicate
from ..model.problem import RuleError
from ..model.rule import RuleSet, SliceKey
from .guarded import LabelPlan
from .guards import any_of, steps_shadow
from .limits import path_problems, problems
from .plan import ColumnPlan, combined, is_known
from .slices import slice_columns

WORD_BITS = 64
"""Propositions in one word of labels."""
_UNKNOWN = 2
"""An unknown answer among those that are 0 and 1."""


class Labeler:
    """The labels of a rule set, planned once; immutable.

    `fields` are the event columns that it reads. `propositions` are all (pack, name) pairs: bit `i % 64` of
    word `i // 64` is the proposition `i`. `slice_keys` are the distinct `for_each` keys. Raises RuleError
    where a predicate or path has `problems`.
    """

    def __init__(self, rule_set: RuleSet) -> None:
        predicates = {
            (rule.pack, name): predicate
            for rule in rule_set.rules
            for name, predicate in rule.propositions.items()
        }
        self.propositions: tuple[tuple[str, str], ...] = tuple(predicates)
        self.slice_keys: tuple[SliceKey, ...] = tuple(
            {rule.for_each: None for rule in rule_set.rules if rule.for_each is not None}
        )
        _refuse(predicates.values(), [path for key in self.slice_keys for path in key.paths])
        asked = tuple(predicates.values())
        steps = _steps(rule_set)
        self._many = LabelPlan(asked)
        answers = [self._many.predicate(predicate) for predicate in asked]
        slices = [self._many.slice_columns(key, steps[key]) for key in self.slice_keys]
        self._columns = _columns(asked, answers, slices)
        # LabelPlan and searches in regex_sets cost more than they save on a few rows.
        self._few = ColumnPlan()
        self._few_answers = [
            combined(predicate, self._few.leaf).cast(pl.UInt8).fill_null(_UNKNOWN).alias(f"__p{i}")
            for i, predicate in enumerate(asked)
        ]
        self._few_slices = _slices([slice_columns(self._few, key) for key in self.slice_keys])
        self.fields: tuple[str, ...] = tuple(name for name in EVENT_SCHEMA if name in self._many.fields)

    @property
    def words(self) -> int:
        """The number of words that hold the propositions' bits."""
        return -(-len(self.propositions) // WORD_BITS)

    def label(self, events: pl.LazyFrame, keep: Sequence[str] = ()) -> pl.LazyFrame:
        """The columns `keep` of the events, and their labels, one row per event in the same order.

        Labels are, for each word `w`, `t{w}` (what is true) and `u{w}` (what is unknown), UInt64, no bit in
        both; for each slice key `k`, `s{k}` (its value, String, null where the event carries none) and
        `su{k}` (Boolean: it cannot be said, and `s{k}` is null). On events that every rule of a key leaves
        out by its `steps`, `s{k}` and `su{k}` mean nothing. The events need the columns `fields`, typed as
        in `EVENT_SCHEMA`.
        """
        return self._many.apply(events).select(*keep, *self._columns)

    def label_few(self, events: pl.DataFrame, keep: Sequence[str] = ()) -> pl.DataFrame:
        """As `label`, for up to some hundred events in memory: the same labels, told sooner."""
        plan = self._few.apply_now(events)
        told = plan.select_seq(*keep, *self._few_answers, *self._few_slices)
        count = len(keep)
        columns, slices = told.get_columns()[:count], told.get_columns()[count + len(self.propositions) :]
        answers = told[:, count : count + len(self.propositions)]
        return pl.DataFrame([*columns, *_packed(answers), *slices])


def _refuse(predicates: Iterable[Predicate], paths: Iterable[Path]) -> None:
    """Raise what is wrong with any of them."""
    found = [problem for predicate in predicates for problem in problems(predicate)]
    found += [problem for path in paths for problem in path_problems(path)]
    if found:
        raise RuleError(found)


def _steps(rule_set: RuleSet) -> dict[SliceKey, Predicate]:
    """For each `for_each`, a predicate of cheap leaves that is false only where no rule that has it steps."""
    found: dict[SliceKey, list[Predicate]] = {}
    for rule in rule_set.rules:
        if rule.for_each is not None:
            found.setdefault(rule.for_each, []).append(steps_shadow(rule.steps, rule.propositions))
    return {key: any_of(guards) for key, guards in found.items()}


def _columns(
    predicates: Sequence[Predicate], answers: Sequence[pl.Expr], slices: Sequence[tuple[pl.Expr, pl.Expr]]
) -> list[pl.Expr]:
    """The columns of `Labeler.label`, of the predicates' answers and of the slices' values and doubts."""
    doubts = [
        None if is_known(predicate) else answer.is_null()
        for predicate, answer in zip(predicates, answers, strict=True)
    ]
    return _words("t", answers) + _words("u", doubts) + _slices(slices)


def _slices(slices: Sequence[tuple[pl.Expr, pl.Expr]]) -> list[pl.Expr]:
    """The slices' values and doubts, by name."""
    columns: list[pl.Expr] = []
    for place, (value, unknown) in enumerate(slices):
        columns += [value.alias(f"s{place}"), unknown.alias(f"su{place}")]
    return columns


def _packed(answers: pl.DataFrame) -> list[pl.Series]:
    """The words of answers at hand: of few rows a plan for each bit takes longer than the bits."""
    told = answers.to_numpy()
    words: list[pl.Series] = []
    for letter, meant in (("t", 1), ("u", _UNKNOWN)):
        for start in range(0, told.shape[1], WORD_BITS):
            some = (told[:, start : start + WORD_BITS] == meant).astype(np.uint64)
            weights = np.uint64(1) << np.arange(some.shape[1], dtype=np.uint64)
            words.append(pl.Series(f"{letter}{start // WORD_BITS}", some @ weights))
    return words


def _words(letter: str, flags: Sequence[pl.Expr | None]) -> list[pl.Expr]:
    """The flags as the bits of words: `t0` holds the first 64. What is null, or None, is no bit."""
    return [
        _word(flags[start : start + WORD_BITS]).alias(f"{letter}{start // WORD_BITS}")
        for start in range(0, len(flags), WORD_BITS)
    ]


def _word(flags: Sequence[pl.Expr | None]) -> pl.Expr:
    """Up to 64 flags as the bits of one word, made of bytes: eight times less memory to pass over."""
    word = pl.lit(0, dtype=pl.UInt64)
    for start in range(0, len(flags), 8):
        bits = [
            pl.when(flag).then(pl.lit(1 << bit, pl.UInt8)).otherwise(pl.lit(0, pl.UInt8))
            for bit, flag in enumerate(flags[start : start + 8])
            if flag is not None
        ]
        if bits:
            byte = pl.reduce(lambda one, other: one | other, bits)
            word = word | byte.cast(pl.UInt64) * pl.lit(1 << start, dtype=pl.UInt64)
    return word
