"""Costly questions, asked only of the rows on which their answers matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ..model.predicate import Leaf, Path, Predicate
from ..model.rule import SliceKey
from .guards import CONTENT_FIELDS, TRUE, any_of, guards, is_cheap, parts_of
from .json_values import JSON_FIELDS
from .plan import ColumnPlan, combined, pattern_of
from .regex_sets import RegexSet, regex_set
from .scatter import of_some
from .slices import slice_columns


@dataclass
class GuardedColumns:
    """The rows on which a guard is not false: a plan for them alone, and what it tells all others.

    `name` is that of the column which holds all that it tells, a struct; on other rows a Boolean there is
    false and a text null.
    """

    name: str
    guard: pl.Expr
    plan: ColumnPlan
    told: dict[str, pl.Expr] = field(default_factory=dict[str, pl.Expr])
    types: dict[str, Any] = field(default_factory=dict[str, Any])

    def tell(self, key: object, expr: pl.Expr, dtype: Any) -> pl.Expr:
        """A column of the plan, by its key, as a column of all rows."""
        name = repr(key)
        self.told.setdefault(name, expr.alias(name))
        self.types.setdefault(name, dtype)
        return pl.col(self.name).struct.field(name)

    def column(self) -> pl.Expr:
        """The column that holds all that is told."""
        columns = [self.guard.alias("__guard"), *map(pl.col, sorted(self.plan.fields))]
        told = pl.Struct(self.types)
        return pl.struct(columns).map_batches(self._read, told, is_elementwise=True).alias(self.name)

    def _read(self, rows: pl.Series) -> pl.Series:
        events = rows.struct.unnest()
        return of_some(events["__guard"], events, self._ask).to_struct(rows.name)

    def _ask(self, events: pl.DataFrame) -> pl.DataFrame:
        return self.plan.apply_now(events).select_seq(*self.told.values())


class LabelPlan:
    """Predicates and slices being planned over all rows; what is costly is asked in excerpts of them."""

    def __init__(self, predicates: Iterable[Predicate]) -> None:
        self._shared_guards = _shared_guards(guards(predicates))
        self._regex_sets = _regex_sets(self._shared_guards)
        self._whole = self._column_plan(TRUE)
        self._guarded: dict[str, GuardedColumns] = {}

    @property
    def fields(self) -> frozenset[str]:
        """The event columns that are read."""
        return frozenset(self._whole.fields).union(*(one.plan.fields for one in self._guarded.values()))

    def apply(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """The events with the columns that were planned, whose names begin with `__`."""
        return self._whole.apply(events).with_columns(one.column() for one in self._guarded.values())

    def predicate(self, predicate: Predicate) -> pl.Expr:
        """The predicate as a nullable Boolean; null is unknown."""
        return combined(predicate, self._leaf)

    def slice_columns(self, key: SliceKey, guard: Predicate) -> tuple[pl.Expr, pl.Expr]:
        """As `label_slice.slice_columns`; on rows where the guard is false they mean nothing."""
        if guard == TRUE or not any(path.field in CONTENT_FIELDS for path in key.paths):
            return slice_columns(self._whole, key)
        columns = self._guarded_columns(guard)
        value, unknown = slice_columns(columns.plan, key)
        return (
            columns.tell(("value", key), value, pl.String()),
            columns.tell(("unknown", key), unknown, pl.Boolean()),
        )

    def _leaf(self, leaf: Leaf) -> pl.Expr:
        guard = TRUE if is_cheap(leaf) else self._shared_guards[leaf]
        if guard == TRUE:
            return self._whole.leaf(leaf)
        columns = self._guarded_columns(guard)
        return columns.tell(leaf, columns.plan.leaf(leaf), pl.Boolean())

    def _guarded_columns(self, guard: Predicate) -> GuardedColumns:
        key = repr(guard)
        if key not in self._guarded:
            rows = combined(guard, self._whole.leaf).fill_null(True)
            self._guarded[key] = GuardedColumns(
                f"__guarded_{len(self._guarded)}", rows, self._column_plan(guard)
            )
        return self._guarded[key]

    def _column_plan(self, guard: Predicate) -> ColumnPlan:
        return ColumnPlan(self._regex_sets.get(repr(guard), {}))


def _shared_guards(guards: Mapping[Leaf, Predicate]) -> dict[Leaf, Predicate]:
    """For each costly leaf the rows on which it is asked: its guard, or a weaker one that it shares.

    JSON is read once for all leaves of a path. A search joins others in the same texts, though more of them:
    to look for many patterns takes little longer than to look for one.
    """
    around: dict[Path, list[Predicate]] = {}
    for leaf, guard in guards.items():
        around.setdefault(leaf.path, []).append(guard)
    searched: dict[Path, dict[frozenset[str], Predicate]] = {}
    for leaf, guard in guards.items():
        if pattern_of(leaf) is not None:
            searched.setdefault(leaf.path, {}).setdefault(parts_of(guard), guard)
    shared = {path: any_of(found) for path, found in around.items() if _is_inside(path)}

    def home(leaf: Leaf, guard: Predicate) -> Predicate:
        if _is_inside(leaf.path):
            return shared[leaf.path]
        if pattern_of(leaf) is None:
            return guard
        parts = parts_of(guard)
        weaker = [weak for weak in searched[leaf.path] if weak <= parts]
        return searched[leaf.path][min(weaker, key=len)]

    return {leaf: home(leaf, guard) for leaf, guard in guards.items()}


def _is_inside(path: Path) -> bool:
    """Return whether the path leads into JSON."""
    return bool(path.steps) and path.field in JSON_FIELDS


def _regex_sets(homes: Mapping[Leaf, Predicate]) -> dict[str, dict[Path, RegexSet]]:
    """By guard and path, the patterns that are searched in the same texts, where a set of them helps."""
    patterns: dict[tuple[str, Path], list[str]] = {}
    for leaf, guard in homes.items():
        pattern = pattern_of(leaf)
        if pattern is not None:
            patterns.setdefault((repr(guard), leaf.path), []).append(pattern)
    found: dict[str, dict[Path, RegexSet]] = {}
    for (guard, path), some in patterns.items():
        beside = regex_set(some)
        if beside.helps:
            found.setdefault(guard, {})[path] = beside
    return found
