"""Dead letters: reading them, and sending their records once more.

A dead letter has the place of a record and a digest of it, never its content. Only records of spans, of logs
and of events can be sent again: later topics are read by marks, which a record has once.
Rules come into force in every partition or in none, so an activation in one partition is not sent again
either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from ....schemas.records.dead_letter import DeadLetter, decode_dead_letter
from ...error import StreamError
from ...group.broker_errors import KafkaError, UnknownTopicOrPartitionError
from ...group.client import OutgoingRecord
from ...messages.codec import Activation, Damaged, decode
from ...messages.topics import Topic
from ..librdkafka.reader import FetchedRecord, TopicReader, records_from
from ..librdkafka.sender import RecordSender
from ..preflight import administering, refusal
from ..properties import consuming, producing
from ..settings import KafkaSettings
from ..topic_checks import require
from ..topics import look

PROCESS = "dead-letters"
HEADER = "tracline-replay"
"""The header of a record that was sent again: its first place, `topic/partition/offset`."""
REPLAYED = (Topic.SPANS, Topic.LOGS, Topic.EVENTS)
"""The topics whose records can be sent again."""
WAIT_S = 30.0
"""The seconds that the brokers may take to acknowledge a record."""


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
    first, last = choice.numbers or (None, None)
    letters: list[DeadLetterRecord] = []
    damaged = 0
    reader = TopicReader(consuming(kafka, PROCESS), kafka.topic(Topic.DEAD_LETTER))
    try:
        for record in records_from(reader, 0, first):
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
        reader.close()
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
    sender = RecordSender({**producing(kafka, PROCESS), "message.timeout.ms": round(WAIT_S * 1000)})
    try:
        for topic, places in groupby(sorted(digests), key=lambda place: place.topic):
            if topic not in topics:
                outcomes += [(place, ReplayOutcome.REFUSED) for place in places]
                continue
            with closing(TopicReader(consuming(kafka, PROCESS), topic)) as reader:
                outcomes += [(place, _again(reader, sender, place, digests[place])) for place in places]
    except KafkaError as error:
        raise refusal(error, kafka) from error
    finally:
        sender.close()
    return outcomes


def _again(reader: TopicReader, sender: RecordSender, place: RecordPlace, sha256: str) -> ReplayOutcome:
    """Send the record at a place again, if its digest is still the given one."""
    record = _record(reader, place)
    if record is None:
        return ReplayOutcome.GONE
    if hashlib.sha256(record.value or b"").hexdigest() != sha256:
        return ReplayOutcome.OTHER
    if _activates(record.value or b""):
        return ReplayOutcome.REFUSED
    origin = f"{place.topic}/{place.partition}/{place.offset}".encode()
    headers = [*(header for header in record.headers or () if header[0] != HEADER), (HEADER, origin)]
    again = OutgoingRecord(place.topic, place.partition, record.key, record.value)
    sender.send([again], headers)
    return ReplayOutcome.REPLAYED


def _activates(value: bytes) -> bool:
    """Return whether a record is a message that activates rules."""
    try:
        return isinstance(decode(value), Activation)
    except (Damaged, StreamError):
        return False


def _record(reader: TopicReader, place: RecordPlace) -> FetchedRecord | None:
    """Return the record at a place; None if it is gone."""
    try:
        first, end = reader.bounds(place.partition)
    except UnknownTopicOrPartitionError:
        return None
    if not first <= place.offset < end:
        return None
    for record in records_from(reader, place.partition, place.offset):
        return record if record.offset == place.offset else None
    return None
