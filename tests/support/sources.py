"""Traces and sources that take every step at once, each call a step of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tracline.schemas.dialects.parts.log_record import LogRecord
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.otlp.signal import Signal
from tracline.schemas.sessions.pending import OpenTrace, Released, Traces, TracesStep
from tracline.schemas.sessions.span_reading import SpanReading
from tracline.schemas.settings import SessionSettings
from tracline.stream.messages.trace_state import (
    EntrySizes,
    TraceEntry,
    decode_trace,
    encode_trace,
    next_entry,
)
from tracline.stream.messages.unjoined import Unjoined
from tracline.stream.stages.resolve import SourceState, SourceStep, SourceTimes


class PendingTraces:
    """The traces of one source without its times."""

    def __init__(self, hold: int, keep: int) -> None:
        self._traces, self._hold, self._keep = Traces(), hold, keep

    @property
    def traces(self) -> Mapping[str, OpenTrace]:
        """The traces by id."""
        return self._traces.traces

    def add(self, reading: SpanReading) -> None:
        """Let a span wait in its trace."""
        step = self._step()
        step.add(reading)
        self._traces.apply(step.writes())

    def add_records(self, records: Sequence[LogRecord]) -> None:
        """Let the log records of one request wait."""
        step = self._step()
        step.add_records(records)
        self._traces.apply(step.writes())

    def release(self, watermark: int, now: int) -> list[Released]:
        """Return the spans that need not wait any more."""
        step = self._step()
        released = list(step.release(watermark, now))
        self._traces.apply(step.writes())
        return released

    def _step(self) -> TracesStep:
        return TracesStep(self._traces, self._hold, self._keep)


class Source:
    """A source, from the entries of its traces by id."""

    def __init__(
        self,
        settings: SessionSettings,
        traces: Mapping[str, Sequence[bytes]] | None = None,
        times: SourceTimes | None = None,
    ) -> None:
        decoded = {trace_id: decode_trace(entries) for trace_id, entries in (traces or {}).items()}
        opened = sorted(decoded.items(), key=lambda item: (item[1][0].touched, item[0]))
        self.state = SourceState(Traces({name: trace for name, (trace, _) in opened}), times or SourceTimes())
        self.sizes: dict[str, EntrySizes] = {name: sizes for name, (_, sizes) in decoded.items()}
        self.unjoined: Counter[Unjoined] = Counter()
        self._settings = settings
        self._entries: list[tuple[str, TraceEntry | None]] = []
        self._changed: set[str] = set()

    @property
    def watermark(self) -> int:
        """The watermark."""
        return self.state.times.watermark

    @property
    def record_time(self) -> int:
        """The time of the latest record of spans."""
        return self.state.times.record

    @property
    def waiting(self) -> int:
        """How many spans wait."""
        return self.state.waiting

    @property
    def waiting_records(self) -> int:
        """How many log records wait."""
        return self.state.waiting_records

    @property
    def late_records(self) -> int:
        """How many log records came after their span was released."""
        return self.unjoined[Unjoined.LATE]

    @property
    def unjoined_records(self) -> int:
        """How many log records found no span."""
        return self.unjoined[Unjoined.WITHOUT_SPAN]

    def add_request(
        self,
        decoded: Decoded,
        received: int,
        origin: tuple[int, bytes] | None = None,
        signal: Signal = Signal.SPANS,
    ) -> list[SpanReading]:
        """Add a request."""
        step = SourceStep(self._settings, self.state)
        readings = step.add_request(decoded, received, origin, signal)
        self._apply(step)
        return readings

    def idle(self, now: int) -> None:
        """Let the time of both inputs follow the clock."""
        self.idle_spans(now)
        self.idle_logs(now)

    def idle_spans(self, now: int) -> None:
        """Let the time of spans follow the clock."""
        step = SourceStep(self._settings, self.state)
        step.idle_spans(now)
        self._apply(step)

    def idle_logs(self, now: int) -> None:
        """Let the time of log records follow the clock."""
        step = SourceStep(self._settings, self.state)
        step.idle_logs(now)
        self._apply(step)

    def release(self, now: int) -> list[Released]:
        """Return the spans that need not wait any more."""
        step = SourceStep(self._settings, self.state)
        released = step.release(now)
        self._apply(step)
        return released

    def changes(self) -> dict[str, tuple[int, bytes] | None]:
        """Return the traces changed since the last call, with their last time; None if deleted."""
        traces = self.state.traces.traces
        changed, self._changed = self._changed, set()
        opened = ((trace_id, traces.get(trace_id)) for trace_id in changed)
        return {
            name: None if trace is None else (trace.touched, encode_trace(trace)) for name, trace in opened
        }

    def entries(self) -> Iterable[tuple[str, TraceEntry | None]]:
        """Return the entries since the last call, in their order; None where a trace is deleted."""
        entries, self._entries = self._entries, []
        return entries

    def _apply(self, step: SourceStep) -> None:
        writes = step.writes()
        for trace_id, changes in writes.traces.changes.items():
            opened = writes.traces.opened[trace_id]
            stored = self.sizes.pop(trace_id, None)
            entry = None if opened is None else next_entry(opened, changes, stored)
            if entry is not None:
                self.sizes[trace_id] = entry.sizes
            self._entries.append((trace_id, entry))
            self._changed.add(trace_id)
        self.unjoined += step.unjoined
        self.state.apply(writes)
