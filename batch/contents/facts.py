"""Facts about the events of an archive: a query over the events of each pass, and the sum of its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import polars as pl

from ...rules.labels.guarded import LabelPlan
from ...rules.model.predicate import Predicate
from ...schemas.event import Kind
from ...schemas.frames.events import EVENT_SCHEMA
from .beginnings import CONTENT_FIELDS
from .conditions import Context

CONTENTS_READ = 200
"""Contents with the least hashes that are read for the paths and values that a message suggests."""
NAMES_MAX = 1_000
"""Different values of a field, such as the names of agents, that are compared with misspelt ones."""
ERROR_TEXT = "Error"
"""The beginning of a result that reports an error as text."""

PLACE = ("session_id", "occurrence", "seq")
"""The columns that name the place of an event."""


class EventFact(Protocol):
    """A fact that is gathered pass by pass, in any order of the passes.

    `columns` are those of the events that it reads.
    """

    @property
    def columns(self) -> Sequence[str]:
        """Return the columns of the events that the query reads."""
        ...

    def query(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return what the fact needs of the events of a pass."""
        ...

    def add(self, rows: pl.DataFrame) -> None:
        """Add the result of the query."""
        ...


@dataclass
class ToolCounts:
    """The number of events of each kind by tool."""

    by_tool: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    columns: Sequence[str] = ("tool", "kind")

    def query(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return the number of events of each tool and kind."""
        return events.filter(pl.col("tool").is_not_null()).group_by("tool", "kind").len()

    def add(self, rows: pl.DataFrame) -> None:
        """Add the counts of a pass."""
        for tool, kind, count in rows.iter_rows():
            self.by_tool.setdefault(tool, Counter())[kind] += count


class Failures(NamedTuple):
    """The number of results that have an error, and of others that begin with `ERROR_TEXT`."""

    errors: int
    texts: int


@dataclass
class FailureCounts:
    """The failures that the results of each tool report."""

    by_tool: dict[str | None, Failures] = field(default_factory=dict[str | None, Failures])
    columns: Sequence[str] = ("tool", "kind", "error", "result")

    def query(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return the failures of each tool."""
        has_error = pl.col("error").is_not_null()
        is_text = pl.col("result").str.starts_with(ERROR_TEXT).fill_null(False) & ~has_error
        counts = has_error.sum().alias("errors"), is_text.sum().alias("texts")
        is_result, tools = pl.col("kind") == Kind.TOOL_RESULT.value, pl.col("tool").cast(pl.String)
        return events.filter(is_result).group_by(tools).agg(*counts)

    def add(self, rows: pl.DataFrame) -> None:
        """Add the counts of a pass."""
        for tool, errors, texts in rows.iter_rows():
            before = self.by_tool.get(tool, Failures(0, 0))
            self.by_tool[tool] = Failures(before.errors + errors, before.texts + texts)


class NameCounts:
    """The number of events with each value of a text field."""

    def __init__(self, name: str) -> None:
        self.columns: Sequence[str] = (name,)
        self._counted = Counter[str]()

    @property
    def most(self) -> Counter[str]:
        """Return the most frequent values."""
        ranked = sorted(self._counted.items(), key=lambda item: (-item[1], item[0]))
        return Counter(dict(ranked[:NAMES_MAX]))

    def query(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return the number of events with each value."""
        name = pl.col(*self.columns)
        return events.filter(name.is_not_null()).group_by(name.cast(pl.String)).len()

    def add(self, rows: pl.DataFrame) -> None:
        """Add the counts of a pass."""
        for name, count in rows.iter_rows():
            self._counted[name] += count


class Truths:
    """The truth values that predicates have at the events of a context, except `end` rows.

    `seen` has those of each predicate.
    """

    def __init__(self, context: Context, predicates: Sequence[Predicate]) -> None:
        self.seen = [set[bool]() for _ in predicates]
        self._plan = LabelPlan(predicates)
        answers = list(map(self._plan.predicate, predicates))
        flags = [flag for answer in answers for flag in ((~answer).any(), answer.any())]
        self._flags = [flag.alias(str(number)) for number, flag in enumerate(flags)]
        self._is_inside = [pl.col("kind") != Kind.END.value, *inside(context)]
        self._fields = sorted(self._plan.fields)
        self.columns: Sequence[str] = (*self._fields, "tool", "kind")

    def query(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return whether each predicate is false, and true, at an event of a pass."""
        inside = events.filter(*self._is_inside).select(self._fields)
        return self._plan.apply(inside).select(self._flags)

    def add(self, rows: pl.DataFrame) -> None:
        """Add the truth values of a pass."""
        for number, flag in enumerate(rows.row(0)):
            if flag:
                self.seen[number // 2].add(number % 2 == 1)


class ContentSample:
    """The contents of a field in the events of a context with the least hashes."""

    def __init__(self, context: Context, name: str) -> None:
        assert name in CONTENT_FIELDS, f"{name} has no contents"
        self.columns: Sequence[str] = (name, *PLACE, "tool", "kind")
        self._name = name
        self._filters = [pl.col(name).is_not_null(), *inside(context)]
        self._least: list[tuple[int, str]] = []

    @property
    def contents(self) -> list[str]:
        """Return the contents."""
        return [content for _, content in self._least]

    def query(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return the contents of a pass with the least hashes."""
        place = pl.struct(PLACE).hash(0).alias("place")
        content = pl.col(self._name).alias("content")
        return events.filter(*self._filters).select(content, place).bottom_k(CONTENTS_READ, by="place")

    def add(self, rows: pl.DataFrame) -> None:
        """Add the contents of a pass."""
        # Python's texts are copies: a column would hold the texts of the whole pass in memory.
        found = rows.select("place", "content").iter_rows()
        self._least = sorted([*self._least, *found])[:CONTENTS_READ]


def inside(context: Context) -> list[pl.Expr]:
    """Return the conditions of the events of a context."""
    found: list[pl.Expr] = []
    if context.kinds is not None:
        # As numbers: the texts of an enumeration would be made of all rows.
        named = sorted(kind.value for kind in Kind if kind.value in context.kinds)
        kinds = pl.Series(named, dtype=EVENT_SCHEMA["kind"])
        found.append(pl.col("kind").is_in(kinds.implode()))
    if context.tools is not None:
        found.append(pl.col("tool").cast(pl.String).is_in(sorted(context.tools)))
    return found
