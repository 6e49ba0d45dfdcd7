"""The column plan of labels: named columns in stages, each distinct expression once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from ...schemas.event import Content, Kind
from ..model.predicate import (
    ELEMENT,
    And,
    Condition,
    Contained,
    Elements,
    Fold,
    Leaf,
    ListCondition,
    Literal,
    Measured,
    Not,
    Or,
    Path,
    Predicate,
    Quantified,
    Quantifier,
    Scalar,
    Tally,
    Test,
    event_paths,
    leaves,
)
from . import json_values as values
from .guards import CAPTURED_FIELDS, is_cheap
from .lists.elements import ElementQuestion
from .lists.folds import counted, length, quantified, summed
from .lists.membership import looked_up
from .regex_sets import RegexSet, search

OPEN, CHEAP, FOUND, VALUES, SEARCHES, LISTS, ANSWERS, STAGES = range(8)
"""The stages; each is one `with_columns` that may read the columns of earlier stages."""


@dataclass
class ColumnPlan:
    """A plan of columns, which methods extend. `regex_sets` are patterns to be searched together, by path.

    A method that returns an expression adds the columns that the expression reads; `fields` are the event
    columns among them. A plan for the elements of lists has the plan of the rows that hold the lists as
    `outer`; `carried` are the columns that it takes from there, and `looked_up` lists of the event.
    """

    regex_sets: Mapping[Path, RegexSet] = field(default_factory=dict[Path, RegexSet])
    stages: list[dict[str, pl.Expr]] = field(
        default_factory=lambda: [dict[str, pl.Expr]() for _ in range(STAGES)]
    )
    fields: set[str] = field(default_factory=set[str])
    outer: ColumnPlan | None = None
    carried: dict[str, pl.Expr] = field(default_factory=dict[str, pl.Expr])
    looked_up: dict[str, pl.Expr] = field(default_factory=dict[str, pl.Expr])

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

    def leaf(self, leaf: Condition) -> pl.Expr:
        """Return the answer of a leaf as a nullable Boolean; null is unknown."""
        if not isinstance(leaf, Leaf):
            return self.put(ANSWERS, leaf, self._list_answer(leaf))
        if leaf.path.field == "kind":
            return self.put(CHEAP, leaf, kind_answer(leaf, self.column("kind")))
        if is_cheap(leaf) and leaf.against is None:
            answer = values.answer(leaf.test, leaf.operands, self.column(leaf.path.field))
            return self.put(CHEAP, leaf, self._known(leaf, answer))
        value = self._operand(leaf.test, leaf.path)
        return self.put(ANSWERS, leaf, self._known(leaf, self._answer(leaf, value)))

    def open(self, path: Path) -> pl.Expr | None:
        """Return where the path's field is unknown; None if the field is metadata, which is always known."""
        if path.field not in CAPTURED_FIELDS:
            return None
        if self.outer is not None:
            unknown = self.outer.open(path)
            return None if unknown is None else self._carry(("open", path.field), unknown)
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

    def _operand(self, test: Test, path: Path) -> pl.Expr:
        """Return the text at a path for a test. A whole object or array can be searched, not compared."""
        if path.field == ELEMENT:
            path = _in_array(path)
        elif self.outer is not None:
            return self._carry(path, self.outer._operand(test, path))
        if test is Test.IS_NULL and path.steps:
            return self.found(path)
        value = self.value(path)
        if path.steps or path.field not in values.JSON_FIELDS:
            return value
        if test is Test.IS_NULL or test in values.SEARCHES:
            return value
        return pl.when(~self.is_container(path)).then(value)

    def _carry(self, key: object, expr: pl.Expr) -> pl.Expr:
        """Return a column of the rows that hold the lists, for the elements' rows."""
        column = self.carried.setdefault(repr(key), expr.alias(f"__outer_{len(self.carried)}"))
        return pl.col(column.meta.output_name())

    def _answer(self, leaf: Leaf, value: pl.Expr) -> pl.Expr:
        """Return the leaf's answer on its value, false where there is none; use the path's regex set."""
        if leaf.against is not None:
            return values.compare_values(leaf.test, value, self._operand(leaf.test, leaf.against))
        regexes, pattern = self.regex_sets.get(leaf.path), pattern_of(leaf)
        if regexes is None or pattern not in regexes.patterns:
            return values.answer(leaf.test, leaf.operands, value)
        found = self.put(SEARCHES, leaf.path, search(regexes, value))
        return found.struct.field(f"p{regexes.patterns.index(pattern)}")

    def _known(self, leaf: Leaf, answer: pl.Expr) -> pl.Expr:
        """Return the answer, or null where it is unknown; a match in a truncated text is known."""
        unknown = self._open_any(leaf.path, leaf.against)
        if unknown is None:
            return answer
        if leaf.test is Test.IS_NULL:
            unknown = unknown & answer
        elif leaf.test in values.SEARCHES:
            unknown = unknown & ~(answer & (self.column("content") == Content.TRUNCATED.value))
        return pl.when(~unknown).then(answer)

    def _open_any(self, *paths: Path | None) -> pl.Expr | None:
        """Return where the field of a path is unknown; None if all are always known."""
        found = (None if path is None else self.open(path) for path in paths)
        opened = [unknown for unknown in found if unknown is not None]
        return None if not opened else opened[0] if len(opened) == 1 else pl.any_horizontal(opened)

    def _list_answer(self, condition: ListCondition) -> pl.Expr:
        """Return the answer of a condition on a list; null is unknown."""
        match condition:
            case Quantified(quantifier, elements, where):
                answer = self.put(LISTS, condition, quantified(self._question(elements, where), quantifier))
                unknown = self._open_any(elements.list)
            case Contained(path, elements):
                answer = self.put(LISTS, condition, self._contained(path, elements))
                unknown = self._open_any(path, elements.list)
            case Measured(tally, test, operands, against):
                value, unknown = self._tally(tally)
                if against is None:
                    answer, right_unknown = values.answer(test, operands, value), None
                elif isinstance(against, Tally):
                    right, right_unknown = self._tally(against)
                    answer = values.compare_values(test, value, right)
                else:
                    right, right_unknown = self._operand(test, against), self._open_any(against)
                    answer = values.compare_values(test, value, right)
                unknown = _any_of(unknown, right_unknown)
        return answer if unknown is None else pl.when(~unknown).then(answer)

    def _tally(self, tally: Tally) -> tuple[pl.Expr, pl.Expr | None]:
        """Return the number of a list as text, null where it has none, and where it is unknown."""
        lists, unknown = self._list(tally.elements.list), self._open_any(tally.elements.list)
        if tally.fold is Fold.SUM:
            return self.put(LISTS, tally, summed(lists, tally.elements.steps)), unknown
        if tally.where is None:
            return self.put(LISTS, tally, length(lists)), unknown
        count = self.put(LISTS, tally, counted(self._question(tally.elements, tally.where)))
        return count.struct.field("value"), _any_of(unknown, count.struct.field("unknown"))

    def _list(self, path: Path) -> pl.Expr:
        """Return the JSON text of the list at a path; null where there is none."""
        path = _in_array(path) if path.field == ELEMENT else path
        column = self.column(path.field)
        if path.steps:
            found = self.found(path)
            return pl.when(self.is_container(path) & found.str.starts_with("[")).then(found)
        whole = pl.when(column.str.contains(r"^\s*\[")).then(column)
        return self.put(FOUND, ("list", path), values.at_path(whole, ()))

    def _question(self, elements: Elements, where: Predicate) -> ElementQuestion:
        """Return a condition on the elements of a list."""
        inner = ColumnPlan(outer=self)
        return self._asked(elements, inner, combined(where, inner.leaf))

    def _contained(self, path: Path, elements: Elements) -> pl.Expr:
        """Return whether an element equals the value at a path of the rows that hold the list."""
        inner = ColumnPlan(outer=self)
        if self.outer is not None and elements.list.field != ELEMENT:
            element = inner._operand(Test.EQ, Path(ELEMENT))
            lists = self._look_up(elements.list)
            return looked_up(lists, self._operand(Test.EQ, path), elements.steps, inner.answers(element))
        value = inner._carry(path, self._operand(Test.EQ, path))
        equal = values.compare_values(Test.EQ, inner._operand(Test.EQ, Path(ELEMENT)), value)
        return quantified(self._asked(elements, inner, equal), Quantifier.ANY)

    def _look_up(self, path: Path) -> pl.Expr:
        """Return the column of a list of the event in a plan for elements."""
        assert self.outer is not None, "the lists of an event are columns of its own plan"
        lists = self.outer._list(path)
        column = self.looked_up.setdefault(repr(path), lists.alias(f"__list_{len(self.looked_up)}"))
        return pl.col(column.meta.output_name())

    def _asked(self, elements: Elements, inner: ColumnPlan, answer: pl.Expr) -> ElementQuestion:
        lists = self._list(elements.list)
        return ElementQuestion(lists, elements.steps, inner.carried, inner.looked_up, inner.answers(answer))

    def answers(self, answer: pl.Expr) -> Callable[[pl.DataFrame], pl.Series]:
        """Return a function that evaluates an expression of this plan on a frame."""

        def evaluate(frame: pl.DataFrame) -> pl.Series:
            return self.apply_now(frame).select_seq(answer).to_series()

        return evaluate


