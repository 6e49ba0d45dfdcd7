"""Session assembly, stage (a), of one source: a store's requests, or one partition of the spans' topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal
from ...schemas.sessions.pending import Change, Changes, OpenTrace, Released, Traces
from ...schemas.sessions.span_reading import SpanReading, read_span
from ...schemas.settings import SessionSettings
from ...schemas.time import NS
from ..messages.unjoined import Unjoined

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(OpenTrace)
_CHANGES_DECODER = msgspec.msgpack.Decoder(list[Change])


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """What is to be stored of a trace: all of it, or what follows on the entries that were stored before."""

    is_whole: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class _StoredTrace:
    """The bytes of a trace's entries, and about how many are of spans that went on (`OpenTrace.release`)."""

    bytes: int
    gone: int


class Source:
    """The spans of one source that wait to be resolved, their log records, and how far its time has come.

    A source has two inputs. `spans_time` is the greatest span end seen minus `lateness_s`, or what the clock
    said while no span came; `logs_time` is the same of the times of log records, and None until one came that
    holds content. The `watermark` is the lesser of both, and never falls: no span goes on before the log
    records have come as far. `record_time` is the time of the latest record of spans, or what the clock said
    while none came. All are nanoseconds since the epoch.
    """

    def __init__(
        self,
        settings: SessionSettings,
        traces: Mapping[str, Sequence[bytes]] | None = None,
        watermark: int = 0,
        record_time: int = 0,
        spans_time: int | None = None,
        logs_time: int | None = None,
    ) -> None:
        """Begin anew, or go on from what was stored: the entries of `traces` by id, as `entries` gave them.

        What `changes` gave is one entry. An earlier release stored no `spans_time`: then it is the watermark.
        Raises msgspec.MsgspecError and IndexError where they are damaged.
        """
        self._settings = settings
        hold, keep = (round(seconds * NS) for seconds in (settings.hold_s, settings.idle_s))
        self._stored: dict[str, _StoredTrace] = {}
        stored = {trace_id: self._restored(trace_id, entries) for trace_id, entries in (traces or {}).items()}
        opened = dict(sorted(stored.items(), key=lambda item: (item[1].touched, item[0])))
        waiting = {trace_id for trace_id, one in opened.items() if one.is_waiting}
        self._traces = Traces(hold, keep, opened, waiting)
        self.watermark = watermark
        self.record_time = record_time
        self.spans_time = watermark if spans_time is None else spans_time
        self.logs_time = logs_time

    @property
    def waiting(self) -> int:
        """Return how many spans wait."""
        return sum(len(self._traces.traces[name].waiting) for name in self._traces.waiting)

    @property
    def waiting_records(self) -> int:
        """Return how many log records wait for their span."""
        traces = self._traces
        return sum(len(own) for name in traces.waiting for own in traces.traces[name].records.values())

    @property
    def late_records(self) -> int:
        """Return how many log records came after their span had gone on, since this began."""
        return self._traces.late

    @property
    def unjoined_records(self) -> int:
        """Return how many log records found no span that they add to, since this began."""
        return self._traces.unjoined

    @property
    def unjoined(self) -> Counter[Unjoined]:
        """Return how many log records were not joined to a span since this began, by reason."""
        return Counter({Unjoined.LATE: self.late_records, Unjoined.WITHOUT_SPAN: self.unjoined_records})

    @property
    def remembered(self) -> int:
        """Return how many traces are remembered, those whose spans wait among them."""
        return len(self._traces.traces)

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
        spans_time = self.spans_time
        latest = received + round(self._settings.skew_s * NS)
        for span in decoded.spans:
            if max(span.start, span.end) > latest:
                # It would wait for a time that may never come, and must not advance the time.
                span = replace(span, start=min(span.start, received), end=received)
            else:
                spans_time = max(spans_time, span.end - self._lateness)
            readings.append(read_span(span, self._settings.scope, received, origin))
        if decoded.spans or (signal is Signal.SPANS and not decoded.latest):
            # Log records may be read long before their spans and wait for them: a request of log records,
            # also an unreadable one, does not advance the record time of spans.
            self.record_time = max(self.record_time, received)
        self.spans_time = spans_time
        for reading in readings:
            self._traces.add(reading)
        if decoded.records:
            self.expect_logs()
            self._traces.add_records([replace(record, record_time=received) for record in decoded.records])
        if self.logs_time is not None and decoded.latest <= latest:
            self.logs_time = max(self.logs_time, decoded.latest - self._lateness)
        self._advance()
        return readings

    def expect_logs(self) -> None:
        """Go by the time of log records from now on, as from the first one on that holds content."""
        if self.logs_time is None:
            self.logs_time = self.watermark

    def idle(self, now: int) -> None:
        """Nothing is on its way, as far as one can know: the time goes on by the clock."""
        self.idle_spans(now)
        self.idle_logs(now)

    def idle_spans(self, now: int) -> None:
        """No span is on its way: their time goes on by the clock."""
        self.spans_time = max(self.spans_time, now - self._lateness)
        self.record_time = max(self.record_time, now)
        self._advance()

    def idle_logs(self, now: int) -> None:
        """No log record is on its way: their time goes on by the clock."""
        if self.logs_time is not None:
            self.logs_time = max(self.logs_time, now - self._lateness)
            self._advance()

    def _advance(self) -> None:
        times = [self.spans_time, *([] if self.logs_time is None else [self.logs_time])]
        self.watermark = max(self.watermark, min(times))

    def release(self, now: int) -> list[Released]:
        """The spans that need not wait any more at record time `now`, and tell something or are flawed."""
        released = self._traces.release(self.watermark, now)
        # A span that tells nothing has said whose the others are.
        return [one for one in released if isinstance(one.made, InputFlaw) or one.made.claims]

    def changes(self) -> dict[str, tuple[int, bytes] | None]:
        """Return the changed traces with the record time of their last span; None if deleted."""
        changed: dict[str, tuple[int, bytes] | None] = {}
        for trace_id in self._traces.changed:
            opened = self._traces.traces.get(trace_id)
            self._stored.pop(trace_id, None)
            changed[trace_id] = None if opened is None else (opened.touched, _ENCODER.encode(opened))
        self._traces.changed.clear()
        return changed

    def entries(self) -> dict[str, TraceEntry | None]:
        """As `changes`, in less: what is to be stored behind the entries that there are, or instead of them.

        A trace is stored anew when as much of it has gone on as is left: so what is written grows no faster
        than what has come.
        """
        entries = {trace_id: self._entry(trace_id, done) for trace_id, done in self._traces.changed.items()}
        self._traces.changed.clear()
        return entries

    def _entry(self, trace_id: str, changes: Changes | None) -> TraceEntry | None:
        opened = self._traces.traces.get(trace_id)
        stored = self._stored.pop(trace_id, None)
        if opened is None:
            return None
        if stored is not None and changes is not None:
            data = _ENCODER.encode(changes.done)
            grown = _StoredTrace(stored.bytes + len(data), stored.gone + changes.gone)
            if 2 * grown.gone < grown.bytes:
                self._stored[trace_id] = grown
                return TraceEntry(is_whole=False, data=data)
        data = _ENCODER.encode(opened)
        self._stored[trace_id] = _StoredTrace(len(data), 0)
        return TraceEntry(is_whole=True, data=data)

    def _restored(self, trace_id: str, entries: Sequence[bytes]) -> OpenTrace:
        """A trace as its entries say that it is."""
        opened, gone = _DECODER.decode(entries[0]), 0
        for entry in entries[1:]:
            gone += sum(opened.replay(change) for change in _CHANGES_DECODER.decode(entry))
        self._stored[trace_id] = _StoredTrace(sum(map(len, entries)), gone)
        return opened

    @property
    def _lateness(self) -> int:
        return round(self._settings.lateness_s * NS)
