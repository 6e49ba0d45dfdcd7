"""Conversations as records of the spans' topic, and what the rekey stage must make of them.

The truth is that of the conversations; the candidates are read back as a consumer of the topic reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from zlib import crc32

import msgspec
from tracline.schemas.candidate import Candidate
from tracline.schemas.chat.find import InputFlaw
from tracline.schemas.event import Kind
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.group.rekey_sources import EncodedRekeyResult, RekeySources, refused, requests_of
from tracline.stream.group.rekey_state import TopicCounts
from tracline.stream.ingest.request import Encoding
from tracline.stream.messages.codec import CandidateBatch, decode
from tracline.stream.messages.record import Input, Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.rekey import RekeyStage
from tracline.stream.stages.unread import UnreadCandidates

from ..processes.live import wire
from ..truth.conversations import Place, PlayedSession, answered_once, paced
from .scripts import START_NS, random_session
from .span_plan import Dialect, Keys, Manner

SOURCES = 3
"""Partitions of the spans' topic."""
PARTITIONS = 4
"""Partitions of the events' topic."""
BYTES_MAX = 900_000
SETTINGS = SessionSettings(lateness_s=240, hold_s=86_400, idle_s=3_600, tick_s=3_600)
"""The time goes by spans alone: a tick is longer than any test."""
MANNERS = (
    Manner(keys=Keys.EVERYWHERE),
    Manner(retried=0.3, end_mark=True),
    Manner(dialect=Dialect.OPENINFERENCE, wrapped=0.3),
    Manner(one_trace=True),
    Manner(captured=False),
)
UNDERWAY_S = 60
LATER_S = 12 * 3_600


@dataclass(frozen=True)
class Work:
    """Records in the order in which they are sent, and where the events of their conversations stand."""

    records: tuple[Record, ...]
    places: Counter[Place]
    played: tuple[PlayedSession, ...] = ()

    @property
    def keys(self) -> Iterator[tuple[str, Record]]:
        """Each record with the trace id that it is keyed by."""
        return ((key_of(record.value), record) for record in self.records)


def work(seeds: Iterable[int], seed: int = 0, apart_s: float = 7) -> Work:
    """Random conversations, each so much after the other; at the end a span in every partition, much later.

    Each trace comes in one request or in two, the spans that ended first before the others.
    """
    random = Random(f"keyed {seed}")
    played = [
        PlayedSession(
            paced(
                answered_once(random_session(conversation_seed)), START_NS + round(apart_s * number * NS), 5
            ),
            replace(MANNERS[number % len(MANNERS)], seed=conversation_seed),
        )
        for number, conversation_seed in enumerate(seeds)
    ]
    coming = sorted(
        (_sent_at(spans, random), number, spans)
        for number, spans in enumerate(
            part for conversation_seed in played for part in _requests(conversation_seed.spans, random)
        )
    )
    last = [(START_NS + LATER_S * NS, 0, [_late_span(number)]) for number in range(SOURCES)]
    records: list[Record] = []
    offsets = [0] * SOURCES
    for time, _, spans in [*coming, *last]:
        source = source_of(spans[0].trace_id)
        body = wire(spans, random.choice(list(Encoding)))
        records.append(Record(source, offsets[source], time, body))
        offsets[source] += 1
    return Work(
        tuple(records),
        Counter(place for conversation_seed in played for place in conversation_seed.places),
        tuple(played),
    )


def source_of(trace_id: str) -> int:
    """The partition to which a collector sends a trace."""
    return crc32(trace_id.encode()) % SOURCES


def key_of(body: bytes) -> str:
    """The key of a record: any that is the same for its trace will do, as the partition is given."""
    return f"{crc32(body):08x}"