def _in_array(path: Path) -> Path:
    """Return the path of an element in the column of elements, each of which is an array of one value."""
    return Path(ELEMENT, (0, *path.steps))


def _any_of(left: pl.Expr | None, right: pl.Expr | None) -> pl.Expr | None:
    """Return where either is true; None if both are None."""
    return right if left is None else left if right is None else left | right


def pattern_of(leaf: Condition) -> str | None:
    """Return the regular expression that a leaf searches for, None where the leaf is not a search."""
    if not isinstance(leaf, Leaf):
        return None
    if leaf.test is Test.MATCHES:
        return str(leaf.operands[0])
    return re.escape(str(leaf.operands[0])) if leaf.test is Test.CONTAINS else None


def combined(predicate: Predicate, answer: Callable[[Condition], pl.Expr]) -> pl.Expr:
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
        case _:
            return answer(predicate)


def _constant(value: bool) -> pl.Expr:
    """Return the same answer for every row, also where no other column is selected."""
    return pl.repeat(value, pl.len(), dtype=pl.Boolean)


def is_known(predicate: Predicate) -> bool:
    """Return whether the predicate is never unknown, whatever the event."""
    return all(
        CAPTURED_FIELDS.isdisjoint(path.field for path in event_paths(leaf))
        and (
            not isinstance(leaf, Leaf)
            or leaf.path.field != "kind"
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
    answers = (
        pl.DataFrame({"kind": kinds})
        .select(values.answer(leaf.test, leaf.operands, pl.col("kind")))
        .to_series()
    )
    true = [kind for kind, answer in zip(kinds, answers, strict=True) if answer]
    answer = kind.is_in(true) if len(true) != 1 else kind == true[0]
    if not _is_kind_unknown(true):
        return answer
    return pl.when(kind != Kind.UNKNOWN.value).then(answer)
