"""The labeler: the propositions true at each event, the unknown ones, and the event's slices.

Every predicate becomes a Polars expression for an archive's files; `few` evaluates a few live events. A
nullable Boolean is a value of Kleene's logic: null is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import polars as pl

from ...schemas.frames.events import EVENT_SCHEMA
from ..model.path_limits import path_problems
from ..model.predicate import Path, Predicate
from ..model.predicate_limits import problems
from ..model.problem import RuleError
from ..model.rule import RuleSet, SliceKey
from .few import WORD_BITS, FewLabels
from .guarded import LabelPlan
from .guards import any_of, steps_shadow
from .labelled_rows import EventColumns, FrameColumns, LabelledRows
from .plan import is_known


class EventLabels(Protocol):
    """Labels of events, evaluated from the event columns `fields`."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the event columns that the labels read."""
        ...

    def label(self, events: pl.LazyFrame, keep: Sequence[str] = ()) -> pl.LazyFrame:
        """Return the columns `keep` of the events, and their labels."""
        ...


class Labeler:
    """The immutable plan of a rule set's labels.

    `fields` are the event columns that it reads. `propositions` are all (pack, name) pairs: bit `i % 64` of
    word `i // 64` is the proposition `i`, and `predicates` has its predicate. `slice_keys` are the distinct
    `for_each` keys, and `steps` has for each a predicate that is false only where no rule of the key steps.
    Raises RuleError where a predicate or path has `problems`.
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
        _check(predicates.values(), [path for key in self.slice_keys for path in key.paths])
        self.predicates = tuple(predicates.values())
        steps = _steps(rule_set)
        self.steps = {key: steps[key] for key in self.slice_keys}

    @cached_property
    def few(self) -> FewLabels:
        """Return the plan for a few events in memory."""
        return FewLabels(self.predicates, self.steps)

    @cached_property
    def planned(self) -> tuple[LabelPlan, list[pl.Expr]]:
        """Return the plan over all rows, and the columns of labels."""
        plan = LabelPlan(self.predicates)
        return plan, word_columns(plan, self.predicates) + slice_columns(plan, self.steps)

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the event columns that the labels read."""
        plan, _ = self.planned
        return tuple(name for name in EVENT_SCHEMA if name in plan.fields)

    @property
    def words(self) -> int:
        """Return the number of words that hold the propositions' bits."""
        return -(-len(self.propositions) // WORD_BITS)

    def label(self, events: pl.LazyFrame, keep: Sequence[str] = ()) -> pl.LazyFrame:
        """Return the columns `keep` of the events, and their labels, one row per event in the same order.

        For each word `w` the labels are `t{w}` (true propositions) and `u{w}` (unknown ones), UInt64, with no
        bit in both. For each slice key `k` they are `s{k}` (the value, String, null where the event carries
        none) and `su{k}` (Boolean: the value is unknown, and `s{k}` is null). On events that the `steps` of
        every rule of a key exclude, `s{k}` and `su{k}` are undefined. The events need the columns `fields`,
        typed as in `EVENT_SCHEMA`.
        """
        plan, columns = self.planned
        return plan.apply(events).select(*keep, *columns)

    def label_few(self, events: pl.DataFrame, keep: Sequence[str] = ()) -> pl.DataFrame:
        """Return the same as `label`, faster for up to some thousand events in memory."""
        labels = self.few.label(FrameColumns(events))
        return pl.DataFrame([*map(events.get_column, keep), *labels.series])

    def label_rows(self, events: EventColumns) -> LabelledRows:
        """Return events in memory with the same labels."""
        return LabelledRows(events, self.few.label(events))


def _check(predicates: Iterable[Predicate], paths: Iterable[Path]) -> None:
    """Raise the problems of the predicates and paths, if they have any."""
    found = [problem for predicate in predicates for problem in problems(predicate)]
    found += [problem for path in paths for problem in path_problems(path)]
    if found:
        raise RuleError(found)


def _steps(rule_set: RuleSet) -> dict[SliceKey, Predicate]:
    """Return for each `for_each` a predicate of cheap leaves, false only where none of its rules steps."""
    found: dict[SliceKey, list[Predicate]] = {}
    for rule in rule_set.rules:
        if rule.for_each is not None:
            found.setdefault(rule.for_each, []).append(steps_shadow(rule.steps, rule.propositions))
    return {key: any_of(guards) for key, guards in found.items()}


def word_columns(plan: LabelPlan, predicates: Sequence[Predicate], begin: int = 0) -> list[pl.Expr]:
    """Return the answers to predicates, which the plan evaluates, as words from the number `begin` on."""
    answers = [plan.predicate(predicate) for predicate in predicates]
    unknown = [
        None if is_known(predicate) else answer.is_null()
        for predicate, answer in zip(predicates, answers, strict=True)
    ]
    return _words("t", answers, begin) + _words("u", unknown, begin)


def slice_columns(plan: LabelPlan, steps: Mapping[SliceKey, Predicate]) -> list[pl.Expr]:
    """Return the named columns of slices: each value, and whether it is unknown.

    `steps` has the keys as a labeler has them.
    """
    columns: list[pl.Expr] = []
    for place, (key, guard) in enumerate(steps.items()):
        value, unknown = plan.slice_columns(key, guard)
        columns += [value.alias(f"s{place}"), unknown.alias(f"su{place}")]
    return columns


def _words(letter: str, flags: Sequence[pl.Expr | None], begin: int) -> list[pl.Expr]:
    """Return the flags as the bits of words, the first 64 in the word `begin`. Null and None set no bit."""
    return [
        _word(flags[start : start + WORD_BITS]).alias(f"{letter}{begin + start // WORD_BITS}")
        for start in range(0, len(flags), WORD_BITS)
    ]


def _word(flags: Sequence[pl.Expr | None]) -> pl.Expr:
    """Return up to 64 flags as the bits of one word, via bytes, which take an eighth of the memory."""
    word = pl.lit(0, dtype=pl.UInt64)
    for start in range(0, len(flags), 8):
        bits = [
            pl.when(flag).then(pl.lit(1 << bit, pl.UInt8)).otherwise(pl.lit(0, pl.UInt8))
            for bit, flag in enumerate(flags[start : start + 8])
            if flag is not None
        ]
        if bits:
            byte = pl.reduce(lambda left, right: left | right, bits)
            word = word | byte.cast(pl.UInt64) * pl.lit(1 << start, dtype=pl.UInt64)
    return word
