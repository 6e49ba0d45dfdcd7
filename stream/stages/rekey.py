"""The rekey stage: spans and log records in; candidates by session, and state, out.

For each source partition the stage does stage (a) of session assembly, and sends the candidates to the
partition of their session. A source has two inputs: the partitions of its number of the topics of spans and
of log records, of which the latter may be missing. A `RekeyResult` and the offsets of its records belong in
one transaction: then a restart goes on from the stored state as if nothing had happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from ...schemas.candidate import Candidate
from ...schemas.chat.find import InputFlaw
from ...schemas.instrumentations.census import SpanCensus
from ...schemas.otlp.signal import Signal
from ...schemas.sessions.span_reading import SpanReading
from ...schemas.settings import SessionSettings
from ..error import PROCESS_ERRORS, StreamError
from ..ingest.request import Encoding, decode
from ..messages.codec import (
    CandidateBatch,
    DeadLetter,
    Tick,
    candidate_messages,
    encode,
    encode_dead_letter,
    partition_of,
)
from ..messages.record import Input, Output, Record
from ..messages.topics import Topic
from ..messages.unjoined import Unjoined
from .resolve import Source

STATE_VERSION = 3
"""Of what stands in the state topic.

Versions 1 and 2 are read as well. Of version 1 a trace is one entry, and of both no log record waits.
"""
FACTS = "@source"
"""The key of a source's facts among its traces; no trace id begins with `@`."""
NO_RECORD = -1
"""The offset where there is no record: of what a tick let go."""


@dataclass(slots=True)
class RekeyResult:
    """What belongs together: outputs in their order, and by input the offset to go on from.

    For metrics: how many spans and log records were read (`items`) and `rejected`, by topic; how many spans
    were sent on as `candidates`, and of these `early`, before their root was known; the spans by scope
    (`census`); how many log records were not joined to a span, by reason; and the dead letters by code.
    """

    outputs: list[Output] = field(default_factory=list[Output])
    offsets: dict[Input, int] = field(default_factory=dict[Input, int])
    items: Counter[Topic] = field(default_factory=Counter[Topic])
    rejected: Counter[Topic] = field(default_factory=Counter[Topic])
    candidates: int = 0
    early: int = 0
    census: SpanCensus = field(default_factory=SpanCensus)
    unjoined: Counter[Unjoined] = field(default_factory=Counter[Unjoined])
    dead_letters: list[str] = field(default_factory=list[str])

    def add(self, other: RekeyResult) -> None:
        """Append another result to this one."""
        self.outputs += other.outputs
        for source, offset in other.offsets.items():
            self.offsets[source] = max(offset, self.offsets.get(source, 0))
        self.items += other.items
        self.rejected += other.rejected
        self.unjoined += other.unjoined
        self.candidates += other.candidates
        self.early += other.early
        self.census.add(other.census)
        self.dead_letters += other.dead_letters


class _Facts(msgspec.Struct, frozen=True):
    """What is remembered of a source beside its traces."""

    watermark: int
    record_time: int
    sources: int
    partitions: int
    spans_time: int | None = None
    logs_time: int | None = None


_SIGNALS = {Topic.SPANS: Signal.SPANS, Topic.LOGS: Signal.LOGS}
_FACTS_ENCODER = msgspec.msgpack.Encoder()
_FACTS_DECODER = msgspec.msgpack.Decoder(_Facts)


