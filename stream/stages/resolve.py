"""Session assembly, stage (a), of one source: a store's requests, or one partition of the spans' topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal
from ...schemas.plain_traces.requests import PlainRequest
from ...schemas.plain_traces.step import PlainTracesStep
from ...schemas.sessions.pending import EncodedRelease, Released, Traces, TraceWrites
from ...schemas.sessions.span_reading import SpanReading, read_span
from ...schemas.settings import SessionSettings
from ...schemas.time import NS
from ...schemas.walk.locate import PlacedSpan, located, unread
from ..messages.unjoined import Unjoined

_NOTHING = Decoded()


class LocatedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request in protobuf with its spans located, and decoded where a receiver has done that."""

    data: bytes
    spans: Sequence[PlacedSpan]
    decoded: Decoded | None = None


class ReceivedSpans(msgspec.Struct, frozen=True):
    """A request of spans in protobuf that a receiver has decoded, and nobody has located yet."""

    data: bytes
    decoded: Decoded

    def located(self, scope: Sequence[str]) -> LocatedRequest | Decoded:
        """Return the request with its spans located, or as it was decoded where the walk refuses it."""
        spans = None if self.decoded.flaws else located(self.data, scope)
        return self.decoded if spans is None else LocatedRequest(self.data, spans, self.decoded)


class SourceTimes(msgspec.Struct, frozen=True):
    """The progress of a source in time, in nanoseconds since the epoch.

    A source has two inputs. `spans` is the greatest span end seen minus `lateness_s`, or the time of the
    clock while no span came; `logs` is the same of the times of log records, and None until the first one
    that holds content. The `watermark` is the lesser of both, and never falls: no span is released before the
    log records have come as far. `record` is the time of the latest record of spans, or of the clock while
    none came.
    """

    watermark: int = 0
    record: int = 0
    spans: int = 0
    logs: int | None = None

    def expecting_logs(self) -> SourceTimes:
        """Return the times that depend on the log records, as after the first one that holds content."""
        return self if self.logs is not None else msgspec.structs.replace(self, logs=self.watermark)

    def advanced(self) -> SourceTimes:
        """Return the times with the watermark that the inputs allow."""
        watermark = self.spans if self.logs is None else min(self.spans, self.logs)
        return self if watermark <= self.watermark else msgspec.structs.replace(self, watermark=watermark)


@dataclass(frozen=True, slots=True)
class SourceWrites:
    """The changes of a source in a step: its traces, and its new times."""

    traces: TraceWrites
    times: SourceTimes


@dataclass(slots=True)
class SourceState:
    """A source between two steps: its spans and log records that wait, and its times.

    A step reads it; the driver that owns it calls `apply` once the step's writes are durable.
    """

    traces: Traces = field(default_factory=Traces)
    times: SourceTimes = field(default_factory=SourceTimes)

    @property
    def waiting(self) -> int:
        """Return how many spans wait."""
        return sum(self.traces.traces[name].waiting_count for name in self.traces.waiting)

    @property
    def waiting_records(self) -> int:
        """Return how many log records wait for their span."""
        return sum(self.traces.traces[name].records_count for name in self.traces.waiting)

    @property
    def remembered(self) -> int:
        """Return how many traces are remembered, those whose spans wait among them."""
        return len(self.traces.traces)

    def apply(self, writes: SourceWrites) -> None:
        """Become what a step has made of this state; takes as long as there are changed traces."""
        self.traces.apply(writes.traces)
        self.times = writes.times


