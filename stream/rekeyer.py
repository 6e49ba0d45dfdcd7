"""The rekey stage without its broker: records of spans in; messages by session, and what to remember, out.

For each source partition it does stage (a) of session assembly, and sends the candidates to the partition
of their session. What it gives for some records (`Transaction`) belongs into one transaction with their
offsets: then a restart goes on from the stored state as if nothing had happened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from ..schemas.candidate import Candidate
from ..schemas.conversation import Flaw
from ..schemas.resolve import Heard
from ..schemas.settings import SessionSettings
from ..schemas.span_census import SpanCensus
from .error import OF_THE_PROCESS, StreamError
from .intake import Encoding, decode
from .source import Source
from .topic import Topic
from .wire import Batch, DeadLetter, Tick, batches, encode, encode_letter, partition_of

STATE_VERSION = 2
"""Of what stands in the state topic. Of version 1, which is read as well, a trace is one entry."""
FACTS = "@source"
"""The key of a source's facts among its traces; no trace id begins with `@`."""
NO_RECORD = -1
"""The offset where there is no record: of what a tick let go."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read: where it stands, its timestamp (ns since the epoch) and its value."""

    partition: int
    offset: int
    time: int
    value: bytes

    @property
    def origin(self) -> tuple[int, bytes]:
        """Its offset and the SHA-256 of its value: what dead letters say of it."""
        return self.offset, hashlib.sha256(self.value).digest()


@dataclass(frozen=True, slots=True)
class Output:
    """A record to be written; `partition` None where any will do, `value` None where the key is forgotten."""

    topic: Topic
    partition: int | None
    key: str | None
    value: bytes | None


@dataclass(slots=True)
class Transaction:
    """What belongs together: outputs in their order, and by source partition the offset to go on from.

    For metrics: how many `spans` were heard, `rejected`, sent on as `candidates`, and of these `early`,
    before their root was known; the spans by scope (`census`); and the dead letters by code.
    """

    outputs: list[Output] = field(default_factory=list[Output])
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    spans: int = 0
    rejected: int = 0
    candidates: int = 0
    early: int = 0
    census: SpanCensus = field(default_factory=SpanCensus)
    dead_letters: list[str] = field(default_factory=list[str])

    def add(self, other: Transaction) -> None:
        """Do what the other does, too."""
        self.outputs += other.outputs
        for source, offset in other.offsets.items():
            self.offsets[source] = max(offset, self.offsets.get(source, 0))
        self.spans += other.spans
        self.rejected += other.rejected
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


_FACTS_ENCODER = msgspec.msgpack.Encoder()
_FACTS_DECODER = msgspec.msgpack.Decoder(_Facts)


