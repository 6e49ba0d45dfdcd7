"""The spans of one trace that have come so far, and those that wait (session assembly, stage a)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import TypeAlias

import msgspec

from ..attempt import Broken, attempt
from ..dialects.parts.log_record import LogRecord
from ..span_content import SpanRole
from ..time import NS_MAX
from .coverage import Coverage, coverage_of
from .span_reading import SpanReading, join_records

ANCESTORS_MAX = 200
"""Ancestors of a span that are looked at."""
SAME_ID_MAX = 100
"""Spans with one id, the earliest, among which a parent is looked for."""
KEYS_MAX = 1_000
"""Session keys of a trace that are remembered."""

TRACE_SPANS_MAX = 20_000
"""Spans that are remembered of a trace, the first that came, and as many roots beside them.

From later ones nothing is inherited, and they link no descendants to ancestors.
"""
SPAN_CHARS = 1_000
"""Characters that a span or a record counts beside its texts."""
_SHORT = 16
"""Ancestors that are looked at before a cycle is looked for."""
_AGE = attrgetter("age")


class Trace(msgspec.Struct, rename={"ended_by_key": "said"}):
    """The spans of one trace that have come so far.

    `spans` are by id, those with one id by age. `keyed` is the earliest span with a session key.
    `ended_by_key` has for each session key when the first span with it ended, and for the empty key when the
    first model's call without one ended.
    """

    spans: dict[str, list[SpanReading]] = {}
    keyed: SpanReading | None = None
    ended_by_key: dict[str, int] = {}

    def add(self, reading: SpanReading) -> None:
        """Add a span."""
        same = self.spans.get(reading.span_id)
        if same is None:
            self.spans[reading.span_id] = [reading]
        else:
            self._insert(same, reading)
        session, ended = reading.content.session, self.ended_by_key
        if session is not None and (self.keyed is None or _is_older(reading, self.keyed)):
            self.keyed = reading
        key = "" if session is None else str(session)
        if (key or reading.content.role is SpanRole.CHAT) and (key in ended or len(ended) < KEYS_MAX):
            ended[key] = min(reading.ended, ended.get(key, reading.ended))

    def replace(self, former: SpanReading, reading: SpanReading) -> None:
        """Replace a span by one with the same ids and other content."""
        same = list(self.spans.get(former.span_id, ()))
        if former in same:
            same.remove(former)
            self._insert(same, reading)

    def copy(self) -> Trace:
        """Return a trace that can change while this one stays; both have the same spans."""
        return Trace(dict(self.spans), self.keyed, dict(self.ended_by_key))

    def _insert(self, same: Sequence[SpanReading], reading: SpanReading) -> None:
        """Put a span among those with its id, in a new list: a copy of the trace has the former one."""
        inserted = [*same]
        insort(inserted, reading, key=_AGE)
        self.spans[reading.span_id] = inserted

    def all(self) -> Iterator[SpanReading]:
        """Return every span that has come."""
        return (reading for same in self.spans.values() for reading in same)

    def parent(self, reading: SpanReading) -> SpanReading | None:
        """Return the parent; None at a root, where it has not come, and where a span names itself."""
        if reading.parent_id is None:
            return None
        found = self.spans.get(reading.parent_id)
        if found and reading.parent_id == reading.span_id:
            # The parent may be another span that was sent with the same id.
            found = [span for span in islice(found, SAME_ID_MAX) if span.parent_id != span.span_id]
        return found[0] if found else None

    def above(self, reading: SpanReading) -> Sequence[SpanReading]:
        """Return the ancestors, nearest first, `ANCESTORS_MAX` at most; in a cycle up to its earliest."""
        chain: list[SpanReading] = []
        upper = self.parent(reading)
        while upper is not None and len(chain) < _SHORT:
            chain.append(upper)
            upper = self.parent(upper)
        return chain if upper is None else self._above_long(reading)

    def _above_long(self, reading: SpanReading) -> Sequence[SpanReading]:
        """Return the ancestors as `above` does, where they may be many or in a cycle."""
        chain, places = [reading], {id(reading): 0}
        while len(chain) <= ANCESTORS_MAX and (upper := self.parent(chain[-1])) is not None:
            if id(upper) in places:
                # The chain may hold the span itself a second time, without its claims.
                ages = [span.age for span in chain]
                return chain[1 : ages.index(min(ages[places[id(upper)] :])) + 1]
            places[id(upper)] = len(chain)
            chain.append(upper)
        return chain[1:]

    def root(self, reading: SpanReading) -> SpanReading | None:
        """Return the root above a span, or the span itself; None where the root is not known."""
        above = self.above(reading)
        last = above[-1] if above else reading
        return last if last.parent_id is None else None

    def is_self_described(self, reading: SpanReading) -> bool:
        """Return whether a span itself names session and agent, so that it need not wait for its ancestors.

        A conversation of its own may be a sub-agent's: a model call before it had another conversation, or
        none. Then an ancestor names the session.
        """
        return reading.is_named and not self.may_be_sub_agents(reading)

    def may_be_sub_agents(self, reading: SpanReading) -> bool:
        """Return whether a span's conversation may be a sub-agent's: another was in use before it ended."""
        session = reading.content.session
        if not reading.content.own_conversation or reading.parent_id is None:
            return False
        return any(ended <= reading.ended and key != session for key, ended in self.ended_by_key.items())

    def settled(self, reading: SpanReading) -> int:
        """Return the time by which a span's session and agent are named.

        That is the span's end where it names them itself, else the latest end among it and its ancestors.
        """
        above = () if self.is_self_described(reading) else self.above(reading)
        return max(span.ended for span in (reading, *above))

    def coverage(self) -> Coverage:
        """Return which claims of its spans other spans of it make."""
        return Ancestors(self).coverage()


class Ancestors:
    """The ancestors of the spans of a trace, which must not change meanwhile; siblings share theirs."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._by_parent: dict[str, Sequence[SpanReading]] = {}

    def above(self, reading: SpanReading) -> Sequence[SpanReading]:
        """Return the ancestors of a span, as `Trace.above` does."""
        parent_id = reading.parent_id
        if parent_id is None:
            return ()
        found = self._by_parent.get(parent_id)
        if found is not None and parent_id != reading.span_id:
            return found
        above = self._trace.above(reading)
        is_whole = self._trace.parent(above[-1] if above else reading) is None
        if is_whole and len(above) < _SHORT and parent_id != reading.span_id:
            # In a cycle and in a long chain, the ancestors depend on where one begins.
            self._by_parent[parent_id] = above
        return above

    def coverage(self) -> Coverage:
        """Return which claims of the trace's spans other spans of it make."""
        return coverage_of([(reading, self.above(reading)) for reading in self._trace.all()])


