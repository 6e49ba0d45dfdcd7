"""The events of an archive against conditions: the tools, what is never true, and samples of contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import polars as pl

from ...rules.labels.few import WORD_BITS
from ...rules.labels.guarded import LabelPlan
from ...rules.model.predicate import Predicate
from ...schemas.event import Kind
from ..prepare.buckets import EventRows, until
from ..prepare.spill import passes
from ..sources.discover import SourceFile
from ..sources.event_files import reading
from .conditions import Allowed, Context
from .json_paths import PathCounter, paths_of

CONTENTS_READ = 200
"""Contents with the least hashes that are read for the paths and values that a message suggests."""
PROBED_PASSES = 4
"""Passes whose first rows are searched for what conditions need, before all rows are."""
PROBED_ROWS = 20_000
"""First rows of such a pass."""
PROBED_CONTENTS = 40
"""Events of each tool and kind among them whose contents are read."""
NAMES_MAX = 1_000
"""Different values of a field, such as the names of agents, that are compared with misspelt ones."""

ERROR_TEXT = "Error"
"""The beginning of a result that reports an error as text."""

CONTENT_FIELDS = ("args", "result")
TEXT_FIELDS = (*CONTENT_FIELDS, "call_id", "agent", "model", "service")
"""The fields of which beginnings have contents."""
SEARCHED_FIELDS = frozenset({*TEXT_FIELDS, "attributes"})
"""The fields of whose paths it is known whether an event has them."""


class Probe(NamedTuple):
    """A condition that is searched for among some events."""

    context: Context
    predicate: Predicate


class Failures(NamedTuple):
    """The number of results that have an error, and of others that begin with `ERROR_TEXT`."""

    errors: int
    texts: int


class Holder(NamedTuple):
    """A path that has a value, in the events of a tool and a kind."""

    path: str
    tool: str | None
    kind: str


@dataclass
class Beginnings:
    """Contents from the first rows of some passes, a few of each tool and kind, by field."""

    _documents: dict[tuple[str | None, str], dict[str, list[str]]] = field(
        default_factory=dict[tuple[str | None, str], dict[str, list[str]]]
    )

    def add(self, rows: pl.DataFrame) -> None:
        """Add the contents of rows with a tool, a kind and `TEXT_FIELDS`."""
        few = rows.group_by("tool", "kind", maintain_order=True).head(PROBED_CONTENTS)
        for (tool, kind), group in few.group_by("tool", "kind", maintain_order=True):
            found = self._documents.setdefault((tool, kind), {name: [] for name in TEXT_FIELDS})
            for name in TEXT_FIELDS:
                found[name] += group[name].drop_nulls().to_list()

    def documents(self, context: Context, name: str) -> Iterator[str]:
        """Yield the contents of a field in the events of a context."""
        for (tool, kind), found in self._documents.items():
            if context.has(tool, kind):
                yield from found.get(name, ())

    def paths(self, context: Context, name: str) -> list[str]:
        """Return the paths of a field in the events of a context."""
        return _paths(name, self.documents(context, name)) if name in CONTENT_FIELDS else []

    def holder(self, text: str, key: str) -> Holder | None:
        """Return the path that most often has a text as its value, one that ends in `key` first."""
        counted = Counter[Holder]()
        for (tool, kind), found in self._documents.items():
            for name in CONTENT_FIELDS:
                for document in found.get(name, ()):
                    if text in document:
                        counted.update(Holder(path, tool, kind) for path in paths_of(text, name, document))
        ranked = sorted(counted, key=lambda each: (_last(each.path) != key, -counted[each], each.path))
        return ranked[0] if ranked else None


def _last(path: str) -> str:
    return path.rpartition(".")[2].removesuffix("[*]")


@dataclass(frozen=True)
class ArchiveEvents:
    """The events of files up to a time.

    `labelled` has the number of rows of all these events by tool and kind, in parts, if they are known.
    """

    parts: Sequence[SourceFile]
    as_of: int | None
    labelled: Sequence[pl.DataFrame] = ()

    @cached_property
    def tools(self) -> Mapping[str, Counter[str]]:
        """Return the number of events of each kind by tool."""
        counted: dict[str, Counter[str]] = {}
        for named in self.labelled or self._each(by_tool):
            for tool, kind, count in named.iter_rows():
                counted.setdefault(tool, Counter())[kind] += count
        return counted

    @property
    def calls(self) -> Mapping[str, int]:
        """Return the number of calls by tool, of all tools that an event names."""
        return {tool: counted[Kind.TOOL_CALL.value] for tool, counted in self.tools.items()}

    def has(self, context: Context) -> bool:
        """Return whether a tool of the context has events of its kinds; true if any tool may have."""
        if context.tools is None:
            return context.kinds is None or bool(context.kinds)
        kinds = (self.tools[tool] for tool in context.tools & self.tools.keys())
        return any(context.kinds is None or context.kinds & found.keys() for found in kinds)

    @cached_property
    def failures(self) -> Mapping[str | None, Failures]:
        """Return the failures that the results of each tool report."""
        has_error = pl.col("error").is_not_null()
        is_text = pl.col("result").str.starts_with(ERROR_TEXT).fill_null(False) & ~has_error
        counts = has_error.sum().alias("errors"), is_text.sum().alias("texts")
        is_result, tools = pl.col("kind") == Kind.TOOL_RESULT.value, pl.col("tool").cast(pl.String)
        found: dict[str | None, Failures] = {}
        for counted in self._each(lambda events: events.filter(is_result).group_by(tools).agg(*counts)):
            for tool, errors, texts in counted.iter_rows():
                before = found.get(tool, Failures(0, 0))
                found[tool] = Failures(before.errors + errors, before.texts + texts)
        return found

    def names(self, name: str) -> Counter[str]:
        """Return the number of events with each value of a text field, of the most frequent values."""
        counted = Counter[str]()
        is_named, text = pl.col(name).is_not_null(), pl.col(name).cast(pl.String)
        for found in self._each(lambda events: events.filter(is_named).group_by(text).len()):
            counted.update(dict(found.iter_rows()))
        return Counter(dict(sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:NAMES_MAX]))

    def beginnings(self) -> Iterator[Beginnings]:
        """Yield the beginnings of one pass, then of two, and so on."""
        found, columns = Beginnings(), pl.col("tool", "kind", *TEXT_FIELDS).cast(pl.String)
        firsts = self._each(lambda events: events.select(columns).head(PROBED_ROWS))
        for rows in islice(firsts, PROBED_PASSES):
            found.add(rows)
            yield found

    def never(self, probes: Sequence[Probe]) -> list[bool]:
        """Return of each probe whether its condition is true at no event of its context and false at one."""
        by_context: dict[Context, list[int]] = {}
        for number, probe in enumerate(probes):
            by_context.setdefault(probe.context, []).append(number)
        never = set[int]()
        for context, numbers in by_context.items():
            answers = self._answers(context, [probes[number].predicate for number in numbers])
            never |= {number for number, seen in zip(numbers, answers, strict=True) if seen == {False}}
        return [number in never for number in range(len(probes))]

    def _answers(self, context: Context, predicates: Sequence[Predicate]) -> list[set[bool]]:
        """Return of each predicate which truth values it has at the events of a context."""
        plan = LabelPlan(predicates)
        answers = list(map(plan.predicate, predicates))
        flags = [flag for answer in answers for flag in ((~answer).any(), answer.any())]
        named = [flag.alias(str(number)) for number, flag in enumerate(flags)]
        is_inside = [pl.col("kind") != Kind.END.value, *_filters(context)]

        def flagged(events: pl.LazyFrame) -> pl.LazyFrame:
            return plan.apply(events.filter(*is_inside).select(sorted(plan.fields))).select(named)

        seen = [set[bool]() for _ in predicates]
        for rows in self._each(flagged):
            for number, flag in enumerate(rows.row(0)):
                if flag:
                    seen[number // 2].add(number % 2 == 1)
        return seen

    def paths(self, context: Context, name: str) -> list[str]:
        """Return the paths of a field in a sample of the events of a context."""
        return _paths(name, self.sample(context, name))

    def sample(self, context: Context, name: str) -> list[str]:
        """Return the contents of a field of the events of a context with the least hashes."""
        if name not in CONTENT_FIELDS:
            return []
        place = pl.struct("session_id", "occurrence", "seq").hash(0).alias("place")

        def sampled(events: pl.LazyFrame) -> pl.LazyFrame:
            chosen = events.filter(pl.col(name).is_not_null(), *_filters(context))
            return chosen.select(pl.col(name).alias("content"), place).bottom_k(CONTENTS_READ, by="place")

        contents = pl.concat(self._each(sampled)).sort("place", "content").head(CONTENTS_READ)
        return contents["content"].to_list()

    def _each(self, query: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Iterator[pl.DataFrame]:
        """Yield the result of a query for each pass."""
        for each in passes(self.parts):
            with reading(each.parts):
                found = query(until(each.frame, self.as_of)).collect(engine="streaming")
            yield found


def by_tool(events: EventRows) -> EventRows:
    """Return the number of events of each tool and kind."""
    return events.filter(pl.col("tool").is_not_null()).group_by("tool", "kind").len()


def _paths(name: str, documents: Iterable[str]) -> list[str]:
    """Return the paths in JSON documents of a field."""
    counter = PathCounter(name)
    for document in documents:
        counter.add(document)
    return sorted(usage.path for usage in counter.paths() if usage.keys is None)


def _filters(context: Context) -> Iterator[pl.Expr]:
    pairs: tuple[tuple[str, Allowed], ...] = (("tool", context.tools), ("kind", context.kinds))
    for column, values in pairs:
        if values is not None:
            yield pl.col(column).cast(pl.String).is_in(sorted(values))


def has_bit(words: Any, bit: int) -> bool:
    """Return whether words of labels have a bit."""
    return bool(int(words[bit // WORD_BITS]) >> bit % WORD_BITS & 1)