class Rekeyer:
    """Resolves the spans of the source partitions that are assigned to it.

    `sources` and `partitions` are the numbers of partitions of the spans' and the events' topics;
    `bytes_max` about how large a message may be, before compression. `spans_topic` is for dead letters.
    """

    def __init__(
        self, settings: SessionSettings, sources: int, partitions: int, bytes_max: int, spans_topic: str
    ) -> None:
        self.settings = settings
        self._sources, self._partitions = sources, partitions
        self._bytes_max = bytes_max
        self._spans_topic = spans_topic
        self._open: dict[int, Source] = {}
        self._chunks: dict[int, dict[str, int]] = {}

    @property
    def counts(self) -> tuple[int, int]:
        """How many partitions the topics of spans and of events have."""
        return self._sources, self._partitions

    @property
    def assigned(self) -> frozenset[int]:
        """The source partitions that are assigned to it."""
        return frozenset(self._open)

    def watermarks(self) -> dict[int, int]:
        """How far the time has come at each assigned source."""
        return {number: source.watermark for number, source in self._open.items()}

    def waiting(self) -> int:
        """How many spans wait to be resolved."""
        return sum(source.waiting for source in self._open.values())

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
        watermark, record_time = (0, 0) if facts is None else (facts.watermark, facts.record_time)
        try:
            self._open[source] = Source(self.settings, traces, watermark, record_time)
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError):
            raise _unreadable("the rekeyer's state is damaged") from None
        self._chunks[source] = chunks

    def revoke(self, source: int) -> None:
        """Forget a source that another process goes on with."""
        self._open.pop(source, None)
        self._chunks.pop(source, None)

    def take(self, records: Iterable[Record]) -> Transaction:
        """Take records in, those of a source in order, and send on what need not wait any more.

        Where it raises, its state is spoiled: revoke and assign the sources again.
        """
        by_source: dict[int, list[Record]] = {}
        for record in records:
            by_source.setdefault(record.partition, []).append(record)
        done = Transaction()
        for number, own in sorted(by_source.items()):
            source = self._open[number]
            before = source.watermark
            for record in own:
                self._hear(done, source, record)
            done.offsets[number] = own[-1].offset + 1
            self._release(done, number, own[-1].offset, before)
        return done

    def _hear(self, done: Transaction, source: Source, record: Record) -> None:
        """Take a record in, or put it aside where it breaks what reads it: no other is read anew for it."""
        origin = record.origin
        encoding = Encoding.JSON if record.value[:1] in (b"{", b"[") else Encoding.PROTOBUF
        try:
            decoded = decode(record.value, encoding)
            heard = source.hear(decoded, record.time, origin)
        except Exception as error:
            if isinstance(error, OF_THE_PROCESS):
                raise
            flaw = Flaw("record", "internal", type(error).__name__)
            self._bury(done, record.partition, record.time, origin, flaw)
            return
        for flaw in decoded.flaws:
            self._bury(done, record.partition, record.time, origin, flaw)
        for span, one in zip(decoded.spans, heard, strict=True):
            done.census.count(span.scope, 1, one.tells)
        done.spans += len(decoded.spans)
        done.rejected += decoded.rejected

    def remembered(self) -> int:
        """How many traces are remembered."""
        return sum(source.remembered for source in self._open.values())

    def refuse(self, record: Record, reason: str, *, code: str = "internal") -> Transaction:
        """Put a record aside that cannot be taken in."""
        done = Transaction(offsets={record.partition: record.offset + 1})
        self._bury(done, record.partition, record.time, record.origin, Flaw("record", code, reason))
        return done

    def tick(self, idle: Collection[int], now: int) -> Transaction:
        """Tell every events partition how late it is; `idle` sources, read to their end, go by the clock."""
        done = Transaction()
        for number in sorted(idle):
            source = self._open[number]
            before = source.watermark
            source.idle(now)
            self._release(done, number, NO_RECORD, before)
        if self._open:
            data = encode(Tick(self._sources, self.watermarks()))
            for partition in range(self._partitions):
                done.outputs.append(Output(Topic.EVENTS, partition, None, data))
        return done

    def _release(self, done: Transaction, number: int, offset: int, before: int) -> None:
        """Send on what need not wait any more at a source, and what is to be remembered of it."""
        source = self._open[number]
        by_partition: dict[int, list[Candidate]] = {}
        told_by: dict[int, Heard] = {}
        for one in source.release(source.record_time):
            if isinstance(one.made, Flaw):
                self._bury_span(done, number, one.heard, one.made)
                continue
            target = partition_of(one.made.session_id, self._partitions)
            by_partition.setdefault(target, []).append(one.made)
            told_by[id(one.made)] = one.heard
            done.early += one.is_early
        for target, own in sorted(by_partition.items()):
            batch = Batch(number, self._sources, offset, source.watermark, own)
            messages, too_large = batches(batch, self._bytes_max, before)
            done.outputs += [Output(Topic.EVENTS, target, None, data) for data in messages]
            done.candidates += len(own) - len(too_large)
            text = f"tells more than the {self._bytes_max} bytes that a message may have"
            for one in too_large:
                flaw = Flaw(f"trace {one.trace_id}, span {one.span_id}", "size", text)
                self._bury_span(done, number, told_by[id(one)], flaw)
        self._remember(done, number)

    def _remember(self, done: Transaction, number: int) -> None:
        """The records of the state topic that bring it up to date."""
        source, chunks = self._open[number], self._chunks[number]

        def put(key: str, value: bytes | None) -> None:
            done.outputs.append(Output(Topic.REKEY_STATE, number, key, value))

        for trace_id, entry in source.entries().items():
            before = chunks.pop(trace_id, 0)
            count = 0 if entry is None or entry.is_whole else before
            for continues, part in enumerate(_cut(entry.data, self._bytes_max) if entry else ()):
                put(f"{trace_id}/{count}", bytes([STATE_VERSION, continues > 0]) + part)
                count += 1
            for index in range(count, before):
                put(f"{trace_id}/{index}", None)
            if count:
                chunks[trace_id] = count
        facts = _Facts(source.watermark, source.record_time, self._sources, self._partitions)
        put(FACTS, bytes([STATE_VERSION]) + _FACTS_ENCODER.encode(facts))

    def _bury_span(self, done: Transaction, number: int, heard: Heard, flaw: Flaw) -> None:
        """Tell what cannot be sent on of a span, which may have waited since its record was read."""
        # A former release did not note the record.
        self._bury(done, number, heard.record_time, heard.origin or (NO_RECORD, b""), flaw)

    def _bury(self, done: Transaction, number: int, time: int, origin: tuple[int, bytes], flaw: Flaw) -> None:
        """Tell what cannot be read of a record."""
        letter = DeadLetter(
            process="rekey",
            topic=self._spans_topic,
            partition=number,
            offset=origin[0],
            time=time,
            place=flaw.place,
            code=flaw.code,
            reason=flaw.text,
            sha256=origin[1].hex(),
        )
        done.outputs.append(Output(Topic.DEAD_LETTER, None, None, encode_letter(letter)))
        done.dead_letters.append(flaw.code)


def _cut(data: bytes, bytes_max: int) -> list[bytes]:
    """An entry of a trace's state in pieces that fit into a message."""
    return [data[begin : begin + bytes_max] for begin in range(0, len(data), bytes_max)]


def _read_state(stored: Mapping[str, bytes]) -> tuple[_Facts | None, dict[str, list[bytes]], dict[str, int]]:
    """A source's facts, the entries of its traces by id, and in how many pieces each trace was written."""
    facts: _Facts | None = None
    pieces: dict[str, dict[int, tuple[bool, bytes]]] = {}
    for key, value in stored.items():
        version = value[0] if value else "none"
        if version not in (1, STATE_VERSION):
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