Change: TypeAlias = SpanReading | tuple[int | str | LogRecord, ...]
"""A change of a trace: an added span, added log records, the indexes of the waiting spans that were released,
or the id of a span with dropped records."""


@dataclass(slots=True)
class OpenTrace:
    """A trace with its waiting spans and log records.

    `touched` is the record time of the last one that came, `size` the number of remembered spans. `records`
    are log records by the span that they name, which are released with it; `requests` is the number of
    requests with such records. `cut` are the spans with dropped records.
    """

    trace: Trace = field(default_factory=Trace)
    waiting: list[SpanReading] = field(default_factory=list[SpanReading])
    touched: int = 0
    size: int = 0
    records: dict[str, list[LogRecord]] = field(default_factory=dict[str, list[LogRecord]])
    requests: int = 0
    cut: set[str] = field(default_factory=set[str])

    @property
    def is_waiting(self) -> bool:
        """Return whether a span or a record waits."""
        return bool(self.waiting or self.records)

    @property
    def waiting_count(self) -> int:
        """Return how many spans wait."""
        return len(self.waiting)

    @property
    def records_count(self) -> int:
        """Return how many log records wait."""
        return sum(map(len, self.records.values()))

    @property
    def chars(self) -> int:
        """Return the characters of what waits."""
        return sum(map(chars_of, items_of(self)))

    def opened(self) -> OpenTrace:
        """Return the trace itself; one whose spans are not read yet (`pending.ShutTrace`) reads them."""
        return self

    def copy(self) -> OpenTrace:
        """Return a trace that can change while this one stays; both have the same spans and records."""
        records = {span_id: list(waiting) for span_id, waiting in self.records.items()}
        return OpenTrace(
            self.trace.copy(),
            list(self.waiting),
            self.touched,
            self.size,
            records,
            self.requests,
            set(self.cut),
        )

    def take(self, reading: SpanReading) -> bool:
        """Let a span wait; return False where it repeats a span that was released with its records."""
        self.touched = max(self.touched, reading.record_time)
        known = self.trace.spans.get(reading.span_id, ())
        if reading.content.lacks and any(_is_repeat(reading, span) for span in known):
            return False
        # Roots come last, and have the most to inherit.
        if self.size < TRACE_SPANS_MAX * (1 if reading.parent_id else 2):
            self.trace.add(reading.bare())
            self.size += 1
        self.waiting.append(reading)
        return True

    def take_record(self, record: LogRecord) -> None:
        """Let a log record wait for its span."""
        self.records.setdefault(record.span_id, []).append(record)
        self.requests = max(self.requests, record.request)
        self.touched = max(self.touched, record.record_time)

    def release(self, places: Sequence[int]) -> tuple[list[SpanReading], int]:
        """Release the waiting spans at these indexes, each with its log records.

        Return them in that order, and the characters freed, as `Traces.chars` counts.
        """
        released = [self.waiting[place] for place in places]
        leaving = frozenset(places)
        self.waiting = [span for place, span in enumerate(self.waiting) if place not in leaving]
        joined = [self._joined(span) for span in released]
        freed = sum(map(chars_of, released))
        awaited = {span.span_id for span in self.waiting} if self.records else frozenset[str]()
        complete = {span.span_id for span in released if span.content.role is not SpanRole.OTHER}
        for span_id in complete - awaited:
            freed += sum(map(chars_of, self.records.pop(span_id, ())))
        return joined, freed

    def drop(self, span_id: str) -> list[LogRecord]:
        """Drop the log records of a span and return them; the span is known to lack them from then on."""
        self.cut.add(span_id)
        return self.records.pop(span_id, [])

    def replay(self, change: Change) -> int:
        """Apply a stored change; return the characters freed."""
        if isinstance(change, SpanReading):
            self.take(change)
            return 0
        freed = 0
        for item in change:
            if isinstance(item, LogRecord):
                self.take_record(item)
            elif isinstance(item, str):
                freed += sum(map(chars_of, self.drop(item)))
        places = [item for item in change if isinstance(item, int)]
        return freed + (self.release(places)[1] if places else 0)

    def _joined(self, reading: SpanReading) -> SpanReading:
        """Return the span with its log records, also in its trace, where others inherit from it."""
        records = self.records.get(reading.span_id)
        if not records or not reading.content.lacks:
            return reading
        whole = attempt(reading.whole)
        if isinstance(whole, Broken):
            # The monitor cannot read it either, and makes a dead letter of it.
            return reading
        joined = join_records(whole, records, is_cut=reading.span_id in self.cut)
        self.trace.replace(reading.bare(), joined.bare())
        return joined


