"""Dead letters: reading them, and sending their records once more.

A dead letter has the place of a record and a digest of it, never its content. Only records of spans, of logs
and of events can be sent again: later topics are read by marks, which a record has once.
Rules come into force in every partition or in none, so an activation in one partition is not sent again
either.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import TopicPartition

from ....schemas.records.dead_letter import DeadLetter, decode_dead_letter
from ...error import StreamError
from ...messages.codec import Activation, Damaged, decode
from ...messages.topics import Topic
from ..preflight import administering, refusal
from ..settings import KafkaSettings, connecting, producing
from ..topic_checks import require
from ..topics import look

PROCESS = "dead-letters"
HEADER = "tracline-replay"
"""The header of a record that was sent again: its first place, `topic/partition/offset`."""
REPLAYED = (Topic.SPANS, Topic.LOGS, Topic.EVENTS)
"""The topics whose records can be sent again."""
POLL_MS = 200
ASK_MS = 10_000
WAIT_S = 30.0
"""The seconds that a record may take to come."""


class ReplayOutcome(StrEnum):
    """The outcome of sending a record again."""

    REPLAYED = "replayed"
    """The record is at the end of its partition once more."""
    GONE = "gone"
    """Kafka has deleted it: the topic keeps records for a time."""
    OTHER = "other"
    """Another record is at its place: the topic was recreated."""
    REFUSED = "refused"
    """Records of its topic are not sent again, nor are rules that come into force."""


@dataclass(frozen=True, slots=True, order=True)
class RecordPlace:
    """The place of a record."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class DeadLetterRecord:
    """A dead letter, and its number: its offset in the topic of dead letters."""

    number: int
    letter: DeadLetter

    @property
    def place(self) -> RecordPlace:
        """Return the place of the record that it is about."""
        return RecordPlace(self.letter.topic, self.letter.partition, self.letter.offset)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """A choice of dead letters by code, process, earliest time (ns), first and last number; None is any."""

    code: str | None = None
    process: str | None = None
    since: int | None = None
    numbers: tuple[int, int] | None = None

    def has(self, record: DeadLetterRecord) -> bool:
        """Return whether the choice includes a dead letter."""
        first, last = self.numbers or (record.number, record.number)
        return (
            self.code in (None, record.letter.code)
            and self.process in (None, record.letter.process)
            and (self.since is None or record.letter.time >= self.since)
            and first <= record.number <= last
        )


@dataclass(frozen=True, slots=True)
class Read:
    """The chosen dead letters, and the number of records of the topic that are none."""

    letters: tuple[DeadLetterRecord, ...]
    damaged: int


def read_dead_letters(kafka: KafkaSettings, choice: DeadLetterFilter) -> Read:
    """Return the dead letters that exist now, in the order in which they came.

    Raises StreamError: TRL721 to TRL724 as `require`, TRL723 where Kafka does not answer.
    """
    with administering(kafka, PROCESS) as admin:
        require(look(admin, kafka), kafka, Topic.DEAD_LETTER)
    place = TopicPartition(kafka.topic(Topic.DEAD_LETTER), 0)
    first, last = choice.numbers or (None, None)
    letters: list[DeadLetterRecord] = []
    damaged = 0
    consumer = reader_in_no_group(kafka)
    try:
        for record in records_from(consumer, place, first):
            if last is not None and record.offset > last:
                break
            try:
                letter = DeadLetterRecord(record.offset, decode_dead_letter(record.value or b""))
            except (ValueError, RecursionError):
                damaged += 1
                continue
            if choice.has(letter):
                letters.append(letter)
    except KafkaError as error:
        raise refusal(error, kafka) from error
    finally:
        consumer.close(autocommit=False)
    return Read(tuple(letters), damaged)


def replay(
    kafka: KafkaSettings, letters: Sequence[DeadLetterRecord]
) -> list[tuple[RecordPlace, ReplayOutcome]]:
    """Send the records of the dead letters once more, each once, to their topic and partition.

    Key, value and headers are as they were, beside `HEADER`. The records are acknowledged when this returns;
    if it raises (StreamError as `read_dead_letters`) some may have been sent.
    """
    digests = {record.place: record.letter.sha256 for record in letters}
    topics = {kafka.topic(topic) for topic in REPLAYED}
    outcomes: list[tuple[RecordPlace, ReplayOutcome]] = []
    consumer, producer = reader_in_no_group(kafka), KafkaProducer(**producing(kafka, PROCESS))
    try:
        for place, sha256 in sorted(digests.items()):
            outcomes.append((place, _again(consumer, producer, topics, place, sha256)))
    except KafkaError as error:
        raise refusal(error, kafka) from error
    finally:
        consumer.close(autocommit=False)
        producer.close(timeout=WAIT_S)
    return outcomes


def _again(
    consumer: Any, producer: Any, topics: Iterable[str], place: RecordPlace, sha256: str
) -> ReplayOutcome:
    """Send the record at a place again, if its digest is still the given one."""
    if place.topic not in topics:
        return ReplayOutcome.REFUSED
    record = _record(consumer, place)
    if record is None:
        return ReplayOutcome.GONE
    if hashlib.sha256(record.value or b"").hexdigest() != sha256:
        return ReplayOutcome.OTHER
    if _activates(record.value or b""):
        return ReplayOutcome.REFUSED
    origin = f"{place.topic}/{place.partition}/{place.offset}".encode()
    sent = producer.send(
        place.topic,
        value=record.value,
        key=record.key,
        headers=[*(header for header in record.headers if header[0] != HEADER), (HEADER, origin)],
        partition=place.partition,
    )
    sent.get(timeout=WAIT_S)
    return ReplayOutcome.REPLAYED


def _activates(value: bytes) -> bool:
    """Return whether a record is a message that activates rules."""
    try:
        return isinstance(decode(value), Activation)
    except (Damaged, StreamError):
        return False


def _record(consumer: Any, place: RecordPlace) -> Any:
    """Return the record at a place; None if it is gone."""
    part = TopicPartition(place.topic, place.partition)
    if place.partition not in (consumer.partitions_for_topic(place.topic) or ()):
        return None
    begin = consumer.beginning_offsets([part], timeout_ms=ASK_MS)[part]
    end = consumer.end_offsets([part], timeout_ms=ASK_MS)[part]
    if not begin <= place.offset < end:
        return None
    for record in records_from(consumer, part, place.offset):
        return record if record.offset == place.offset else None
    return None


def records_from(consumer: Any, place: TopicPartition, begin: int | None = None) -> Iterator[Any]:
    """Yield the records of a partition from an offset on, or from its first, up to its end as it is now.

    Raises KafkaTimeoutError if they do not come.
    """
    end = consumer.end_offsets([place], timeout_ms=ASK_MS)[place]
    consumer.assign([place])
    if begin is None:
        consumer.seek_to_beginning(place)
    else:
        consumer.seek(place, begin)
    limit = time.monotonic() + WAIT_S
    while (consumer.position(place, timeout_ms=ASK_MS) or 0) < end:
        for record in consumer.poll(timeout_ms=POLL_MS).get(place, ()):
            limit = time.monotonic() + WAIT_S
            if record.offset < end:
                yield record
        if time.monotonic() > limit:
            raise KafkaTimeoutError(f"no record within {WAIT_S} s")


def reader_in_no_group(kafka: KafkaSettings) -> Any:
    """Return a consumer in no group, of committed records."""
    return KafkaConsumer(
        **connecting(kafka, PROCESS),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        max_partition_fetch_bytes=kafka.request_bytes_max,
    )
