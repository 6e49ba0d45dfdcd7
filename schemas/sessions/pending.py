"""Session assembly, stage (a), live: spans wait until their session is known.

Log records wait for the span that they belong to, and are joined to it when it is released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec

from ..candidate import Candidate
from ..chat.find import InputFlaw
from ..dialects.parts.log_record import LogRecord
from ..span_content import SpanRole
from .coverage import Coverage
from .resolve import candidate_of
from .span_reading import SpanReading, join_records
from .trace import Trace, unblocked

TRACES_MAX = 100_000
"""Traces that one source remembers; traces with waiting spans do not count."""
TRACE_SPANS_MAX = 20_000
"""Spans that are remembered of a trace, the first that came, and as many roots beside them.

From later ones nothing is inherited, and they link no descendants to ancestors.
"""
WAITING_CHARS_MAX = 1 << 27
"""Characters of a source's waiting spans and records: what one process reads in a minute."""
WAITING_CHARS_LEFT = WAITING_CHARS_MAX * 3 // 4
"""Characters that may go on waiting once there were more."""
SPAN_CHARS = 1_000
"""Characters that a span or a record counts beside its texts."""

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
        freed = sum(map(_chars, released))
        awaited = {span.span_id for span in self.waiting} if self.records else frozenset[str]()
        complete = {span.span_id for span in released if span.content.role is not SpanRole.OTHER}
        for span_id in complete - awaited:
            freed += sum(map(_chars, self.records.pop(span_id, ())))
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
                freed += sum(map(_chars, self.drop(item)))
        places = [item for item in change if isinstance(item, int)]
        return freed + (self.release(places)[1] if places else 0)

    def _joined(self, reading: SpanReading) -> SpanReading:
        """Return the span with its log records, also in its trace, where others inherit from it."""
        records = self.records.get(reading.span_id)
        if not records or not reading.content.lacks:
            return reading
        joined = join_records(reading.whole(), records, is_cut=reading.span_id in self.cut)
        self.trace.replace(reading.bare(), joined.bare())
        return joined


@dataclass(slots=True)
class Changes:
    """The changes of a trace in a step, and the characters freed."""

    done: list[Change] = field(default_factory=list[Change])
    gone: int = 0


@dataclass(frozen=True, slots=True)
class Released:
    """A released span with its candidate, or a flaw.

    `is_early` is whether it depends on its ancestors and its root had not come.
    """

    reading: SpanReading
    made: Candidate | InputFlaw
    is_early: bool


@dataclass(slots=True)
class Traces:
    """The traces of one source between two steps, each of them plain data that can be stored.

    `traces` are in the order of their last span or record, `waiting` names those with something that waits,
    and `chars` counts its characters. Only `apply` changes them.
    """

    traces: dict[str, OpenTrace] = field(default_factory=dict[str, OpenTrace])
    waiting: set[str] = field(init=False)
    chars: int = field(init=False)

    def __post_init__(self) -> None:
        """Find what waits, and count its characters."""
        self.waiting = {trace_id for trace_id, opened in self.traces.items() if opened.is_waiting}
        self.chars = sum(_chars(item) for trace_id in self.waiting for item in _items(self.traces[trace_id]))

    def apply(self, writes: TraceWrites) -> None:
        """Become what a step has made of these traces; takes as long as there are changed traces."""
        for trace_id, opened in writes.opened.items():
            if opened is None or trace_id in writes.touched:
                self.traces.pop(trace_id, None)
            else:
                self.traces[trace_id] = opened
        for trace_id in writes.touched:
            opened = writes.opened[trace_id]
            assert opened is not None, "a forgotten trace was touched before"
            self.traces[trace_id] = opened
        self.waiting, self.chars = writes.waiting, writes.chars


@dataclass(frozen=True, slots=True)
class TraceWrites:
    """The changes of a step: the changed traces, None for a forgotten one.

    Those in `touched` come last in the order, in the order given. `changes` has what was done to each changed
    trace since the step began; None where the trace was forgotten meanwhile, so that it begins again.
    `waiting` and `chars` are those of all traces.
    """

    opened: Mapping[str, OpenTrace | None]
    touched: Mapping[str, None]
    changes: Mapping[str, Changes | None]
    waiting: set[str]
    chars: int


