"""The sheet on which labels are computed: named columns in stages, each distinct thing once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from ..schemas.event import Content, Kind
from . import label_value as values
from .label_guard import CAPTURED_FIELDS, TRUE, is_cheap, leaves
from .label_search import Family, family, far
from .predicate import And, Leaf, Literal, Not, Or, Path, Predicate, Scalar, Test

ANSWERS, GUARDS, DOCUMENTS, FOUND, VALUES, SUBJECTS, FOREIGN, NEAR, SUSPECTS, COSTLY, RESULTS = range(11)
"""The stages, each a `with_columns` that may read the columns of the earlier ones."""


@dataclass
class Sheet:
    """Columns being planned. `leaf_guards` and `path_guards` say on which rows each is needed.

    Every method that returns an expression has put what that reads on the sheet.
    """

    leaf_guards: Mapping[Leaf, Predicate]
    path_guards: Mapping[Path, Predicate]
    stages: list[dict[str, pl.Expr]] = field(
        default_factory=lambda: [dict[str, pl.Expr]() for _ in range(RESULTS)]
    )
    fields: set[str] = field(default_factory=set[str])
    _families: dict[str, Family] = field(default_factory=dict[str, Family])

    def apply(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """The events with the columns of the sheet, whose names begin with `__`."""
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

    def predicate(self, predicate: Predicate) -> pl.Expr:
        """The predicate as a nullable Boolean; null is unknown."""
        match predicate:
            case Literal(value):
                return pl.repeat(value, pl.len(), dtype=pl.Boolean)
            case Not(arg):
                return ~self.predicate(arg)
            case And(args):
                return pl.all_horizontal([self.predicate(arg) for arg in args])
            case Or(args):
                return pl.any_horizontal([self.predicate(arg) for arg in args])
            case Leaf():
                return self._leaf(predicate)

    def open(self, path: Path) -> pl.Expr | None:
        """Where the path's field is unknown; None if it is metadata, which is always known."""
        if path.field not in CAPTURED_FIELDS:
            return None
        self._column(path.field)
        return self.put(ANSWERS, ("open", path.field), values.open_field(path.field))

    def document(self, path: Path) -> pl.Expr:
        """The JSON text that the path leads into; empty, or null, on rows where the path is not needed."""
        return self._document(path.field, self.path_guards.get(path, TRUE))

    def found(self, path: Path) -> pl.Expr:
        """What stands at the path, as text: null where nothing does, a container's JSON text included."""
        return self.put(FOUND, path, self._found(path)) if path.steps else self._column(path.field)

    def is_container(self, path: Path) -> pl.Expr:
        """Whether an object or array stands at the path."""
        if path.field not in values.JSON_FIELDS:
            return pl.lit(False)
        if path.steps:
            expr = values.is_container(self.document(path), self.found(path), path.steps)
        else:
            expr = values.is_container_text(self.document(path))
        return self.put(VALUES, ("container", path), expr)

    def value(self, path: Path, guard: Predicate | None = None) -> pl.Expr:
        """What stands at the path if it is a scalar, as text; on rows without the guard anything."""
        if path.field in values.JSON_FIELDS and path.steps:
            return pl.when(~self.is_container(path)).then(self.found(path))
        if path.steps:
            return self.found(path)
        if guard is None or guard == TRUE or path.field not in CAPTURED_FIELDS:
            return values.whole(path.field, self._column(path.field))
        document = self._document(path.field, guard)
        return self.put(FOUND, (path, guard), values.whole(path.field, document))

    def _leaf(self, leaf: Leaf) -> pl.Expr:
        if leaf.path.field == "kind":
            return self.put(ANSWERS, leaf, kind_answer(leaf, self._column("kind")))
        if is_cheap(leaf):
            return self.put(ANSWERS, leaf, values.ask(leaf, self._column(leaf.path.field)))
        bare_null = leaf.test is Test.IS_NULL and leaf.path.steps
        value = self.found(leaf.path) if bare_null else self.value(leaf.path, self.leaf_guards.get(leaf))
        answer = self._search(leaf, value) if leaf.test is Test.MATCHES else values.ask(leaf, value)
        return self.put(COSTLY, leaf, self._known(leaf, answer))

    def _search(self, leaf: Leaf, value: pl.Expr) -> pl.Expr:
        """Where the leaf's pattern matches, false where there is no value; in company of others beside it."""
        pattern, key = str(leaf.operands[0]), (leaf.path, self.leaf_guards.get(leaf, TRUE))
        beside = self._family(*key)
        if pattern in beside.alone or not (beside.forms or beside.any):
            return values.ask(leaf, value)
        near = self.put(SUBJECTS, key, value)
        elsewhere = pl.lit(False)
        if beside.forms:
            found = self.put(FOREIGN, key, far(beside, near))
            near = self.put(NEAR, key, _where(~found.struct.field("foreign"), near))
            elsewhere = found.struct.field(f"p{beside.patterns.index(pattern)}")
        if beside.any is not None:
            near = self.put(SUSPECTS, key, _where(near.str.contains(beside.any), near))
        form = beside.forms.get(pattern)
        return near.str.contains(form.plain if form else pattern).fill_null(False) | elsewhere

    def _family(self, path: Path, guard: Predicate) -> Family:
        """The patterns that are searched in the same texts."""
        key = repr((path, guard))
        if key not in self._families:
            self._families[key] = family(
                [
                    str(leaf.operands[0])
                    for leaf, own in self.leaf_guards.items()
                    if leaf.test is Test.MATCHES and repr((leaf.path, own)) == key
                ]
            )
        return self._families[key]

    def _known(self, leaf: Leaf, answer: pl.Expr) -> pl.Expr:
        """The answer, or null where it is not known; what was found in a truncated text is still there."""
        unknown = self.open(leaf.path)
        if unknown is None:
            return answer
        if leaf.test is Test.IS_NULL:
            unknown = unknown & answer
        elif leaf.test in values.SEARCHES:
            unknown = unknown & ~(answer & (self._column("content") == Content.TRUNCATED.value))
        return pl.when(~unknown).then(answer)

    def _found(self, path: Path) -> pl.Expr:
        if path.field == "attributes":
            return self._column("attributes").map.get(path.steps[0])
        return values.at_path(self.document(path), path.steps)

    def _document(self, name: str, guard: Predicate) -> pl.Expr:
        """A field's text where the guard is not false, and an empty text elsewhere."""
        if guard == TRUE:
            return self._column(name)
        rows = self.put(GUARDS, guard, self.predicate(guard).fill_null(True))
        return self.put(DOCUMENTS, (name, guard), _where(rows, self._column(name)))

    def _column(self, name: str) -> pl.Expr:
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


def _where(rows: pl.Expr, text: pl.Expr) -> pl.Expr:
    """The text on these rows, and elsewhere an empty one: a search also runs on what lies under a null."""
    return pl.when(rows).then(text).otherwise(pl.lit(""))


def is_known(predicate: Predicate) -> bool:
    """Whether the predicate is never unknown, whatever the event."""
    return all(
        leaf.path.field not in CAPTURED_FIELDS
        and (
            leaf.path.field != "kind"
            or (leaf.test in (Test.EQ, Test.NE, Test.IN) and not _doubts_kind(leaf.operands))
        )
        for leaf in leaves(predicate)
    )


def _doubts_kind(kinds: Iterable[Scalar]) -> bool:
    """Whether an `unknown` event, which is one of `user` and `assistant`, may be of these kinds."""
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