class Rekeyer:
    """Resolves the spans of the source partitions that are assigned to it.

    `sources` and `partitions` are the numbers of partitions of the spans' and the events' topics;
    `bytes_max` about how large a message may be, before compression. `spans_topic` and `logs_topic` are
    names for dead letters.
    """

    def __init__(
        self,
        settings: SessionSettings,
        sources: int,
        partitions: int,
        bytes_max: int,
        spans_topic: str,
        logs_topic: str = "otlp_logs",
    ) -> None:
        self.settings = settings
        self._sources, self._partitions = sources, partitions
        self._bytes_max = bytes_max
        self._names = {Topic.SPANS: spans_topic, Topic.LOGS: logs_topic}
        self._open: dict[int, Source] = {}
        self._chunks: dict[int, dict[str, int]] = {}

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many partitions the topics of spans and of events have."""
        return self._sources, self._partitions

    @property
    def assigned(self) -> frozenset[int]:
        """The source partitions that are assigned to it."""
        return frozenset(self._open)

    def watermarks(self) -> dict[int, int]:
        """Return how far the time has come at each assigned source."""
        return {number: source.watermark for number, source in self._open.items()}

    def waiting(self) -> int:
        """Return how many spans wait to be resolved."""
        return sum(source.waiting for source in self._open.values())

    def waiting_records(self) -> int:
        """Return how many log records wait for their span."""
        return sum(source.waiting_records for source in self._open.values())

    def record_time(self, number: int) -> int:
        """Return the time of the latest record of a source's spans, 0 before there was one."""
        return self._open[number].record_time

    def expect_logs(self, number: int) -> None:
        """Let a source wait for its log records: there are some that are not read."""
        self._open[number].expect_logs()

    def assign(self, source: int, stored: Mapping[str, bytes]) -> None:
        """Go on with a source from its records in the state topic (the latest of each key).

        Raises StreamError where another release wrote them (TRL731), or a number of partitions has changed
        (TRL732).
        """
        facts, traces, chunks = _read_state(stored)
        if facts is not None and (facts.sources, facts.partitions) != (self._sources, self._partitions):
            what = (
                f"the topics had {facts.sources} partitions of spans and {facts.partitions} of events, "
                f"and have {self._sources} and {self._partitions}"
            )
            hint = "sessions would change their partition: begin with new topics and a new state"
            raise StreamError("TRL732", what, hint)
        facts = facts or _Facts(0, 0, self._sources, self._partitions)
        try:
            self._open[source] = Source(
                self.settings,
                traces,
                facts.watermark,
                facts.record_time,
                facts.spans_time,
                facts.logs_time,
            )
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError):
            raise _unreadable("the rekeyer's state is damaged") from None
        self._chunks[source] = chunks

    def revoke(self, source: int) -> None:
        """Forget a source that another process goes on with."""
        self._open.pop(source, None)
        self._chunks.pop(source, None)

    def step(self, records: Iterable[Record]) -> RekeyResult:
        """Return what comes of records, those of an input in order: what need not wait any more, and state.

        Where it raises, its state is spoiled: revoke and assign the sources again.
        """
        by_source: dict[int, list[Record]] = {}
        for record in records:
            by_source.setdefault(record.partition, []).append(record)
        result = RekeyResult()
        for number, read in sorted(by_source.items()):
            source = self._open[number]
            before, unjoined = source.watermark, source.unjoined
            for record in read:
                result.add(self._decoded(source, record))
            offset = max((record.offset for record in read if record.topic is Topic.SPANS), default=NO_RECORD)
            result.add(self._released(number, offset, before))
            result.unjoined += source.unjoined - unjoined
        return result

    def _decoded(self, source: Source, record: Record) -> RekeyResult:
        """Add a record to its source; return a dead letter of one that breaks what decodes it."""
        result = RekeyResult(offsets={record.input: record.offset + 1})
        encoding = Encoding.JSON if record.value[:1] in (b"{", b"[") else Encoding.PROTOBUF
        try:
            signal = _SIGNALS[record.topic]
            decoded = decode(record.value, encoding, signal)
            readings = source.add_request(decoded, record.time, record.origin, signal)
        except Exception as error:
            if isinstance(error, PROCESS_ERRORS):
                raise
            flaw = InputFlaw("record", "internal", type(error).__name__)
            result.add(self._dead_letter(record.input, record.time, record.origin, flaw))
            return result
        for flaw in decoded.flaws:
            result.add(self._dead_letter(record.input, record.time, record.origin, flaw))
        for span, reading in zip(decoded.spans, readings, strict=True):
            result.census.count(span.scope, 1, reading.has_claims)
        result.items[record.topic] += decoded.items
        result.rejected[record.topic] += decoded.rejected
        result.unjoined[Unjoined.UNLINKED] += decoded.unlinked
        return result

    def remembered(self) -> int:
        """Return how many traces are remembered."""
        return sum(source.remembered for source in self._open.values())

    def refuse(self, record: Record, reason: str, *, code: str = "internal") -> RekeyResult:
        """Return the dead letter of a record that `step` cannot take."""
        result = RekeyResult(offsets={record.input: record.offset + 1})
        result.add(
            self._dead_letter(record.input, record.time, record.origin, InputFlaw("record", code, reason))
        )
        return result

    def tick(self, idle: Collection[Input], now: int) -> RekeyResult:
        """Return a tick for every events partition; the time of `idle` inputs, read to the end, is `now`."""
        result = RekeyResult()
        for number in sorted({one.partition for one in idle}):
            source = self._open[number]
            before, unjoined = source.watermark, source.unjoined
            if Input(Topic.SPANS, number) in idle:
                source.idle_spans(now)
            if Input(Topic.LOGS, number) in idle:
                source.idle_logs(now)
            result.add(self._released(number, NO_RECORD, before))
            result.unjoined += source.unjoined - unjoined
        if self._open:
            data = encode(Tick(self._sources, self.watermarks()))
            for partition in range(self._partitions):
                result.outputs.append(Output(Topic.EVENTS, partition, None, data))
        return result

    def _released(self, number: int, offset: int, before: int) -> RekeyResult:
        """Return the candidates of a source that need not wait any more, and its state behind them."""
        source = self._open[number]
        result = RekeyResult()
        by_partition: dict[int, list[Candidate]] = {}
        span_of: dict[int, SpanReading] = {}
        for one in source.release(source.record_time):
            if isinstance(one.made, InputFlaw):
                result.add(self._span_dead_letter(number, one.reading, one.made))
                continue
            target = partition_of(one.made.session_id, self._partitions)
            by_partition.setdefault(target, []).append(one.made)
            span_of[id(one.made)] = one.reading
            result.early += one.is_early
        for target, candidates in sorted(by_partition.items()):
            batch = CandidateBatch(number, self._sources, offset, source.watermark, candidates)
            messages, too_large = candidate_messages(batch, self._bytes_max, before)
            result.outputs += [Output(Topic.EVENTS, target, None, data) for data in messages]
            result.candidates += len(candidates) - len(too_large)
            text = f"tells more than the {self._bytes_max} bytes that a message may have"
            for candidate in too_large:
                flaw = InputFlaw(f"trace {candidate.trace_id}, span {candidate.span_id}", "size", text)
                result.add(self._span_dead_letter(number, span_of[id(candidate)], flaw))
        result.outputs += self._state(number)
        return result

    def _state(self, number: int) -> Iterator[Output]:
        """Yield the records of the state topic that bring it up to date."""
        source, chunks = self._open[number], self._chunks[number]

        def put(key: str, value: bytes | None) -> Output:
            return Output(Topic.REKEY_STATE, number, key, value)

        for trace_id, entry in source.entries().items():
            before = chunks.pop(trace_id, 0)
            count = 0 if entry is None or entry.is_whole else before
            for continues, part in enumerate(_cut(entry.data, self._bytes_max) if entry else ()):
                yield put(f"{trace_id}/{count}", bytes([STATE_VERSION, continues > 0]) + part)
                count += 1
            for index in range(count, before):
                yield put(f"{trace_id}/{index}", None)
            if count:
                chunks[trace_id] = count
        facts = _Facts(
            source.watermark,
            source.record_time,
            self._sources,
            self._partitions,
            source.spans_time,
            source.logs_time,
        )
        yield put(FACTS, bytes([STATE_VERSION]) + _FACTS_ENCODER.encode(facts))

    def _span_dead_letter(self, number: int, span: SpanReading, flaw: InputFlaw) -> RekeyResult:
        """Return the dead letter of a span, which may have waited since its record was read."""
        # Earlier releases did not store the record's origin.
        origin = span.origin or (NO_RECORD, b"")
        return self._dead_letter(Input(Topic.SPANS, number), span.record_time, origin, flaw)

    def _dead_letter(self, of: Input, time: int, origin: tuple[int, bytes], flaw: InputFlaw) -> RekeyResult:
        """Return the dead letter of a record; `origin` is its offset and digest."""
        letter = DeadLetter(
            process="rekey",
            topic=self._names[of.topic],
            partition=of.partition,
            offset=origin[0],
            time=time,
            place=flaw.place,
            code=flaw.code,
            reason=flaw.text,
            sha256=origin[1].hex(),
        )
        output = Output(Topic.DEAD_LETTER, None, None, encode_dead_letter(letter))
        return RekeyResult(outputs=[output], dead_letters=[flaw.code])


