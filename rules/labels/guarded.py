"""The label plan: costly predicates are evaluated only on the rows on which their answers matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ..model.predicate import Condition, Path, Predicate
from ..model.rule import SliceKey
from .guards import CONTENT_FIELDS, TRUE, any_of, guards, is_cheap, parts_of
from .json_values import JSON_FIELDS
from .plan import ColumnPlan, combined, pattern_of
from .regex_sets import RegexSet, regex_set
from .scatter import on_rows
from .slices import slice_columns


@dataclass
class GuardedColumns:
    """Columns that a plan computes only on the rows on which a guard is not false.

    `name` is the name of the struct column that holds them. On the other rows its Booleans are false and its
    texts null.
    """

    name: str
    guard: pl.Expr
    plan: ColumnPlan
    columns: dict[str, pl.Expr] = field(default_factory=dict[str, pl.Expr])
    types: dict[str, Any] = field(default_factory=dict[str, Any])

    def add(self, key: object, expr: pl.Expr, dtype: Any) -> pl.Expr:
        """Add a column of the plan under its key, and return it as an expression over all rows."""
        name = repr(key)
        self.columns.setdefault(name, expr.alias(name))
        self.types.setdefault(name, dtype)
        return pl.col(self.name).struct.field(name)

    def struct(self) -> pl.Expr:
        """Return the struct column that holds all columns."""
        inputs = [self.guard.alias("__guard"), *map(pl.col, sorted(self.plan.fields))]
        dtype = pl.Struct(self.types)
        return pl.struct(inputs).map_batches(self._evaluate, dtype, is_elementwise=True).alias(self.name)

    def _evaluate(self, rows: pl.Series) -> pl.Series:
        events = rows.struct.unnest()
        return on_rows(events["__guard"], events, self._evaluate_guarded).to_struct(rows.name)

    def _evaluate_guarded(self, events: pl.DataFrame) -> pl.DataFrame:
        return self.plan.apply_now(events).select_seq(*self.columns.values())


class LabelPlan:
    """A plan of predicates and slices over all rows, with guarded columns for the costly ones."""

    def __init__(self, predicates: Iterable[Predicate]) -> None:
        self._shared_guards = _shared_guards(guards(predicates))
        self._regex_sets = _regex_sets(self._shared_guards)
        self._unguarded = self._column_plan(TRUE)
        self._guarded: dict[str, GuardedColumns] = {}

    @property
    def fields(self) -> frozenset[str]:
        """Return the event columns that the plan reads."""
        guarded = (columns.plan.fields for columns in self._guarded.values())
        return frozenset(self._unguarded.fields).union(*guarded)

    def apply(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return the events with the planned columns, whose names begin with `__`."""
        guarded = (columns.struct() for columns in self._guarded.values())
        return self._unguarded.apply(events).with_columns(guarded)

    def predicate(self, predicate: Predicate) -> pl.Expr:
        """Return the predicate as a nullable Boolean; null is unknown."""
        return combined(predicate, self._leaf)

    def slice_columns(self, key: SliceKey, guard: Predicate) -> tuple[pl.Expr, pl.Expr]:
        """Return the columns of `slices.slice_columns`, undefined on rows where the guard is false."""
        if guard == TRUE or not any(path.field in CONTENT_FIELDS for path in key.paths):
            return slice_columns(self._unguarded, key)
        columns = self._guarded_columns(guard)
        value, unknown = slice_columns(columns.plan, key)
        return (
            columns.add(("value", key), value, pl.String()),
            columns.add(("unknown", key), unknown, pl.Boolean()),
        )

    def _leaf(self, leaf: Condition) -> pl.Expr:
        guard = TRUE if is_cheap(leaf) else self._shared_guards[leaf]
        if guard == TRUE:
            return self._unguarded.leaf(leaf)
        columns = self._guarded_columns(guard)
        return columns.add(leaf, columns.plan.leaf(leaf), pl.Boolean())

    def _guarded_columns(self, guard: Predicate) -> GuardedColumns:
        key = repr(guard)
        if key not in self._guarded:
            rows = combined(guard, self._unguarded.leaf).fill_null(True)
            self._guarded[key] = GuardedColumns(
                f"__guarded_{len(self._guarded)}", rows, self._column_plan(guard)
            )
        return self._guarded[key]

    def _column_plan(self, guard: Predicate) -> ColumnPlan:
        return ColumnPlan(self._regex_sets.get(repr(guard), {}))


def _shared_guards(guards: Mapping[Condition, Predicate]) -> dict[Condition, Predicate]:
    """Return for each costly leaf the guard under which it is evaluated: its own, or a weaker shared one.

    All leaves of a JSON path share one guard, so that JSON is read once. A search shares the guard of another
    search of the same field where that is weaker: to search for many patterns takes little longer than for
    one.
    """
    by_path: dict[Path, list[Predicate]] = {}
    for leaf, guard in guards.items():
        by_path.setdefault(leaf.path, []).append(guard)
    searched: dict[Path, dict[frozenset[str], Predicate]] = {}
    for leaf, guard in guards.items():
        if pattern_of(leaf) is not None:
            searched.setdefault(leaf.path, {}).setdefault(parts_of(guard), guard)
    shared = {path: any_of(found) for path, found in by_path.items() if _is_json_path(path)}

    def shared_guard(leaf: Condition, guard: Predicate) -> Predicate:
        if _is_json_path(leaf.path):
            return shared[leaf.path]
        if pattern_of(leaf) is None:
            return guard
        parts = parts_of(guard)
        weaker = [weak for weak in searched[leaf.path] if weak <= parts]
        return searched[leaf.path][min(weaker, key=len)]

    return {leaf: shared_guard(leaf, guard) for leaf, guard in guards.items()}


def _is_json_path(path: Path) -> bool:
    """Return whether the path leads into JSON."""
    return bool(path.steps) and path.field in JSON_FIELDS


def _regex_sets(guards: Mapping[Condition, Predicate]) -> dict[str, dict[Path, RegexSet]]:
    """Return by guard and path the patterns that are searched in the same texts, where a set is faster."""
    patterns: dict[tuple[str, Path], list[str]] = {}
    for leaf, guard in guards.items():
        pattern = pattern_of(leaf)
        if pattern is not None:
            patterns.setdefault((repr(guard), leaf.path), []).append(pattern)
    found: dict[str, dict[Path, RegexSet]] = {}
    for (guard, path), searched in patterns.items():
        regexes = regex_set(searched)
        if regexes.is_faster:
            found.setdefault(guard, {})[path] = regexes
    return found