@dataclass(slots=True)
class Changes:
    """The changes of a trace in a step, and the characters freed."""

    done: list[Change] = field(default_factory=list[Change])
    gone: int = 0


class EncodedChanges(msgspec.Struct, frozen=True, gc=False):
    """The changes of a trace in a step as they are stored, and the characters freed.

    `whole` is the trace after the step, empty where it need not be written whole; `done` are the changes,
    empty where the trace is new.
    """

    whole: bytes
    done: bytes
    gone: int


def items_of(opened: OpenTrace) -> Iterator[SpanReading | LogRecord]:
    """Yield the spans and records of a trace that wait."""
    yield from opened.waiting
    for records in opened.records.values():
        yield from records


def chars_of(item: SpanReading | LogRecord) -> int:
    """Return the characters that a span or a record counts."""
    if isinstance(item, SpanReading):
        return SPAN_CHARS + (len(item.request) or item.content.chars)
    return SPAN_CHARS + item.chars


def _is_older(reading: SpanReading, known: SpanReading) -> bool:
    """Return whether a span comes before another one by age."""
    began, former = reading.began, known.began
    return began < former if began and former and began != former else reading.age < known.age


def _is_repeat(reading: SpanReading, known: SpanReading) -> bool:
    """Return whether a span was sent a second time after its release with its log records."""
    same = (reading.start, reading.end, reading.parent_id, reading.content.role)
    return known.is_joined and same == (known.start, known.end, known.parent_id, known.content.role)


def unblocked(ready: Sequence[SpanReading], waiting: Iterable[SpanReading]) -> list[SpanReading]:
    """Return the spans of a trace, of those that are ready, which no waiting span blocks.

    A span blocks another one that ends after the span began: the span has claims from before that end. A
    blocked span blocks others in turn.
    """
    released = list(ready)
    bound = min((span.began for span in waiting if span.has_claims), default=NS_MAX)
    while blocked := [span for span in released if span.has_claims and span.ended > bound]:
        released = [span for span in released if not (span.has_claims and span.ended > bound)]
        bound = min(span.began for span in blocked)
    return released


def orphans(trace: Trace) -> int:
    """Return the number of spans with a parent that never came."""
    return sum(span.parent_id is not None and span.parent_id not in trace.spans for span in trace.all())