class TracesStep:
    """A step over the traces of one source, which stay as they are; times in nanoseconds.

    The step copies a trace when it changes it first, and no other. `hold` is how long a span waits for its
    root, `keep` how long a trace is remembered after its last span, both in record time. Beyond `TRACES_MAX`
    the trace that was silent longest is forgotten first; while `chars` is above `WAITING_CHARS_MAX` the spans
    that waited longest are released as if `hold` had passed. `late` and `unjoined` count the log records that
    came after their span, and that no span has.
    """

    def __init__(self, traces: Traces, hold: int, keep: int) -> None:
        self._before, self._hold, self._keep = traces, hold, keep
        self._opened: dict[str, OpenTrace | None] = {}
        self._touched: dict[str, None] = {}
        self._changes: dict[str, Changes | None] = {}
        self._waiting, self._chars = set(traces.waiting), traces.chars
        self._count = len(traces.traces)
        self.late = self.unjoined = 0

    def writes(self) -> TraceWrites:
        """Return the changes so far; the step must not go on afterwards."""
        return TraceWrites(self._opened, self._touched, self._changes, self._waiting, self._chars)

    def add(self, reading: SpanReading) -> None:
        """Let a span wait in its trace."""
        opened = self._touch(reading.trace_id)
        if opened.take(reading):
            self._chars += _chars(reading)
            self._waiting.add(reading.trace_id)
        self._note(reading.trace_id, reading)

    def add_records(self, records: Sequence[LogRecord]) -> None:
        """Let the log records of one request wait for their spans."""
        requests: dict[str, int] = {}
        for record in records:
            opened = self._touch(record.trace_id)
            request = requests.setdefault(record.trace_id, opened.requests + 1)
            record = replace(record, request=request)
            opened.take_record(record)
            self._chars += _chars(record)
            self._waiting.add(record.trace_id)
            self._note(record.trace_id, (record,))

    def release(self, watermark: int, now: int) -> Iterator[Released]:
        """Yield the spans that need not wait any more, by the source's watermark and record time.

        A span is never released before the watermark has passed its end, since it could not be judged yet. A
        span that names its session and agent is released then, any other once its root is known and the
        watermark has passed the ends of all its ancestors; both once no span blocks them (`unblocked`), or
        after `hold`. A span that cannot be resolved is a flaw and blocks no other.
        """
        yield from self._release(watermark, now - self._hold)
        if self._chars > WAITING_CHARS_MAX:
            yield from self._release(watermark, self._crowded())
        self._forget(now)

    def _find(self, trace_id: str) -> OpenTrace | None:
        """Return a trace as it is now, not to be changed; None where it is not remembered."""
        if trace_id in self._opened:
            return self._opened[trace_id]
        return self._before.traces.get(trace_id)

    def _known(self, trace_id: str) -> OpenTrace:
        """Return a remembered trace as it is now, not to be changed."""
        opened = self._find(trace_id)
        assert opened is not None, "a trace that waits is remembered"
        return opened

    def _changing(self, trace_id: str) -> OpenTrace:
        """Return a trace to be changed: the step's copy, or a new trace."""
        opened = self._opened.get(trace_id)
        if opened is None:
            before = None if trace_id in self._opened else self._before.traces.get(trace_id)
            self._count += before is None
            opened = self._opened[trace_id] = OpenTrace() if before is None else before.copy()
        return opened

    def _touch(self, trace_id: str) -> OpenTrace:
        """Return a trace to be changed, which becomes the last in order."""
        self._touched.pop(trace_id, None)
        self._touched[trace_id] = None
        return self._changing(trace_id)

    def _crowded(self) -> int:
        """Return the record time up to which spans and records must be released for lack of room."""
        left = self._chars
        items = (item for trace_id in self._waiting for item in _items(self._known(trace_id)))
        for time, chars in sorted((item.record_time, _chars(item)) for item in items):
            left -= chars
            if left <= WAITING_CHARS_LEFT:
                return time
        raise AssertionError("too many characters wait, but no span or record does")

    def _release(self, watermark: int, until: int) -> Iterator[Released]:
        """Yield the spans that need not wait; up to the record time `until` they only wait for their end."""
        for trace_id in sorted(self._waiting):
            released: list[SpanReading] = []
            places = tuple(_ready(self._known(trace_id), watermark, until))
            if places:
                released, freed = self._changing(trace_id).release(places)
                self._chars -= freed
                self._note(trace_id, places, freed)
            if self._known(trace_id).records:
                self._drop_records(trace_id, until)
            opened = self._known(trace_id)
            if not opened.is_waiting:
                self._waiting.discard(trace_id)
            if not released:
                continue
            coverage = opened.trace.coverage()
            for reading in released:
                is_early = not opened.trace.is_self_described(reading) and opened.trace.root(reading) is None
                yield Released(reading, _made(opened.trace, reading, coverage), is_early)

    def _drop_records(self, trace_id: str, until: int) -> None:
        """Drop the log records of spans that were released, or have not come in time."""
        opened = self._known(trace_id)
        awaited = {span.span_id for span in opened.waiting}
        for span_id in [span_id for span_id in opened.records if span_id not in awaited]:
            known = opened.trace.spans.get(span_id, ())
            if not known and max(record.record_time for record in opened.records[span_id]) > until:
                continue
            dropped = self._changing(trace_id).drop(span_id)
            if any(span.content.lacks for span in known):
                self.late += len(dropped)
            elif all(span.content.role is SpanRole.OTHER for span in known):
                self.unjoined += len(dropped)
            freed = sum(map(_chars, dropped))
            self._chars -= freed
            self._note(trace_id, (span_id,), freed)

    def _forget(self, now: int) -> None:
        """Forget the traces that were silent for longer than `keep`, or longest where there are too many."""
        for trace_id in self._in_order():
            opened = self._find(trace_id)
            if opened is None:
                continue
            is_fresh = now - opened.touched <= self._keep and self._count <= TRACES_MAX
            if opened.is_waiting or is_fresh:
                return
            self._touched.pop(trace_id, None)
            self._opened[trace_id] = self._changes[trace_id] = None
            self._count -= 1

    def _in_order(self) -> Iterator[str]:
        """Yield the traces in the order of their last span or record."""
        for trace_id in self._before.traces:
            if trace_id not in self._touched:
                yield trace_id
        yield from tuple(self._touched)

    def _note(self, trace_id: str, change: Change, freed: int = 0) -> None:
        """Note a change of a trace, unless it was forgotten in this step."""
        changes = self._changes.setdefault(trace_id, Changes())
        if changes is not None:
            changes.done.append(change)
            changes.gone += freed


