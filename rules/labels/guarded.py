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
from .plan import Sheet, combined, pattern_of
from .regex_sets import Family, family
from .scatter import of_some
from .slices import slice_columns


@dataclass
class Excerpt:
    """The rows on which a guard is not false: a sheet for them alone, and what it tells all others.

    `name` is that of the column which holds all that it tells, a struct; on other rows a Boolean there is
    false and a text null.
    """

    name: str
    guard: pl.Expr
    sheet: Sheet
    told: dict[str, pl.Expr] = field(default_factory=dict[str, pl.Expr])
    types: dict[str, Any] = field(default_factory=dict[str, Any])

    def tell(self, key: object, expr: pl.Expr, dtype: Any) -> pl.Expr:
        """A column of the sheet, by its key, as a column of all rows."""
        name = repr(key)
        self.told.setdefault(name, expr.alias(name))
        self.types.setdefault(name, dtype)
        return pl.col(self.name).struct.field(name)

    def column(self) -> pl.Expr:
        """The column that holds all that is told."""
        columns = [self.guard.alias("__guard"), *map(pl.col, sorted(self.sheet.fields))]
        told = pl.Struct(self.types)
        return pl.struct(columns).map_batches(self._read, told, is_elementwise=True).alias(self.name)

    def _read(self, rows: pl.Series) -> pl.Series:
        events = rows.struct.unnest()
        return of_some(events["__guard"], events, self._ask).to_struct(rows.name)

    def _ask(self, events: pl.DataFrame) -> pl.DataFrame:
        return self.sheet.apply_now(events).select_seq(*self.told.values())


class Excerpts:
    """Predicates and slices being planned over all rows; what is costly is asked in excerpts of them."""

    def __init__(self, predicates: Iterable[Predicate]) -> None:
        self._homes = _homes(guards(predicates))
        self._company = _company(self._homes)
        self._whole = self._sheet(TRUE)
        self._excerpts: dict[str, Excerpt] = {}

    @property
    def fields(self) -> frozenset[str]:
        """The event columns that are read."""
        return frozenset(self._whole.fields).union(*(one.sheet.fields for one in self._excerpts.values()))

    def apply(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """The events with the columns that were planned, whose names begin with `__`."""
        return self._whole.apply(events).with_columns(one.column() for one in self._excerpts.values())

    def predicate(self, predicate: Predicate) -> pl.Expr:
        """The predicate as a nullable Boolean; null is unknown."""
        return combined(predicate, self._leaf)

    def slice_columns(self, key: SliceKey, guard: Predicate) -> tuple[pl.Expr, pl.Expr]:
        """As `label_slice.slice_columns`; on rows where the guard is false they mean nothing."""
        if guard == TRUE or not any(path.field in CONTENT_FIELDS for path in key.paths):
            return slice_columns(self._whole, key)
        excerpt = self._excerpt(guard)
        value, unknown = slice_columns(excerpt.sheet, key)
        return (
            excerpt.tell(("value", key), value, pl.String()),
            excerpt.tell(("unknown", key), unknown, pl.Boolean()),
        )

    def _leaf(self, leaf: Leaf) -> pl.Expr:
        guard = TRUE if is_cheap(leaf) else self._homes[leaf]
        if guard == TRUE:
            return self._whole.leaf(leaf)
        excerpt = self._excerpt(guard)
        return excerpt.tell(leaf, excerpt.sheet.leaf(leaf), pl.Boolean())

    def _excerpt(self, guard: Predicate) -> Excerpt:
        key = repr(guard)
        if key not in self._excerpts:
            rows = combined(guard, self._whole.leaf).fill_null(True)
            self._excerpts[key] = Excerpt(f"__excerpt_{len(self._excerpts)}", rows, self._sheet(guard))
        return self._excerpts[key]

    def _sheet(self, guard: Predicate) -> Sheet:
        return Sheet(self._company.get(repr(guard), {}))


def _homes(guards: Mapping[Leaf, Predicate]) -> dict[Leaf, Predicate]:
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


def _company(homes: Mapping[Leaf, Predicate]) -> dict[str, dict[Path, Family]]:
    """By guard and path, the patterns that are searched in the same texts, where a family of them helps."""
    patterns: dict[tuple[str, Path], list[str]] = {}
    for leaf, guard in homes.items():
        pattern = pattern_of(leaf)
        if pattern is not None:
            patterns.setdefault((repr(guard), leaf.path), []).append(pattern)
    found: dict[str, dict[Path, Family]] = {}
    for (guard, path), some in patterns.items():
        beside = family(some)
        if beside.helps:
            found.setdefault(guard, {})[path] = beside
    return found