def _cut(data: bytes, bytes_max: int) -> list[bytes]:
    """An entry of a trace's state in pieces that fit into a message."""
    return [data[begin : begin + bytes_max] for begin in range(0, len(data), bytes_max)]


def _read_state(stored: Mapping[str, bytes]) -> tuple[_Facts | None, dict[str, list[bytes]], dict[str, int]]:
    """A source's facts, the entries of its traces by id, and in how many pieces each trace was written."""
    facts: _Facts | None = None
    pieces: dict[str, dict[int, tuple[bool, bytes]]] = {}
    for key, value in stored.items():
        version = value[0] if value else "none"
        if version not in (1, 2, STATE_VERSION):
            raise _unreadable(f"the rekeyer's state has version {version}, not {STATE_VERSION}")
        try:
            if key == FACTS:
                facts = _FACTS_DECODER.decode(value[1:])
            else:
                trace_id, _, index = key.rpartition("/")
                piece = (int(index) > 0, value[1:]) if version == 1 else (value[1] > 0, value[2:])
                pieces.setdefault(trace_id, {})[int(index)] = piece
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, IndexError):
            raise _unreadable("the rekeyer's state is damaged") from None
    traces = {trace_id: _entries(own) for trace_id, own in pieces.items()}
    return facts, traces, {trace_id: len(own) for trace_id, own in pieces.items()}


def _entries(pieces: Mapping[int, tuple[bool, bytes]]) -> list[bytes]:
    """The entries of a trace; of each piece, by number, whether it continues the one before, and bytes."""
    entries: list[bytes] = []
    for number, index in enumerate(sorted(pieces)):
        continues, data = pieces[index]
        if index != number or continues > bool(entries):
            raise _unreadable("the rekeyer's state is damaged")
        if continues:
            entries[-1] += data
        else:
            entries.append(data)
    return entries


def _unreadable(what: str) -> StreamError:
    hint = "finish the sessions with the release that wrote it, or begin with new topics"
    return StreamError("TRL731", what, hint)