def _requests(spans: Sequence[Span], random: Random) -> Iterator[list[Span]]:
    """The spans of each trace, in one request or in two."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    for trace_spans in traces.values():
        cut = random.randrange(len(trace_spans))
        yield from (part for part in (trace_spans[:cut], trace_spans[cut:]) if part)


def _sent_at(spans: Sequence[Span], random: Random) -> int:
    """When a request comes: the parts of a trace in their order, milliseconds as Kafka has them."""
    ended = max(max(span.start, span.end) for span in spans)
    return (ended + random.randrange(UNDERWAY_S * NS)) // 1_000_000 * 1_000_000


def _late_span(source: int) -> Span:
    """A root that carries nothing but its time, of a trace that goes to that partition."""
    names = (f"{number:032x}" for number in range(1, 1_000))
    trace_id = next(name for name in names if source_of(name) == source)
    at = START_NS + LATER_S * NS
    return Span(
        trace_id=trace_id, span_id=f"{source + 1:016x}", parent_id=None, name="late", start=at, end=at
    )


NAMES = {topic: topic.value for topic in Topic} | {Topic.SPANS: "otlp_spans", Topic.LOGS: "otlp_logs"}


class Rekeyer(RekeySources):
    """The sources of a rekeyer that takes every step at once: no transaction of its fails."""

    def __init__(
        self,
        settings: SessionSettings = SETTINGS,
        bytes_max: int = BYTES_MAX,
        sources: int = SOURCES,
        partitions: int = PARTITIONS,
    ) -> None:
        super().__init__(RekeyStage(settings, NAMES), TopicCounts(sources, partitions), bytes_max)

    def take(self, records: Iterable[Record]) -> EncodedRekeyResult:
        """Take records in."""
        return self._taken(self.step(requests_of([*records], self.stage.settings.scope)))

    def idle(self, inputs: Collection[Input], now: int) -> EncodedRekeyResult:
        """Send a tick."""
        return self._taken(self.tick(inputs, now))

    def put_aside(self, record: Record, flaw: InputFlaw) -> EncodedRekeyResult:
        """Refuse a record."""
        return self._taken(self.refuse(refused(record, flaw), flaw))

    def _taken(self, result: EncodedRekeyResult) -> EncodedRekeyResult:
        self.apply(result.writes)
        return result


def rekeyer(settings: SessionSettings = SETTINGS, bytes_max: int = BYTES_MAX) -> Rekeyer:
    """A rekeyer of the topics that the tests have."""
    return Rekeyer(settings, bytes_max)


def inputs(sources: Iterable[int], topic: Topic = Topic.SPANS) -> list[Input]:
    """The inputs of sources."""
    return [Input(topic, source) for source in sources]


def batches_of(done: EncodedRekeyResult) -> list[CandidateBatch]:
    """The batches of a transaction, as the monitor reads them."""
    messages = [decode(output.value or b"") for output in done.outputs if output.topic is Topic.EVENTS]
    return [whole(message) for message in messages if isinstance(message, CandidateBatch)]


def whole(batch: CandidateBatch) -> CandidateBatch:
    """Return a batch with the claims of its candidates."""
    candidates, dead_letters = UnreadCandidates().read(batch, 0)
    assert not dead_letters
    return msgspec.structs.replace(batch, candidates=candidates)


def candidates_of(batches: Iterable[CandidateBatch]) -> Counter[str]:
    """The candidates of batches, each as the fields that distinguish it from every other."""
    return Counter(
        repr(session_candidate.joined()) for batch in batches for session_candidate in batch.candidates
    )


def pure(records: Sequence[Record], settings: SessionSettings = SETTINGS) -> Counter[str]:
    """The candidates that a rekeyer sends which takes all records at once."""
    rekey = rekeyer(settings)
    for source in range(SOURCES):
        rekey.assign(source, {})
    return candidates_of(batches_of(rekey.take(records)))


def places_of(candidates: Iterable[Candidate], idle_s: float = SETTINGS.idle_s) -> Counter[Place]:
    """Return where the events of candidates stand, by session assembly's second stage."""
    sessions: dict[str, SessionAssembler] = {}
    for session_candidate in candidates:
        sessions.setdefault(
            session_candidate.session_id, SessionAssembler(session_candidate.session_id, round(idle_s * NS))
        ).add(session_candidate)
    return Counter(
        (event.session_id, event.occurrence, event.seq, event.event_id)
        for session in sessions.values()
        for event in session.advance(START_NS + 2 * LATER_S * NS)
        if event.kind is not Kind.END
    )
