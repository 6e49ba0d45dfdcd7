"""Session assembly, stage (a), live: spans wait until their session is known.

Log records wait for the span that they belong to, and are joined to it when it is released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

import msgspec

from ..attempt import Broken, attempt
from ..candidate import Candidate
from ..chat.find import InputFlaw
from ..dialects.parts.log_record import LogRecord
from ..span_content import SpanRole
from .coverage import Coverage
from .resolve import candidate_of
from .span_reading import SpanReading
from .trace import Ancestors, Change, Changes, EncodedChanges, OpenTrace, Trace, chars_of, items_of, unblocked

TRACES_MAX = 100_000
"""Traces that one source remembers; traces with waiting spans do not count."""
WAITING_CHARS_MAX = 1 << 27
"""Characters of a source's waiting spans and records: what one process reads in a minute."""
WAITING_CHARS_LEFT = WAITING_CHARS_MAX * 3 // 4
"""Characters that may go on waiting once there were more."""


class Released(msgspec.Struct, frozen=True, gc=False):
    """A released span with its candidate, or a flaw.

    `is_early` is whether it depends on its ancestors and its root had not come.
    """

    reading: SpanReading
    made: Candidate | InputFlaw
    is_early: bool

    @property
    def candidate(self) -> Candidate:
        """Return the candidate of a span without a flaw."""
        assert isinstance(self.made, Candidate), "the span has a flaw"
        return self.made


class EncodedRelease(msgspec.Struct, frozen=True, gc=False):
    """The candidates of the released spans of a trace in MessagePack, each with its session's id in UTF-8."""

    candidates: list[tuple[bytes, bytes]]


class ShutTrace(Protocol):
    """A trace whose spans are not read into objects."""

    @property
    def touched(self) -> int: ...  # noqa: D102
    @property
    def is_waiting(self) -> bool: ...  # noqa: D102
    @property
    def waiting_count(self) -> int: ...  # noqa: D102
    @property
    def records_count(self) -> int: ...  # noqa: D102
    @property
    def chars(self) -> int: ...  # noqa: D102

    def opened(self) -> OpenTrace:
        """Return the trace with its spans, which may be changed."""
        ...


RememberedTrace: TypeAlias = OpenTrace | ShutTrace


@dataclass(slots=True)
class Traces:
    """The traces of one source between two steps, each of them plain data that can be stored.

    `traces` are in the order of their last span or record, `waiting` names those with something that waits,
    and `chars` counts its characters. Only `apply` changes them.
    """

    traces: dict[str, RememberedTrace] = field(default_factory=dict[str, RememberedTrace])
    waiting: set[str] = field(init=False)
    chars: int = field(init=False)

    def __post_init__(self) -> None:
        """Find what waits, and count its characters."""
        self.waiting = {trace_id for trace_id, opened in self.traces.items() if opened.is_waiting}
        self.chars = sum(self.traces[trace_id].chars for trace_id in self.waiting)

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

    opened: Mapping[str, RememberedTrace | None]
    touched: Mapping[str, None]
    changes: Mapping[str, Changes | EncodedChanges | None]
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
        self._opened: dict[str, RememberedTrace | None] = {}
        self._touched: dict[str, None] = {}
        self._changes: dict[str, Changes | EncodedChanges | None] = {}
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
            self._chars += chars_of(reading)
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
            self._chars += chars_of(record)
            self._waiting.add(record.trace_id)
            self._note(record.trace_id, (record,))

    def release(self, watermark: int, now: int) -> Iterator[Released | EncodedRelease]:
        """Yield the spans that need not wait any more, by the source's watermark and record time.

        A span is never released before the watermark has passed its end, since it could not be judged yet. A
        span that names its session and agent is released then, any other once its root is known and the
        watermark has passed the ends of all its ancestors; both once no span blocks them (`unblocked`), or
        after `hold`. A span that cannot be resolved is a flaw and blocks no other.
        """
        yield from self._release(watermark, now - self._hold)
        if self._is_crowded:
            yield from self._release(watermark, self._crowded())
        self._forget(now)

    def _find(self, trace_id: str) -> RememberedTrace | None:
        """Return a trace as it is now, not to be changed; None where it is not remembered."""
        if trace_id in self._opened:
            return self._opened[trace_id]
        return self._before.traces.get(trace_id)

    def _known(self, trace_id: str) -> OpenTrace:
        """Return a remembered trace as it is now, not to be changed."""
        found = self._find(trace_id)
        assert found is not None, "a trace that waits is remembered"
        return found if isinstance(found, OpenTrace) else self._changing(trace_id)

    def _changing(self, trace_id: str) -> OpenTrace:
        """Return a trace to be changed: the step's copy, or a new trace."""
        found = self._find(trace_id)
        if found is None:
            self._count += 1
            opened = OpenTrace()
        elif not isinstance(found, OpenTrace):
            opened = found.opened()
        elif trace_id in self._opened:
            return found
        else:
            opened = found.copy()
        self._opened[trace_id] = opened
        return opened

    def _touch(self, trace_id: str) -> OpenTrace:
        """Return a trace to be changed, which becomes the last in order."""
        self._touched.pop(trace_id, None)
        self._touched[trace_id] = None
        return self._changing(trace_id)

    @property
    def _is_crowded(self) -> bool:
        return self._chars > WAITING_CHARS_MAX

    def _crowded(self) -> int:
        """Return the record time up to which spans and records must be released for lack of room."""
        left = self._chars
        for time, chars in sorted(size for trace_id in self._waiting for size in self._sizes(trace_id)):
            left -= chars
            if left <= WAITING_CHARS_LEFT:
                return time
        raise AssertionError("too many characters wait, but no span or record does")

    def _sizes(self, trace_id: str) -> Iterator[tuple[int, int]]:
        """Yield the record times of what waits of a trace, and how many characters of each time do."""
        for item in items_of(self._known(trace_id)):
            yield item.record_time, chars_of(item)

    def _release(self, watermark: int, until: int) -> Iterator[Released | EncodedRelease]:
        """Yield the spans that need not wait; up to the record time `until` they only wait for their end."""
        for trace_id in sorted(self._waiting):
            yield from self._release_trace(trace_id, watermark, until)

    def _release_trace(self, trace_id: str, watermark: int, until: int) -> Iterator[Released]:
        """Yield the spans of a trace that need not wait."""
        released: list[SpanReading] = []
        opened = self._known(trace_id)
        places = tuple(_ready(opened, watermark, until))
        if places:
            opened = self._changing(trace_id)
            released, freed = opened.release(places)
            self._chars -= freed
            self._note(trace_id, places, freed)
        if opened.records:
            self._drop_records(trace_id, until)
            opened = self._known(trace_id)
        if not opened.is_waiting:
            self._waiting.discard(trace_id)
        if not released:
            return
        trace, ancestors = opened.trace, Ancestors(opened.trace)
        coverage = ancestors.coverage()
        for reading in released:
            above = ancestors.above(reading)
            last = above[-1] if above else reading
            is_early = last.parent_id is not None and not trace.is_self_described(reading)
            yield Released(reading, _made(trace, reading, coverage, above), is_early)

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
            freed = sum(map(chars_of, dropped))
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
        if trace_id not in self._changes:
            self._changes[trace_id] = Changes()
        changes = self._changes[trace_id]
        if isinstance(changes, Changes):
            changes.done.append(change)
            changes.gone += freed


