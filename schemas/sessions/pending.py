"""Session assembly, stage (a), live: spans wait until it is known whose they are.

Log records wait for the span that they add to, and are joined to it when it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
"""Traces that one source remembers; those with spans that wait are kept beyond it."""
TRACE_SPANS_MAX = 20_000
"""Spans that are remembered of a trace, the first that came, and as many roots beside them.

From others nothing is inherited, and what they stand around is not known.
"""
WAITING_CHARS_MAX = 1 << 27
"""Characters of a source's spans and records that wait: a minute of as much as one process reads."""
WAITING_CHARS_LEFT = WAITING_CHARS_MAX * 3 // 4
"""Characters of those that go on waiting where there were more."""
SPAN_CHARS = 1_000
"""What a span or a record counts beside its texts."""

Change: TypeAlias = SpanReading | tuple[int | str | LogRecord, ...]
"""A span that came to a trace, or log records that came, or the places among those that waited of the ones
that went on, or the id of a span whose records were dropped."""


@dataclass(slots=True)
class OpenTrace:
    """A trace whose spans are coming: those that wait, when the last one came (record time).

    `size` is how many are remembered. `records` are log records by the span that they name, which go on with
    it; `requests` is how many requests brought some. `cut` are the spans of which records were dropped.
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

    def take(self, reading: SpanReading) -> bool:
        """Let a span wait; False where it is one again that went on with its records."""
        self.touched = max(self.touched, reading.record_time)
        if reading.content.lacks and any(
            _is_again(reading, one) for one in self.trace.spans.get(reading.span_id, ())
        ):
            return False
        # Roots come last, and say the most.
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

    def let_go(self, places: Sequence[int]) -> tuple[list[SpanReading], int]:
        """Let those at these places go on, each with the log records of its span.

        Returns them in that order, and how much room they and their records took, as `Traces.chars` counts.
        """
        gone, going = 0, [self.waiting[place] for place in places]
        left = frozenset(places)
        self.waiting = [one for place, one in enumerate(self.waiting) if place not in left]
        joined = [self._joined(reading) for reading in going]
        awaited = {one.span_id for one in self.waiting} if self.records else frozenset[str]()
        for span_id in {one.span_id for one in going if one.content.role is not SpanRole.OTHER}.difference(
            awaited
        ):
            gone += sum(map(_chars, self.records.pop(span_id, ())))
        return joined, gone + sum(map(_chars, going))

    def drop(self, span_id: str) -> list[LogRecord]:
        """Drop the log records of a span and return them; what it lacked of them it is known to lack."""
        self.cut.add(span_id)
        return self.records.pop(span_id, [])

    def redo(self, change: Change) -> int:
        """Do what was done to it before; gives how much room those took that went on."""
        if isinstance(change, SpanReading):
            self.take(change)
            return 0
        gone = 0
        for one in change:
            if isinstance(one, LogRecord):
                self.take_record(one)
            elif isinstance(one, str):
                gone += sum(map(_chars, self.drop(one)))
        places = [one for one in change if isinstance(one, int)]
        return gone + (self.let_go(places)[1] if places else 0)

    def _joined(self, reading: SpanReading) -> SpanReading:
        """Return the span with its log records, which the others of its trace see as well."""
        records = self.records.get(reading.span_id)
        if not records or not reading.content.lacks:
            return reading
        joined = join_records(reading, records, is_cut=reading.span_id in self.cut)
        self.trace.replace(reading.bare(), joined.bare())
        return joined


@dataclass(slots=True)
class Changes:
    """What was done to a trace, and how much room those took that went on."""

    done: list[Change] = field(default_factory=list[Change])
    gone: int = 0


@dataclass(frozen=True, slots=True)
class Released:
    """A span that went on, and what came of it.

    `is_early`: it asked what is above it, and its root had not come.
    """

    reading: SpanReading
    made: Candidate | InputFlaw
    is_early: bool


@dataclass(slots=True)
class Traces:
    """The traces of one source, each of them plain data that can be stored; times in nanoseconds.

    `hold` is how long a span waits for its root, `keep` how long a trace is remembered after its last span,
    both in record time; of more than `TRACES_MAX` the one that was silent longest is forgotten first, and of
    spans with more than `WAITING_CHARS_MAX`, `chars` in all, those that waited longest go on as if `hold`
    were over. `traces` stand in the order in which they were last heard of. `changed` are those to store
    again, with what was done to them since; with None that is not known, or `traces` has them no more. It
    grows with what comes until who stores them clears it.
    """

    hold: int
    keep: int
    traces: dict[str, OpenTrace] = field(default_factory=dict[str, OpenTrace])
    waiting: set[str] = field(default_factory=set[str])
    changed: dict[str, Changes | None] = field(default_factory=dict[str, Changes | None])
    chars: int = field(init=False)
    late: int = 0
    unjoined: int = 0

    def __post_init__(self) -> None:
        """Count what waits."""
        self.chars = sum(map(_chars, self._waiting()))

    def add(self, reading: SpanReading) -> None:
        """Let a span wait in its trace."""
        opened = self._touched(reading.trace_id)
        if opened.take(reading):
            self.chars += _chars(reading)
            self.waiting.add(reading.trace_id)
        self._note(reading.trace_id, reading)

    def add_records(self, records: Sequence[LogRecord]) -> None:
        """Let the log records of one request wait for their spans."""
        requests: dict[str, int] = {}
        for record in records:
            opened = self._touched(record.trace_id)
            request = requests.setdefault(record.trace_id, opened.requests + 1)
            record = replace(record, request=request)
            opened.take_record(record)
            self.chars += _chars(record)
            self.waiting.add(record.trace_id)
            self._note(record.trace_id, (record,))

    def release(self, watermark: int, now: int) -> Iterator[Released]:
        """What need not wait any more, by the source's watermark and the record time that it has reached.

        Nothing goes on before the watermark has passed its end: sooner it could not be judged. A span that
        says its session and its agent goes on then, any other when its root is known and the watermark has
        passed the ends of all above it; both in their turn (`unblocked`), or after `hold`. One that breaks
        is a flaw, and holds up none of the others.
        """
        yield from self._release(watermark, now - self.hold)
        if self.chars > WAITING_CHARS_MAX:
            yield from self._release(watermark, self._crowded())
        self._forget(now)

    def _touched(self, trace_id: str) -> OpenTrace:
        """Return a trace, which stands behind all others from now on."""
        opened = self.traces.pop(trace_id, None) or OpenTrace()
        self.traces[trace_id] = opened
        return opened

    def _waiting(self) -> Iterator[SpanReading | LogRecord]:
        """Yield the spans and records that wait."""
        for trace_id in self.waiting:
            opened = self.traces[trace_id]
            yield from opened.waiting
            for records in opened.records.values():
                yield from records

    def _crowded(self) -> int:
        """Return the record time of the last span that may not wait any more, so that there is room for others."""
        left = self.chars
        for time, chars in sorted((one.record_time, _chars(one)) for one in self._waiting()):
            left -= chars
            if left <= WAITING_CHARS_LEFT:
                return time
        raise AssertionError("nothing waits, and is too much")

    def _release(self, watermark: int, until: int) -> Iterator[Released]:
        """Yield what need not wait any more; of what is of a record time up to that one nothing needs to."""
        for trace_id in sorted(self.waiting):
            opened = self.traces[trace_id]
            going: list[SpanReading] = []
            places = tuple(_ready(opened, watermark, until))
            if places:
                going, gone = opened.let_go(places)
                self.chars -= gone
                self._note(trace_id, places, gone)
            if opened.records:
                self._drop_records(trace_id, opened, until)
            if not opened.is_waiting:
                self.waiting.discard(trace_id)
            if not going:
                continue
            coverage = opened.trace.coverage()
            for reading in going:
                is_early = not opened.trace.speaks_for_itself(reading) and opened.trace.root(reading) is None
                yield Released(reading, _made(opened.trace, reading, coverage), is_early)

    def _drop_records(self, trace_id: str, opened: OpenTrace, until: int) -> None:
        """Drop the log records whose span has gone on, or has not come in time."""
        awaited = {one.span_id for one in opened.waiting}
        for span_id in [span_id for span_id in opened.records if span_id not in awaited]:
            known = opened.trace.spans.get(span_id, ())
            if not known and max(record.record_time for record in opened.records[span_id]) > until:
                continue
            dropped = opened.drop(span_id)
            if any(one.content.lacks for one in known):
                self.late += len(dropped)
            elif all(one.content.role is SpanRole.OTHER for one in known):
                self.unjoined += len(dropped)
            gone = sum(map(_chars, dropped))
            self.chars -= gone
            self._note(trace_id, (span_id,), gone)

    def _forget(self, now: int) -> None:
        """Forget the traces that were silent longest, if for longer than `keep` or there are too many."""
        while self.traces:
            trace_id, opened = next(iter(self.traces.items()))
            is_fresh = now - opened.touched <= self.keep and len(self.traces) <= TRACES_MAX
            if opened.is_waiting or is_fresh:
                return
            del self.traces[trace_id]
            self.changed[trace_id] = None

    def _note(self, trace_id: str, change: Change, gone: int = 0) -> None:
        """Note what was done to a trace, unless it was forgotten since it was stored."""
        changes = self.changed.setdefault(trace_id, Changes())
        if changes is not None:
            changes.done.append(change)
            changes.gone += gone


def _made(trace: Trace, reading: SpanReading, coverage: Coverage) -> Candidate | InputFlaw:
    """Return what comes of a span, whatever it says."""
    place = f"trace {reading.trace_id}, span {reading.span_id}"
    try:
        made = candidate_of(trace, reading, coverage)
    except Exception as error:
        if isinstance(error, MemoryError):
            # It says nothing of the span.
            raise
        return InputFlaw(place, "internal", type(error).__name__)
    return replace(made, place=place) if isinstance(made, InputFlaw) else made


def _chars(one: SpanReading | LogRecord) -> int:
    """Return how much of `WAITING_CHARS_MAX` a span or a record takes."""
    return SPAN_CHARS + (one.content.chars if isinstance(one, SpanReading) else one.chars)


def _is_again(reading: SpanReading, known: SpanReading) -> bool:
    """Return whether a span is one that went on with its log records, sent a second time."""
    same = (reading.start, reading.end, reading.parent_id, reading.content.role)
    return known.is_joined and same == (known.start, known.end, known.parent_id, known.content.role)


def _ready(opened: OpenTrace, watermark: int, until: int) -> list[int]:
    """Return the places of the spans of a trace that need not wait any more.

    Those of a record time up to `until` are among them.
    """
    ready: list[SpanReading] = []
    overdue: list[SpanReading] = []
    waiting: list[SpanReading] = []
    places: dict[int, int] = {}
    for place, reading in enumerate(opened.waiting):
        one = msgspec.structs.replace(reading, has_claims=True) if _will_tell(opened, reading) else reading
        places[id(one)] = place
        if _is_ready(opened.trace, one, watermark):
            ready.append(one)
        elif one.ended <= watermark and one.record_time <= until:
            overdue.append(one)
        else:
            waiting.append(one)
    going = unblocked(ready, waiting)
    in_hand = {id(one) for one in going}
    if any(id(one) not in in_hand and one.record_time <= until for one in ready):
        # What waits for its turn no longer takes along what could go on: among these the turn is kept.
        going = ready
    return [places[id(one)] for one in going + overdue]


def _will_tell(opened: OpenTrace, reading: SpanReading) -> bool:
    """Return whether only its log records tell something of a span."""
    return not reading.has_claims and bool(reading.content.lacks) and reading.span_id in opened.records


def _is_ready(trace: Trace, reading: SpanReading, watermark: int) -> bool:
    if reading.ended > watermark:
        return False
    is_known = trace.speaks_for_itself(reading) or trace.root(reading) is not None
    return is_known and trace.settled(reading) <= watermark
