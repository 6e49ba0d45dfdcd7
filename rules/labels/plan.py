"""The column plan of labels: named columns in stages, each distinct expression once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from ...schemas.event import Content, Kind
from ..model.predicate import And, Leaf, Literal, Not, Or, Path, Predicate, Scalar, Test
from . import json_values as values
from .guards import CAPTURED_FIELDS, is_cheap, leaves
from .regex_sets import RegexSet, search

OPEN, CHEAP, FOUND, VALUES, SEARCHES, ANSWERS, STAGES = range(7)
"""The stages; each is one `with_columns` that may read the columns of earlier stages."""


@dataclass
class ColumnPlan:
    """A plan of columns, which methods extend. `regex_sets` are patterns to be searched together, by path.

    A method that returns an expression adds the columns that the expression reads; `fields` are the event
    columns among them.
    """

    regex_sets: Mapping[Path, RegexSet] = field(default_factory=dict[Path, RegexSet])
    stages: list[dict[str, pl.Expr]] = field(
        default_factory=lambda: [dict[str, pl.Expr]() for _ in range(STAGES)]
    )
    fields: set[str] = field(default_factory=set[str])

    def apply(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return the events with the columns of the plan, whose names begin with `__`."""
        for stage in self.stages:
            if stage:
                events = events.with_columns(*stage.values())
        return events

    def apply_now(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return the same as `apply`, on one thread, which is faster for a few rows."""
        for stage in self.stages:
            if stage:
                events = events.with_columns_seq(*stage.values())
        return events

    def leaf(self, leaf: Leaf) -> pl.Expr:
        """Return the answer of a leaf as a nullable Boolean; null is unknown."""
        if leaf.path.field == "kind":
            return self.put(CHEAP, leaf, kind_answer(leaf, self.column("kind")))
        if is_cheap(leaf) and leaf.against is None:
            answer = values.answer(leaf, self.column(leaf.path.field))
            return self.put(CHEAP, leaf, self._known(leaf, answer))
        return self.put(ANSWERS, leaf, self._known(leaf, self._answer(leaf, self._operand(leaf, leaf.path))))

    def open(self, path: Path) -> pl.Expr | None:
        """Return where the path's field is unknown; None if the field is metadata, which is always known."""
        if path.field not in CAPTURED_FIELDS:
            return None
        self.column(path.field)
        return self.put(OPEN, ("open", path.field), values.open_field(path.field))

    def found(self, path: Path) -> pl.Expr:
        """Return the scalar or container at the path as text; null where there is none."""
        column = self.column(path.field)
        if not path.steps:
            return column
        if path.field == "attributes":
            return self.put(FOUND, path, column.map.get(path.steps[0]))
        return self.put(FOUND, path, values.at_path(column, path.steps))

    def is_container(self, path: Path) -> pl.Expr:
        """Return whether an object or array is at the path."""
        if path.field not in values.JSON_FIELDS:
            return pl.lit(False)
        column = self.column(path.field)
        if path.steps:
            expr = values.is_container(column, self.found(path), path.steps)
        else:
            expr = values.is_container_text(column)
        return self.put(VALUES, ("container", path), expr)

    def value(self, path: Path) -> pl.Expr:
        """Return the scalar at the path as text; null where there is none."""
        if path.field in values.JSON_FIELDS and path.steps:
            return pl.when(~self.is_container(path)).then(self.found(path))
        if path.steps:
            return self.found(path)
        return values.whole(path.field, self.column(path.field))

    def column(self, name: str) -> pl.Expr:
        """Return a column of the events."""
        self.fields.add(name)
        if name in CAPTURED_FIELDS:
            self.fields |= {"kind", "content"}
        return pl.col(name)

    def put(self, stage: int, key: object, expr: pl.Expr) -> pl.Expr:
        """Return the column of that key in the stage; add it with the expression if the key is new."""
        columns = self.stages[stage]
        # The keys are texts: `Leaf(..., (1,))` equals `Leaf(..., (True,))`.
        name = repr(key)
        if name not in columns:
            columns[name] = expr.alias(f"__{stage}_{len(columns)}")
        return pl.col(columns[name].meta.output_name())

    def _operand(self, leaf: Leaf, path: Path) -> pl.Expr:
        """Return the text at a path of a leaf. A whole object or array can be searched, not compared."""
        if leaf.test is Test.IS_NULL and path.steps:
            return self.found(path)
        value = self.value(path)
        if path.steps or path.field not in values.JSON_FIELDS:
            return value
        if leaf.test is Test.IS_NULL or leaf.test in values.SEARCHES:
            return value
        return pl.when(~self.is_container(path)).then(value)

    def _answer(self, leaf: Leaf, value: pl.Expr) -> pl.Expr:
        """Return the leaf's answer on its value, false where there is none; use the path's regex set."""
        if leaf.against is not None:
            return values.compare_values(leaf.test, value, self._operand(leaf, leaf.against))
        regexes, pattern = self.regex_sets.get(leaf.path), pattern_of(leaf)
        if regexes is None or pattern not in regexes.patterns:
            return values.answer(leaf, value)
        found = self.put(SEARCHES, leaf.path, search(regexes, value))
        return found.struct.field(f"p{regexes.patterns.index(pattern)}")

    def _known(self, leaf: Leaf, answer: pl.Expr) -> pl.Expr:
        """Return the answer, or null where it is unknown; a match in a truncated text is known."""
        opened = [found for path in leaf.paths if (found := self.open(path)) is not None]
        if not opened:
            return answer
        unknown = opened[0] if len(opened) == 1 else pl.any_horizontal(opened)
        if leaf.test is Test.IS_NULL:
            unknown = unknown & answer
        elif leaf.test in values.SEARCHES:
            unknown = unknown & ~(answer & (self.column("content") == Content.TRUNCATED.value))
        return pl.when(~unknown).then(answer)


def pattern_of(leaf: Leaf) -> str | None:
    """Return the regular expression that a leaf searches for, None where the leaf is not a search."""
    if leaf.test is Test.MATCHES:
        return str(leaf.operands[0])
    return re.escape(str(leaf.operands[0])) if leaf.test is Test.CONTAINS else None


def combined(predicate: Predicate, answer: Callable[[Leaf], pl.Expr]) -> pl.Expr:
    """Return the predicate as a nullable Boolean, combined from its leaves' answers; null is unknown."""
    match predicate:
        case Literal(value):
            return _constant(value)
        case And(()) | Or(()):
            # Polars does not fold an empty list.
            return _constant(isinstance(predicate, And))
        case Not(arg):
            return ~combined(arg, answer)
        case And(args):
            return pl.all_horizontal([combined(arg, answer) for arg in args])
        case Or(args):
            return pl.any_horizontal([combined(arg, answer) for arg in args])
        case Leaf():
            return answer(predicate)


def _constant(value: bool) -> pl.Expr:
    """Return the same answer for every row, also where no other column is selected."""
    return pl.repeat(value, pl.len(), dtype=pl.Boolean)


def is_known(predicate: Predicate) -> bool:
    """Return whether the predicate is never unknown, whatever the event."""
    return all(
        CAPTURED_FIELDS.isdisjoint(path.field for path in leaf.paths)
        and (
            leaf.path.field != "kind"
            or (leaf.test in (Test.EQ, Test.NE, Test.IN) and not _is_kind_unknown(leaf.operands))
        )
        for leaf in leaves(predicate)
    )


def _is_kind_unknown(kinds: Iterable[Scalar]) -> bool:
    """Return whether an `unknown` event, which is `user` or `assistant`, may or may not be of these kinds."""
    return Kind.UNKNOWN not in kinds and bool({Kind.USER, Kind.ASSISTANT}.intersection(kinds))


def kind_answer(leaf: Leaf, kind: pl.Expr) -> pl.Expr:
    """Return the answer about `kind`; null on an `unknown` event if `user` and `assistant` decide it."""
    if leaf.test is Test.NE:
        return ~kind_answer(Leaf(leaf.path, Test.EQ, leaf.operands), kind)
    kinds = [kind.value for kind in Kind]
    answers = pl.DataFrame({"kind": kinds}).select(values.answer(leaf, pl.col("kind"))).to_series()
    true = [kind for kind, answer in zip(kinds, answers, strict=True) if answer]
    answer = kind.is_in(true) if len(true) != 1 else kind == true[0]
    if not _is_kind_unknown(true):
        return answer
    return pl.when(kind != Kind.UNKNOWN.value).then(answer)