def _made(
    trace: Trace, reading: SpanReading, coverage: Coverage, above: Sequence[SpanReading]
) -> Candidate | InputFlaw:
    """Return the candidate of a span with these ancestors, or a flaw; only lack of memory raises."""
    made = attempt(partial(candidate_of, trace, reading, coverage, above))
    if isinstance(made, Candidate):
        return made
    place = f"trace {reading.trace_id}, span {reading.span_id}"
    if isinstance(made, Broken):
        return InputFlaw(place, "internal", made.reason)
    return replace(made, place=place)


def _ready(opened: OpenTrace, watermark: int, until: int) -> list[int]:
    """Return the indexes of the spans of a trace that need not wait any more.

    Those that ended and have a record time up to `until` are among them.
    """
    ready: list[SpanReading] = []
    overdue: list[SpanReading] = []
    waiting: list[SpanReading] = []
    places: dict[int, int] = {}
    ancestors = Ancestors(opened.trace)
    for place, reading in enumerate(opened.waiting):
        if opened.records and _has_claims_in_records(opened, reading):
            reading = msgspec.structs.replace(reading, has_claims=True)
        places[id(reading)] = place
        if _is_ready(opened.trace, reading, ancestors, watermark):
            ready.append(reading)
        elif reading.ended <= watermark and reading.record_time <= until:
            overdue.append(reading)
        else:
            waiting.append(reading)
    if len(ready) == len(opened.waiting):
        return list(range(len(ready)))
    released = unblocked(ready, waiting)
    unblocked_ids = {id(span) for span in released}
    if any(id(span) not in unblocked_ids and span.record_time <= until for span in ready):
        # A blocked span that is overdue is released together with all that are ready, in their order.
        released = ready
    return [places[id(span)] for span in released + overdue]


def _has_claims_in_records(opened: OpenTrace, reading: SpanReading) -> bool:
    """Return whether a span's claims are all in its log records."""
    return not reading.has_claims and bool(reading.content.lacks) and reading.span_id in opened.records


def _is_ready(trace: Trace, reading: SpanReading, ancestors: Ancestors, watermark: int) -> bool:
    """Return whether a span is named, and it ended by the watermark, as did the ancestors that name it."""
    if reading.ended > watermark:
        return False
    if trace.is_self_described(reading):
        return True
    above = ancestors.above(reading)
    is_known = (above[-1] if above else reading).parent_id is None
    return is_known and all(span.ended <= watermark for span in above)
