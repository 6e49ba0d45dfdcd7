"""The plan on which labels are computed: named columns in stages, each distinct thing once."""

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
"""The stages, each a `with_columns` that may read the columns of the earlier ones."""


@dataclass
class ColumnPlan:
    """Columns being planned, for all rows that it is laid over. `regex_sets` are patterns searched together.

    Every method that returns an expression has put what that reads on the plan; `fields` are the event
    columns among it.
    """

    regex_sets: Mapping[Path, RegexSet] = field(default_factory=dict[Path, RegexSet])
    stages: list[dict[str, pl.Expr]] = field(
        default_factory=lambda: [dict[str, pl.Expr]() for _ in range(STAGES)]
    )
    fields: set[str] = field(default_factory=set[str])

    def apply(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """The events with the columns of the plan, whose names begin with `__`."""
        for stage in self.stages:
            if stage:
                events = events.with_columns(*stage.values())
        return events

    def apply_now(self, events: pl.DataFrame) -> pl.DataFrame:
        """As `apply`, on one thread: of few rows each column is done sooner than a thread is woken."""
        for stage in self.stages:
            if stage:
                events = events.with_columns_seq(*stage.values())
        return events

    def leaf(self, leaf: Leaf) -> pl.Expr:
        """The answer of a leaf as a nullable Boolean; null is unknown."""
        if leaf.path.field == "kind":
            return self.put(CHEAP, leaf, kind_answer(leaf, self.column("kind")))
        if is_cheap(leaf):
            return self.put(CHEAP, leaf, self._known(leaf, values.ask(leaf, self.column(leaf.path.field))))
        return self.put(ANSWERS, leaf, self._known(leaf, self._asked(leaf, self._subject(leaf))))

    def open(self, path: Path) -> pl.Expr | None:
        """Return where the path's field is unknown; None if it is metadata, which is always known."""
        if path.field not in CAPTURED_FIELDS:
            return None
        self.column(path.field)
        return self.put(OPEN, ("open", path.field), values.open_field(path.field))

    def found(self, path: Path) -> pl.Expr:
        """What stands at the path, as text: null where nothing does, a container's JSON text included."""
        column = self.column(path.field)
        if not path.steps:
            return column
        if path.field == "attributes":
            return self.put(FOUND, path, column.map.get(path.steps[0]))
        return self.put(FOUND, path, values.at_path(column, path.steps))

    def is_container(self, path: Path) -> pl.Expr:
        """Return whether an object or array stands at the path."""
        if path.field not in values.JSON_FIELDS:
            return pl.lit(False)
        column = self.column(path.field)
        if path.steps:
            expr = values.is_container(column, self.found(path), path.steps)
        else:
            expr = values.is_container_text(column)
        return self.put(VALUES, ("container", path), expr)

    def value(self, path: Path) -> pl.Expr:
        """Return what stands at the path if it is a scalar, as text."""
        if path.field in values.JSON_FIELDS and path.steps:
            return pl.when(~self.is_container(path)).then(self.found(path))
        if path.steps:
            return self.found(path)
        return values.whole(path.field, self.column(path.field))

    def column(self, name: str) -> pl.Expr:
        """A column of the events."""
        self.fields.add(name)
        if name in CAPTURED_FIELDS:
            self.fields |= {"kind", "content"}
        return pl.col(name)

    def put(self, stage: int, key: object, expr: pl.Expr) -> pl.Expr:
        """The column of that key in the stage, made from the expression if there is none yet."""
        columns = self.stages[stage]
        # By its text: as keys, `Leaf(..., (1,))` and `Leaf(..., (True,))` are equal.
        name = repr(key)
        if name not in columns:
            columns[name] = expr.alias(f"__{stage}_{len(columns)}")
        return pl.col(columns[name].meta.output_name())

    def _subject(self, leaf: Leaf) -> pl.Expr:
        """What the leaf asks about. The text of a whole object or array can be searched, but not compared."""
        if leaf.test is Test.IS_NULL and leaf.path.steps:
            return self.found(leaf.path)
        value = self.value(leaf.path)
        if leaf.path.steps or leaf.path.field not in values.JSON_FIELDS:
            return value
        if leaf.test is Test.IS_NULL or leaf.test in values.SEARCHES:
            return value
        return pl.when(~self.is_container(leaf.path)).then(value)

    def _asked(self, leaf: Leaf, value: pl.Expr) -> pl.Expr:
        """The leaf's answer on its value, false where there is none; in regex_sets of others beside it."""
        beside, pattern = self.regex_sets.get(leaf.path), pattern_of(leaf)
        if beside is None or pattern not in beside.patterns:
            return values.ask(leaf, value)
        found = self.put(SEARCHES, leaf.path, search(beside, value))
        return found.struct.field(f"p{beside.patterns.index(pattern)}")

    def _known(self, leaf: Leaf, answer: pl.Expr) -> pl.Expr:
        """The answer, or null where it is not known; what was found in a truncated text is still there."""
        unknown = self.open(leaf.path)
        if unknown is None:
            return answer
        if leaf.test is Test.IS_NULL:
            unknown = unknown & answer
        elif leaf.test in values.SEARCHES:
            unknown = unknown & ~(answer & (self.column("content") == Content.TRUNCATED.value))
        return pl.when(~unknown).then(answer)


def pattern_of(leaf: Leaf) -> str | None:
    """The regular expression that a leaf searches for, None where it is no search of a whole text."""
    if leaf.test is Test.MATCHES:
        return str(leaf.operands[0])
    return re.escape(str(leaf.operands[0])) if leaf.test is Test.CONTAINS else None


def combined(predicate: Predicate, answer: Callable[[Leaf], pl.Expr]) -> pl.Expr:
    """The predicate as a nullable Boolean, of the answers of its leaves; null is unknown."""
    match predicate:
        case Literal(value):
            return _constant(value)
        case And(()) | Or(()):
            # A guard of nothing: Polars folds no empty list.
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
    """The same answer for every row, whatever else is asked."""
    return pl.repeat(value, pl.len(), dtype=pl.Boolean)


def is_known(predicate: Predicate) -> bool:
    """Return whether the predicate is never unknown, whatever the event."""
    return all(
        leaf.path.field not in CAPTURED_FIELDS
        and (
            leaf.path.field != "kind"
            or (leaf.test in (Test.EQ, Test.NE, Test.IN) and not _doubts_kind(leaf.operands))
        )
        for leaf in leaves(predicate)
    )


def _doubts_kind(kinds: Iterable[Scalar]) -> bool:
    """Return whether an `unknown` event, which is one of `user` and `assistant`, may be of these kinds."""
    return Kind.UNKNOWN not in kinds and bool({Kind.USER, Kind.ASSISTANT}.intersection(kinds))


def kind_answer(leaf: Leaf, kind: pl.Expr) -> pl.Expr:
    """The answer about `kind`: on an `unknown` event, which is one of `user` and `assistant`, maybe null."""
    if leaf.test is Test.NE:
        return ~kind_answer(Leaf(leaf.path, Test.EQ, leaf.operands), kind)
    kinds = [kind.value for kind in Kind]
    answers = pl.DataFrame({"kind": kinds}).select(values.ask(leaf, pl.col("kind"))).to_series()
    true = [kind for kind, answer in zip(kinds, answers, strict=True) if answer]
    answer = kind.is_in(true) if len(true) != 1 else kind == true[0]
    if not _doubts_kind(true):
        return answer
    return pl.when(kind != Kind.UNKNOWN.value).then(answer)