def _items(opened: OpenTrace) -> Iterator[SpanReading | LogRecord]:
    """Yield the spans and records of a trace that wait."""
    yield from opened.waiting
    for records in opened.records.values():
        yield from records


def _made(trace: Trace, reading: SpanReading, coverage: Coverage) -> Candidate | InputFlaw:
    """Return the candidate of a span, or a flaw; only lack of memory raises."""
    place = f"trace {reading.trace_id}, span {reading.span_id}"
    try:
        made = candidate_of(trace, reading, coverage)
    except Exception as error:
        if isinstance(error, MemoryError):
            # The span is not the cause.
            raise
        return InputFlaw(place, "internal", type(error).__name__)
    return replace(made, place=place) if isinstance(made, InputFlaw) else made


def _chars(item: SpanReading | LogRecord) -> int:
    """Return the characters that a span or a record counts."""
    chars = item.chars if isinstance(item, LogRecord) else item.content.chars + len(item.request)
    return SPAN_CHARS + chars


def _is_repeat(reading: SpanReading, known: SpanReading) -> bool:
    """Return whether a span was sent a second time after its release with its log records."""
    same = (reading.start, reading.end, reading.parent_id, reading.content.role)
    return known.is_joined and same == (known.start, known.end, known.parent_id, known.content.role)


def _ready(opened: OpenTrace, watermark: int, until: int) -> list[int]:
    """Return the indexes of the spans of a trace that need not wait any more.

    Those that ended and have a record time up to `until` are among them.
    """
    ready: list[SpanReading] = []
    overdue: list[SpanReading] = []
    waiting: list[SpanReading] = []
    places: dict[int, int] = {}
    for place, reading in enumerate(opened.waiting):
        if _has_claims_in_records(opened, reading):
            reading = msgspec.structs.replace(reading, has_claims=True)
        places[id(reading)] = place
        if _is_ready(opened.trace, reading, watermark):
            ready.append(reading)
        elif reading.ended <= watermark and reading.record_time <= until:
            overdue.append(reading)
        else:
            waiting.append(reading)
    released = unblocked(ready, waiting)
    unblocked_ids = {id(span) for span in released}
    if any(id(span) not in unblocked_ids and span.record_time <= until for span in ready):
        # A blocked span that is overdue is released together with all that are ready, in their order.
        released = ready
    return [places[id(span)] for span in released + overdue]


def _has_claims_in_records(opened: OpenTrace, reading: SpanReading) -> bool:
    """Return whether a span's claims are all in its log records."""
    return not reading.has_claims and bool(reading.content.lacks) and reading.span_id in opened.records


def _is_ready(trace: Trace, reading: SpanReading, watermark: int) -> bool:
    if reading.ended > watermark:
        return False
    is_known = trace.is_self_described(reading) or trace.root(reading) is not None
    return is_known and trace.settled(reading) <= watermark
