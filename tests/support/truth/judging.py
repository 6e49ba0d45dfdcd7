"""Messages of the events' topic that conversations become, and what the monitor must send for them.

The messages are made by the rekey stage without its broker; the truth is that of the conversations.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Producer
from tracline.schemas.event import Kind
from tracline.schemas.records.dead_letter import decode_dead_letter
from tracline.stream.kafka.librdkafka.reader import TopicReader
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.properties import consuming, transacting
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import decode_judged, decode_verdicts
from tracline.stream.messages.topics import Topic

from ..conversations.keyed import SETTINGS, SOURCES, Work, rekeyer
from .conversations import Place

WAIT_S = 60.0
BYTES_MAX = 12_000
"""About how large a message may be: small, so that there are many."""
POLL_S = 0.04
"""The time that each of three readers waits for a record."""
RECORDS = 500
TRANSACTION_S = 60.0
SESSIONS = {
    "TRACLINE_SESSIONS_IDLE_S": str(SETTINGS.idle_s),
    "TRACLINE_SESSIONS_LATENESS_S": str(SETTINGS.lateness_s),
}
"""The settings of sessions under which the messages are made."""
Sent = tuple[int, bytes | None]
"""A message and its events partition."""


def messages(work: Work) -> list[list[Sent]]:
    """The messages of the rekey stage, by transaction; in the last one every partition receives the time."""
    rekey = rekeyer(bytes_max=BYTES_MAX)
    for source in range(SOURCES):
        rekey.assign(source, {})
    done = [rekey.take([record]) for record in work.records]
    done.append(rekey.idle((), 0))
    made = [
        [
            (output.partition, output.value)
            for output in transaction.outputs
            if output.topic is Topic.EVENTS and output.partition is not None
        ]
        for transaction in done
    ]
    return [sent for sent in made if sent]


def send(kafka: KafkaSettings, transactions: Iterable[Sequence[Sent]], name: str = "sender") -> None:
    """Send each of these as one transaction."""
    producer = sender(kafka, name)
    for sent in transactions:
        producer.begin_transaction()
        for partition, value in sent:
            # A record without a value needs a key.
            key = None if value is not None else b"none"
            producer.produce(kafka.topic(Topic.EVENTS), value, key, partition)
        producer.commit_transaction()


def sender(kafka: KafkaSettings, name: str) -> Producer:
    """A transactional producer of that name."""
    producer = Producer(transacting(kafka, "test", name, TRANSACTION_S))
    producer.init_transactions()
    return producer


@dataclass
class MonitorOutput:
    """The output of the monitor without repetitions: verdicts, events, dead letters.

    `again` counts what was dropped for its mark; `watermarks` has the last one of each partition.
    """

    ids: Counter[str] = field(default_factory=Counter)
    places: Counter[Place] = field(default_factory=Counter)
    letters: list[Any] = field(default_factory=list)
    watermarks: dict[int, int] = field(default_factory=dict)
    again: int = 0
    seen: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def is_new(self, topic: str, partition: int, offset: int, index: int) -> bool:
        """Return whether nothing that follows it was read before, as every consumer asks."""
        key, mark = (topic, partition), (offset, index)
        if mark <= self.seen.get(key, (-1, -1)):
            self.again += 1
            return False
        self.seen[key] = mark
        return True

    def verdicts(self, value: bytes) -> None:
        """A record of the verdicts' topic."""
        message = decode_verdicts(value)
        mark = message.mark
        if self.is_new("verdicts", mark.partition, mark.offset, mark.index):
            self.ids.update(verdict.id for verdict in message.verdicts)
            if message.watermark is not None:
                self.watermarks[mark.partition] = message.watermark

    def judged(self, value: bytes) -> None:
        """A record of the topic of judged events."""
        batch = decode_judged(value)
        if self.is_new("judged", batch.mark.partition, batch.mark.offset, batch.mark.index):
            self.places.update(
                (event.session_id, event.occurrence, event.seq, event.event_id)
                for event in batch.events
                if event.kind is not Kind.END
            )


class Listener:
    """A consumer that reads the monitor's output from the beginning, as those after it do."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self.found = MonitorOutput()
        self._readers = {
            kafka.topic(Topic.VERDICTS): self.found.verdicts,
            kafka.topic(Topic.JUDGED): self.found.judged,
            kafka.topic(Topic.DEAD_LETTER): lambda value: self.found.letters.append(
                decode_dead_letter(value)
            ),
        }
        self._topics = [TopicReader(consuming(kafka, "listener"), topic) for topic in self._readers]
        with administering(kafka, "listener") as admin:
            for reader in self._topics:
                reader.read_from(dict.fromkeys(range(admin.partitions(reader.topic)), OFFSET_BEGINNING))

    def until(
        self,
        holds: Callable[[MonitorOutput], bool],
        alive: Callable[[], bool] = lambda: True,
        within_s: float = WAIT_S,
    ) -> MonitorOutput:
        """Listen until that holds of what was read, or the process that should send it has ended."""
        limit = time.monotonic() + within_s
        while not holds(self.found):
            was_alive = alive()
            polled = [record for reader in self._topics for record in reader.poll(POLL_S, RECORDS)]
            for record in polled:
                self._readers[record.topic](record.value or b"")
            if not polled and not was_alive:
                break
            assert time.monotonic() < limit, f"not read in time: {self.found}"
        return self.found

    def close(self) -> None:
        """Stop listening."""
        for reader in self._topics:
            reader.close()
