"""The facts by which likely mistakes are found, gathered from the events while they are labelled.

An archive of many files takes as long to read again as to label.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import polars as pl

from .asked import Asked, Probe, Search, with_others
from .beginnings import CONTENT_FIELDS, PROBED_PASSES, TEXT_FIELDS, Beginnings
from .conditions import Context
from .facts import (
    PLACE,
    ContentSample,
    EventFact,
    FailureCounts,
    NameCounts,
    ToolCounts,
    Truths,
    inside,
)
from .needs import field_of

SampleKey = tuple[Context, str]


class ObservedEvents:
    """The facts about all events that were added, one pass after the other.

    `asked` are the searches that may be made; `names` the fields of which values are counted. The failures of
    tools are counted if there are conditions on `errors`. The passes are those of the archive, in its order.
    """

    def __init__(self, asked: Asked, names: Iterable[str], *, errors: bool) -> None:
        self.tools = ToolCounts()
        self.failures = FailureCounts() if errors else None
        self.names: Mapping[str, NameCounts] = {name: NameCounts(name) for name in names}
        self.beginnings = Beginnings()
        counts: list[EventFact | None] = [self.tools, self.failures, *self.names.values()]
        self._counts = [fact for fact in counts if fact is not None]
        self._asked = asked
        self._lacking = asked.searches
        self._passes = 0
        self._truths: dict[Context, tuple[tuple[str, ...], Truths]] = {}
        self._seen: dict[str, set[bool]] = {}
        self._samples: dict[SampleKey, ContentSample] = {}
        self._follow(self._lacking)

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that the events of the next pass must have."""
        facts = [*self._counts, *(truths for _, truths in self._truths.values()), *self._samples.values()]
        found = {name for fact in facts for name in fact.columns}
        if self._lacking and not self._passes:
            found.update(PLACE)
        if self._asked.searches and self._passes < PROBED_PASSES:
            found |= {"tool", "kind", *CONTENT_FIELDS, *self._text_fields}
        return frozenset(found)

    def add(self, events: pl.DataFrame) -> None:
        """Add the events of a pass, which have `columns`."""
        for fact in self._counts:
            _gather(fact, events)
        masks = dict[Context, pl.Series]()
        if self._asked.searches and self._passes < PROBED_PASSES:
            self.beginnings.add(events)
            self._lacking = [each for each in self._lacking if not each.is_in(self.beginnings)]
            self._follow(self._pending)
        for context, (_, truths) in self._truths.items():
            _gather_inside(context, truths, events, masks)
        self._passes += 1
        if self._passes == PROBED_PASSES:
            self._lacking = self._asked.suspects(self._lacking, self.beginnings)
        self._follow(self._pending)
        self._sample(events, masks)

    def truths(self, probe: Probe) -> set[bool] | None:
        """Return the truth values of a probe's condition in its context, None if they were not observed.

        Of a condition that was once true, there may be others.
        """
        return self._seen.get(_key(probe))

    def sample(self, context: Context, name: str) -> ContentSample | None:
        """Return the contents of a field in a context, None if they were not observed."""
        return self._samples.get((context, name))

    @property
    def _text_fields(self) -> Collection[str]:
        """Return the fields of texts that searches are about."""
        asked = (each.need.place for each in self._asked.required)
        in_keys = (each.need.place for key in self._asked.keys for each in key.paths)
        fields = {field_of(place) for place in (*asked, *in_keys)}
        return fields.intersection(TEXT_FIELDS)

    @property
    def _pending(self) -> list[Search]:
        """Return the searches that beginnings lack and that no event was found for."""
        return [each for each in self._lacking if True not in self._seen[_key(each.probe)]]

    def _follow(self, pending: Iterable[Search]) -> None:
        """Observe the truth values of these searches from now on, and no others."""
        wanted: dict[Context, dict[str, Probe]] = {}
        for search in with_others(pending):
            key = _key(search.probe)
            if True not in self._seen.get(key, ()):
                wanted.setdefault(search.probe.context, {})[key] = search.probe
        for context, probes in wanted.items():
            if self._truths.get(context, ((),))[0] != tuple(probes):
                truths = Truths(context, [probe.predicate for probe in probes.values()])
                truths.seen = [self._seen.get(key, set()) for key in probes]
                self._truths[context] = tuple(probes), truths
        self._truths = {context: each for context, each in self._truths.items() if context in wanted}
        followed = [zip(keys, truths.seen, strict=True) for keys, truths in self._truths.values()]
        self._seen = {key: seen for key, seen in self._seen.items() if True in seen}
        self._seen.update(each for pairs in followed for each in pairs)

    def _sample(self, events: pl.DataFrame, masks: dict[Context, pl.Series]) -> None:
        """Add to the samples of contents that messages on these searches may need."""
        pending = self._pending
        keys = {(each.context, name) for each in pending for name in CONTENT_FIELDS if name in events.columns}
        if self._passes > 1:
            keys &= self._samples.keys()
        self._samples = {key: self._samples.get(key) or ContentSample(*key) for key in keys}
        for (context, _), fact in self._samples.items():
            _gather_inside(context, fact, events, masks)


def _gather(fact: EventFact, events: pl.DataFrame) -> None:
    """Add the events of a pass to a fact."""
    fact.add(fact.query(events.lazy()).collect())


def _gather_inside(
    context: Context, fact: EventFact, events: pl.DataFrame, masks: dict[Context, pl.Series]
) -> None:
    """Add the events of a context to a fact about it; `masks` have the events of contexts so far."""
    conditions = inside(context)
    if conditions and context not in masks:
        masks[context] = events.select(pl.all_horizontal(conditions).fill_null(False)).to_series()
    columns = events.select(*dict.fromkeys(fact.columns))
    _gather(fact, columns.filter(masks[context]) if conditions else columns)


def _key(probe: Probe) -> str:
    """Return a text for a probe: `Leaf(..., (1,))` equals `Leaf(..., (True,))`."""
    return repr(probe)
