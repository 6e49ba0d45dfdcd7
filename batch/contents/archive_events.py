"""The events of an archive against conditions: the tools, what is never true, and samples of contents.

What was observed while the events were labelled is not read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import polars as pl

from ...rules.labels.few import WORD_BITS
from ...rules.labels.guarded import LabelPlan
from ...rules.model.predicate import Predicate
from ...schemas.event import Content, Kind
from ...schemas.frames.events import EVENT_SCHEMA
from ..prepare.buckets import until
from ..prepare.spill import passes
from ..sources.discover import SourceFile
from ..sources.event_files import reading
from .asked import Probe
from .beginnings import CONTENT_FIELDS, PROBED_PASSES, PROBED_ROWS, TEXT_FIELDS, Beginnings, paths_in
from .conditions import Context
from .facts import ContentSample, EventFact, FailureCounts, Failures, NameCounts, ToolCounts, Truths
from .observed_events import ObservedEvents

SEARCHED_FIELDS = frozenset({*TEXT_FIELDS, "attributes"})
"""The fields of whose paths it is known whether an event has them."""

Gathered = TypeVar("Gathered", bound=EventFact)


@dataclass(frozen=True)
class ArchiveEvents:
    """The events of files up to a time, and what was `observed` of all of them."""

    parts: Sequence[SourceFile]
    as_of: int | None
    observed: ObservedEvents | None = None

    @cached_property
    def tools(self) -> Mapping[str, Counter[str]]:
        """Return the number of events of each kind by tool."""
        known = None if self.observed is None else self.observed.tools
        return (known or self._gathered(ToolCounts())).by_tool

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

    def has_tool_of(self, condition: Predicate) -> bool:
        """Return whether a condition on the tool alone is true of a tool that an event names."""
        names = [tool for tool, counted in self.tools.items() if counted.keys() - {Kind.END.value}]
        named = pl.DataFrame({"tool": names}, {"tool": EVENT_SCHEMA["tool"]}).with_columns(
            pl.lit(Kind.TOOL_CALL.value, EVENT_SCHEMA["kind"]).alias("kind"),
            pl.lit(Content.CAPTURED.value, EVENT_SCHEMA["content"]).alias("content"),
        )
        plan = LabelPlan([condition])
        answer = plan.predicate(condition)
        return bool(plan.apply(named.lazy()).select(answer.any()).collect().item())

    @cached_property
    def failures(self) -> Mapping[str | None, Failures]:
        """Return the failures that the results of each tool report."""
        known = None if self.observed is None else self.observed.failures
        return (known or self._gathered(FailureCounts())).by_tool

    def names(self, name: str) -> Counter[str]:
        """Return the number of events with each value of a text field, of the most frequent values."""
        known = None if self.observed is None else self.observed.names.get(name)
        return (known or self._gathered(NameCounts(name))).most

    def beginnings(self) -> Iterator[Beginnings]:
        """Yield the beginnings of one pass, then of two, and so on; once those of all if they are known."""
        if self.observed is not None:
            yield self.observed.beginnings
            return
        found, columns = Beginnings(), pl.col("tool", "kind", *TEXT_FIELDS)
        firsts = self._each(lambda events: events.select(columns).head(PROBED_ROWS))
        for rows in islice(firsts, PROBED_PASSES):
            found.add(rows)
            yield found

    def never(self, probes: Sequence[Probe]) -> list[bool]:
        """Return of each probe whether its condition is true at no event of its context and false at one."""
        seen = [None if self.observed is None else self.observed.truths(probe) for probe in probes]
        by_context: dict[Context, list[int]] = {}
        for number, probe in enumerate(probes):
            if seen[number] is None:
                by_context.setdefault(probe.context, []).append(number)
        for context, numbers in by_context.items():
            found = self._gathered(Truths(context, [probes[number].predicate for number in numbers]))
            for number, truths in zip(numbers, found.seen, strict=True):
                seen[number] = truths
        return [truths == {False} for truths in seen]

    def paths(self, context: Context, name: str) -> list[str]:
        """Return the paths of a field in a sample of the events of a context."""
        return paths_in(name, self.sample(context, name))

    def sample(self, context: Context, name: str) -> list[str]:
        """Return the contents of a field of the events of a context with the least hashes."""
        if name not in CONTENT_FIELDS:
            return []
        known = None if self.observed is None else self.observed.sample(context, name)
        return (known or self._gathered(ContentSample(context, name))).contents

    def _gathered(self, fact: Gathered) -> Gathered:
        """Return a fact about all events, which are read for it."""
        for rows in self._each(fact.query):
            fact.add(rows)
        return fact

    def _each(self, query: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Iterator[pl.DataFrame]:
        """Yield the result of a query for each pass."""
        for each in passes(self.parts):
            with reading(each.parts):
                found = query(until(each.frame, self.as_of)).collect(engine="streaming")
            yield found


def has_bit(words: Any, bit: int) -> bool:
    """Return whether words of labels have a bit."""
    return bool(int(words[bit // WORD_BITS]) >> bit % WORD_BITS & 1)