class SourceStep:
    """A step of one source over its state, which stays as it is."""

    def __init__(self, settings: SessionSettings, state: SourceState) -> None:
        hold, keep, self._lateness, self._skew = (
            round(seconds * NS)
            for seconds in (settings.hold_s, settings.idle_s, settings.lateness_s, settings.skew_s)
        )
        self._scope = settings.scope
        self._traces = PlainTracesStep(state.traces, hold, keep, settings.scope)
        self.times = state.times

    @property
    def unjoined(self) -> Counter[Unjoined]:
        """Return how many log records this step did not join to a span, by reason."""
        traces = self._traces
        return Counter({Unjoined.LATE: traces.late, Unjoined.WITHOUT_SPAN: traces.unjoined})

    def writes(self) -> SourceWrites:
        """Return the changes of the step, which must not go on afterwards."""
        return SourceWrites(self._traces.writes(), self.times)

    def add_request(
        self,
        decoded: Decoded,
        received: int,
        origin: tuple[int, bytes] | None = None,
        signal: Signal = Signal.SPANS,
    ) -> list[SpanReading]:
        """Add the spans and log records of a request, advance the time, and return the readings of its spans.

        `received` is the time of the request's record, `origin` the record's offset and SHA-256 if it has
        one, `signal` the signal that the request should have. If a span breaks its reader, this raises and
        adds nothing of the request.
        """
        readings: list[SpanReading] = []
        spans_time, latest = self.times.spans, received + self._skew
        for span in decoded.spans:
            if max(span.start, span.end) > latest:
                # It would wait for a time that may never come, and must not advance the time.
                span = msgspec.structs.replace(span, start=min(span.start, received), end=received)
            else:
                spans_time = max(spans_time, span.end - self._lateness)
            readings.append(read_span(span, self._scope, received, origin))
        self._add(readings, decoded, spans_time, received, signal)
        return readings

    def add_located(
        self, request: LocatedRequest, received: int, origin: tuple[int, bytes] | None = None
    ) -> list[SpanReading] | None:
        """Add the spans of a request as `add_request` does; the content of those walked is not read.

        Return None, and add nothing, where a span is later than clocks may differ.
        """
        latest, spans = received + self._skew, request.spans
        if any(max(span.reading.start, span.ended) > latest for span in spans):
            return None
        readings = [unread(request.data, span, received, origin) for span in spans]
        spans_time = max((span.ended - self._lateness for span in spans), default=0)
        self._add(readings, _NOTHING, max(spans_time, self.times.spans), received, Signal.SPANS)
        return readings

    def _add(
        self,
        readings: Sequence[SpanReading],
        decoded: Decoded,
        spans_time: int,
        received: int,
        signal: Signal,
    ) -> None:
        """Add the readings and the log records of a request, and advance the time."""
        times, latest = self.times, received + self._skew
        record_time = times.record
        if readings or (signal is Signal.SPANS and not decoded.latest):
            # Log records may be read long before their spans and wait for them: a request of log records,
            # also an unreadable one, does not advance the record time of spans.
            record_time = max(record_time, received)
        times = msgspec.structs.replace(times, spans=spans_time, record=record_time)
        for reading in readings:
            self._traces.add(reading)
        if decoded.records:
            times = times.expecting_logs()
            self._traces.add_records([replace(record, record_time=received) for record in decoded.records])
        if times.logs is not None and decoded.latest <= latest:
            times = msgspec.structs.replace(times, logs=max(times.logs, decoded.latest - self._lateness))
        self.times = times.advanced()

    def idle_spans(self, now: int) -> None:
        """Advance the time of spans by the clock: none is on its way, as far as one can know."""
        times = self.times
        spans = max(times.spans, now - self._lateness)
        record = max(times.record, now)
        self.times = msgspec.structs.replace(times, spans=spans, record=record).advanced()

    def idle_logs(self, now: int) -> None:
        """Advance the time of log records by the clock: none is on its way, as far as one can know."""
        times = self.times
        if times.logs is not None:
            logs = max(times.logs, now - self._lateness)
            self.times = msgspec.structs.replace(times, logs=logs).advanced()

    def add_plain(self, request: PlainRequest) -> bool:
        """Add the spans of a plain request; return False where `add_located` would add nothing."""
        record = request.record
        if request.latest > record.time + self._skew:
            return False
        times = self.times
        spans = max(times.spans, request.last_end - self._lateness)
        self.times = SourceTimes(
            times.watermark, max(times.record, record.time), spans, times.logs
        ).advanced()
        self._traces.add_plain(request)
        return True

    def release(self, now: int) -> list[Released | EncodedRelease]:
        """Return the spans that need not wait any more at record time `now`, and have claims or a flaw."""
        released = self._traces.release(self.times.watermark, now)
        return [span for span in released if _may_claim(span)]


def _may_claim(span: Released | EncodedRelease) -> bool:
    """Return whether a span has a flaw or may have claims; one without claims has named others' session."""
    if isinstance(span, EncodedRelease):
        return bool(span.candidates)
    reading = span.reading
    if isinstance(span.made, InputFlaw):
        return True
    if reading.request:
        return reading.has_claims or reading.content.ends
    return bool(span.made.claims)
