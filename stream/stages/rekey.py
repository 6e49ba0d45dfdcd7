"""The rekey stage: requests of spans and log records in; candidates, dead letters and changes of state out.

For each source the stage does stage (a) of session assembly. A source has two inputs: the partitions of its
number of the topics of spans and of log records, of which the latter may be missing; or the two kinds of
requests to a store, whose only source is number 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from ...schemas.attempt import Broken, attempt
from ...schemas.chat.find import InputFlaw
from ...schemas.instrumentations.census import SpanCensus
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.protobuf import decode_protobuf
from ...schemas.otlp.signal import Signal
from ...schemas.plain_traces.requests import PlainRequest
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.sessions.pending import EncodedRelease, Released
from ...schemas.sessions.span_reading import SpanReading
from ...schemas.settings import SessionSettings
from ...schemas.span import Span
from ..error import PROCESS_ERRORS
from ..messages.codec import Tick
from ..messages.record import Input
from ..messages.topics import Topic
from ..messages.unjoined import Unjoined
from .resolve import LocatedRequest, ReceivedSpans, SourceState, SourceStep, SourceWrites
from .result import StageResult

NO_RECORD = -1
"""The offset of a batch or a dead letter that comes of no single record."""
SIGNALS = {Topic.SPANS: Signal.SPANS, Topic.LOGS: Signal.LOGS}
"""The signal of the records of each topic that is read."""


class SourceRequest(msgspec.Struct, frozen=True, gc=False):
    """A record of an input: its offset and time (ns since the epoch), its content, or the flaw of its value.

    `sha256` is the digest of its value, for dead letters.
    """

    input: Input
    offset: int
    time: int
    sha256: bytes
    content: Decoded | LocatedRequest | PlainRequest | ReceivedSpans | InputFlaw

    @property
    def origin(self) -> tuple[int, bytes]:
        """Return its offset and digest, for dead letters."""
        return self.offset, self.sha256


@dataclass(frozen=True, slots=True)
class IdleInput:
    """An input on which nothing is on its way: its time advances by the clock, to `time`."""

    input: Input
    time: int


@dataclass(frozen=True, slots=True)
class ResolvedBatch:
    """The spans with candidates that a source releases in a step, in their order.

    `offset` is that of its last record of spans, `NO_RECORD` where the step has none. `watermark` is that of
    the source after the step, `before` that before it.
    """

    source: int
    offset: int
    before: int
    watermark: int
    released: tuple[Released | EncodedRelease, ...]


RekeyOutput: TypeAlias = ResolvedBatch | Tick | DeadLetter


@dataclass(slots=True)
class RekeyCounts:
    """The counts of a step.

    `items` and `rejected` are the spans and log records that were read and could not be decoded, by topic;
    `candidates` the released ones, of which `early` came before their root was known; `unjoined` the log
    records that were not joined to a span, by reason; `dead_letters` the codes. `spans` has every span that a
    receiver decoded with its reading, `plain_requests` the requests without an object a span, and `census`
    counts all by scope. `log_records` is whether log records with content came; `plain` of the candidates are
    of plain traces. `broken` are the offsets of the requests that broke their reader.
    """

    items: Counter[Topic] = field(default_factory=Counter[Topic])
    rejected: Counter[Topic] = field(default_factory=Counter[Topic])
    candidates: int = 0
    early: int = 0
    spans: list[tuple[Span, SpanReading]] = field(default_factory=list[tuple[Span, SpanReading]])
    plain_requests: list[PlainRequest] = field(default_factory=list[PlainRequest])
    census: SpanCensus = field(default_factory=SpanCensus)
    log_records: bool = False
    plain: int = 0
    unjoined: Counter[Unjoined] = field(default_factory=Counter[Unjoined])
    dead_letters: list[str] = field(default_factory=list[str])
    broken: list[int] = field(default_factory=list[int])

    def add_located(self, request: LocatedRequest, readings: Iterable[SpanReading]) -> None:
        """Count a request of located spans that a source has taken."""
        for span, reading in zip(request.spans, readings, strict=True):
            self.census.count(span.name, 1, reading.has_claims)
        if request.decoded is not None:
            self.spans += zip(request.decoded.spans, readings, strict=True)
        self.items[Topic.SPANS] += len(request.spans)

    def add_plain(self, request: PlainRequest) -> None:
        """Count a plain request that a source has taken."""
        self.plain_requests.append(request)
        for run in request.runs:
            self.census.count(run.scope, run.stop - run.first, run.read)
            self.items[Topic.SPANS] += run.stop - run.first

    def add_request(self, topic: Topic, decoded: Decoded, readings: Iterable[SpanReading]) -> None:
        """Count a request that a source has taken."""
        for span, reading in zip(decoded.spans, readings, strict=True):
            self.spans.append((span, reading))
            self.census.count(span.scope, 1, reading.has_claims)
        self.log_records = self.log_records or bool(decoded.records)
        self.items[topic] += decoded.items
        self.rejected[topic] += decoded.rejected
        self.unjoined[Unjoined.UNLINKED] += decoded.unlinked


RekeyResult: TypeAlias = StageResult[RekeyOutput, Mapping[int, SourceWrites], RekeyCounts]
RekeyState: TypeAlias = Mapping[int, SourceState]
"""The sources by number."""


class RekeyStage:
    """The rekey stage, which holds its configuration only.

    `process`, the `names` of topics and the name of a `request` appear in dead letters.
    """

    def __init__(
        self,
        settings: SessionSettings,
        names: Mapping[Topic, str],
        process: str = "rekey",
        request: str = "record",
    ) -> None:
        self.settings = settings
        self.names, self._process, self._request = names, process, request

    def step(
        self, state: RekeyState, records: Iterable[SourceRequest | IdleInput], now: int | None = None
    ) -> RekeyResult:
        """Return the candidates that need not wait any more after these records, and what changes.

        The records of an input are in order. Spans wait for their root by the time of the latest record of
        their source, and only sources with records release some; with `now` all do, by that time.
        """
        by_source: dict[int, list[SourceRequest | IdleInput]] = {}
        if now is not None:
            by_source = {number: [] for number in state}
        for record in records:
            by_source.setdefault(record.input.partition, []).append(record)
        outputs: list[RekeyOutput] = []
        writes: dict[int, SourceWrites] = {}
        counts = RekeyCounts()
        for number, read in sorted(by_source.items()):
            source = SourceStep(self.settings, state[number])
            for record in read:
                outputs += self._read(source, record, counts)
            outputs += self._release(source, number, state[number].times.watermark, read, now, counts)
            counts.unjoined += source.unjoined
            writes[number] = source.writes()
        counts.dead_letters = [output.code for output in outputs if isinstance(output, DeadLetter)]
        return StageResult(tuple(outputs), writes, counts)

    def tick(self, state: RekeyState, sources: int, idle: Iterable[IdleInput]) -> RekeyResult:
        """Return the result of idle inputs, and a tick with the watermarks of all these sources.

        `sources` is the number of sources that there are in all processes.
        """
        result = self.step(state, idle)
        if not state:
            return result
        times = {number: source.times for number, source in state.items()}
        times |= {number: writes.times for number, writes in result.writes.items()}
        tick = Tick(sources, {number: reached.watermark for number, reached in times.items()})
        return StageResult((*result.outputs, tick), result.writes, result.metrics)

    def refuse(self, request: SourceRequest, flaw: InputFlaw) -> RekeyResult:
        """Return the dead letter of a record that breaks `step`; no state changes."""
        letter = self.request_dead_letter(request, flaw)
        return StageResult((letter,), dict[int, SourceWrites](), RekeyCounts(dead_letters=[letter.code]))

    def request_dead_letter(self, request: SourceRequest, flaw: InputFlaw) -> DeadLetter:
        """Return the dead letter of a record."""
        return self._dead_letter(request.input, request.time, request.origin, flaw)

    def span_dead_letter(self, source: int, span: SpanReading, flaw: InputFlaw) -> DeadLetter:
        """Return the dead letter of a span, which names the record that the span came in."""
        # Earlier releases did not store the record's origin.
        origin = span.origin or (NO_RECORD, b"")
        return self._dead_letter(Input(Topic.SPANS, source), span.record_time, origin, flaw)

    def _read(
        self, source: SourceStep, record: SourceRequest | IdleInput, counts: RekeyCounts
    ) -> list[DeadLetter]:
        """Add a record to its source; return the dead letters of its flaws, or of a record that breaks."""
        topic = record.input.topic
        if isinstance(record, IdleInput):
            idle = source.idle_spans if topic is Topic.SPANS else source.idle_logs
            idle(record.time)
            return []
        content = record.content
        if isinstance(content, PlainRequest) and source.add_plain(content):
            counts.add_plain(content)
            return []
        flaws = attempt(lambda: self._add(source, record, counts), PROCESS_ERRORS)
        if isinstance(flaws, Broken):
            flaws = (InputFlaw(self._request, "internal", flaws.reason),)
            counts.broken.append(record.offset)
        return [self.request_dead_letter(record, flaw) for flaw in flaws]

    def _add(self, source: SourceStep, record: SourceRequest, counts: RekeyCounts) -> Sequence[InputFlaw]:
        """Add a request to its source, and return its flaws."""
        content = record.content
        if isinstance(content, InputFlaw):
            return (content,)
        if isinstance(content, ReceivedSpans):
            content = content.located(self.settings.scope)
        if isinstance(content, PlainRequest):
            # It is later than clocks may differ.
            content = decode_protobuf(content.record.data)
        if isinstance(content, LocatedRequest):
            located = source.add_located(content, record.time, record.origin)
            if located is not None:
                counts.add_located(content, located)
                return ()
            content = content.decoded or decode_protobuf(content.data)
        readings = source.add_request(content, record.time, record.origin, SIGNALS[record.input.topic])
        counts.add_request(record.input.topic, content, readings)
        return content.flaws

    def _release(
        self,
        source: SourceStep,
        number: int,
        before: int,
        read: Iterable[SourceRequest | IdleInput],
        now: int | None,
        counts: RekeyCounts,
    ) -> list[RekeyOutput]:
        """Return the dead letters and the candidates of the spans that need not wait any more."""
        outputs: list[RekeyOutput] = []
        resolved: list[Released | EncodedRelease] = []
        for released in source.release(source.times.record if now is None else now):
            if isinstance(released, EncodedRelease):
                resolved.append(released)
                counts.candidates += len(released.candidates)
                counts.plain += len(released.candidates)
                continue
            if isinstance(released.made, InputFlaw):
                outputs.append(self.span_dead_letter(number, released.reading, released.made))
                continue
            resolved.append(released)
            counts.candidates += 1
            counts.early += released.is_early
        if resolved:
            offset = max((_spans_offset(record) for record in read), default=NO_RECORD)
            outputs.append(ResolvedBatch(number, offset, before, source.times.watermark, tuple(resolved)))
        return outputs

    def _dead_letter(self, of: Input, time: int, origin: tuple[int, bytes], flaw: InputFlaw) -> DeadLetter:
        """Return the dead letter of a record; `origin` is its offset and digest."""
        return DeadLetter(
            process=self._process,
            topic=self.names[of.topic],
            partition=of.partition,
            offset=origin[0],
            time=time,
            place=flaw.place,
            code=flaw.code,
            reason=flaw.text,
            sha256=origin[1].hex(),
        )


def _spans_offset(record: SourceRequest | IdleInput) -> int:
    """Return the offset of a record of spans, `NO_RECORD` for any other."""
    if isinstance(record, SourceRequest) and record.input.topic is Topic.SPANS:
        return record.offset
    return NO_RECORD
