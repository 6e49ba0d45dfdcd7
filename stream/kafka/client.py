"""The client of a group over Kafka: kafka-python's consumers, producers and admin client behind one protocol.

Two consumers read: one is a member of the group; the other is in no group, and has the partitions of the
second topic assigned. So one process has both topics of a partition, whatever topics other members read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from ..group.changed_topics import Loss
from ..group.client import Assignment, ClientRecord, OutgoingRecord
from .assignment import join
from .compacted import read_compacted
from .preflight import LISTEN_S, require_listener
from .settings import KafkaSettings, consuming, producing
from .topic_identity import TopicIdentities
from .transactions import Transactions

FETCH_BYTES = 4 << 20
"""Bytes that are fetched of a partition at a time; a larger record is fetched alone."""
ASK_MS = 2_000
"""Milliseconds that the broker may take to answer a request."""
SEND_S = 5.0
"""Seconds that the broker may take to acknowledge a record outside a transaction."""
CLOSE_MS = 5_000


class KafkaClient:
    """A client of one process. It connects to nothing before `open`.

    `topic` is divided by the group, `beside` is the second topic, if there is one. A process that does not
    poll for `timeout_s` loses its partitions. With an `instance` the client has transactions.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        process: str,
        topic: str,
        timeout_s: float,
        beside: str | None = None,
        instance: str | None = None,
    ) -> None:
        self.assignment = Assignment()
        self.topic, self.group = topic, settings.group(process)
        self.transactions = Transactions(settings, process, instance or "none", timeout_s)
        self._settings, self._process, self._timeout_s = settings, process, timeout_s
        self._beside_topic, self._is_transactional = beside, instance is not None
        self._checks = TopicIdentities(settings, process)
        self._consumer: Any = None
        self._beside: Any = None
        self._producer: Any = None

    def open(self) -> None:
        """Join the group, and abort the transaction that an earlier run left open."""
        sizes = {"max_partition_fetch_bytes": FETCH_BYTES, "fetch_max_bytes": 2 * FETCH_BYTES}
        if self._consumer is None:
            self._consumer = join(
                self._settings, self._process, self.topic, self._timeout_s, self.assignment, **sizes
            )
        if self._beside_topic is not None and self._beside is None:
            self._beside = consumer_in_no_group(self._settings, self._process, **sizes)
        if self._is_transactional and not self.transactions.is_open:
            self.transactions.open()

    def close(self) -> None:
        """Leave the group, and drop what was not committed."""
        self.transactions.discard()
        self._checks.close()
        if self._producer is not None:
            with suppress(KafkaError):
                self._producer.close(timeout=CLOSE_MS / 1000)
        for consumer in (self._beside, self._consumer):
            if consumer is not None:
                with suppress(KafkaError):
                    consumer.close(autocommit=False, timeout_ms=CLOSE_MS)

    def member(self) -> Any:
        """Return the membership for `Transactions.offsets`; None without one."""
        member = self._consumer.group_metadata()
        return member if member.generation_id >= 0 else None

    def poll(self, topic: str, wait_s: float, records_max: int) -> list[ClientRecord]:
        """Return records of a topic.

        kafka-python (3.0) keeps what it fetched of a paused partition, and takes it up again only where it
        has polled no other partition since: the buffer that it polled last stays in the place that must be
        free, though it is empty. Then it neither polls nor fetches the resumed partition any more.
        """
        consumer = self._of(topic)
        if consumer is self._beside and not consumer.assignment():
            return []
        fetcher = consumer._fetcher
        if not fetcher._next_partition_records:
            fetcher._next_partition_records = None
        polled = consumer.poll(round(wait_s * 1000), max_records=records_max)
        return [record for records in polled.values() for record in records]

    def follow(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions of the second topic, and no others."""
        if self._beside is not None:
            self._beside.assign(list(partitions))

    def seek(self, partition: TopicPartition, offset: int) -> bool:
        """Go on reading at an offset; return False where the partition was revoked just now."""
        try:
            self._of(partition.topic).seek(partition, offset)
        except ValueError:
            return False
        return True

    def pause(self, partition: TopicPartition, *, is_paused: bool) -> None:
        """Stop reading a partition, or go on with it."""
        consumer = self._of(partition.topic)
        if (partition in consumer.paused()) != is_paused:
            (consumer.pause if is_paused else consumer.resume)(partition)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic that is read."""
        found = self._of(topic).partitions_for_topic(topic)
        if not found:
            raise UnknownTopicOrPartitionError(topic)
        return len(found)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset behind the last record that was polled, or that was skipped as uncommitted."""
        found: int | None = self._of(partition.topic).position(partition, timeout_ms=ASK_MS)
        return found or 0

    def committed(self, partition: TopicPartition) -> int | None:
        """Return the group's offset, None without one."""
        found: int | None = self._consumer.committed(partition, timeout_ms=ASK_MS)
        return found

    def first(self, partition: TopicPartition) -> int:
        """Return the offset of the first record that the broker has not deleted."""
        return self._of(partition.topic).beginning_offsets([partition], timeout_ms=ASK_MS)[partition]

    def first_since(self, partition: TopicPartition, time_ms: int) -> int:
        """Return the offset of the first record that is not older; the end without one."""
        consumer = self._of(partition.topic)
        found = consumer.offsets_for_times({partition: time_ms}).get(partition)
        return self._ends(consumer, [partition])[partition] if found is None else found.offset

    def unread(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the number of unread records of each partition; this asks the broker."""
        by_topic: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(partition)
        found: dict[TopicPartition, int] = {}
        for topic, numbers in by_topic.items():
            consumer = self._of(topic)
            ends = self._ends(consumer, numbers)
            for partition in numbers:
                # The records of an open transaction lie between the two.
                end = max(ends[partition], consumer.highwater(partition) or 0)
                found[partition] = max(0, end - self.position(partition))
        return found

    def _ends(self, consumer: Any, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return consumer.end_offsets(partitions, timeout_ms=ASK_MS)

    def high_water(self, partition: TopicPartition) -> int | None:
        """Return where a partition ended at the last poll, None before the first one; asks no broker."""
        found: int | None = self._of(partition.topic).highwater(partition)
        return found

    def read_compacted(
        self, topic: str, partitions: Collection[int], going_on: Callable[[], bool]
    ) -> dict[int, dict[str, bytes]] | None:
        """Return the latest value of each key of each partition; None where `going_on` turns false."""
        reader = consumer_in_no_group(self._settings, self._process, fetch_max_wait_ms=ASK_MS // 20)
        try:
            return read_compacted(reader, topic, partitions, going_on)
        finally:
            reader.close()

    def find_loss(self, topic: str, read: Mapping[int, int]) -> Loss | None:
        """Return why this is not the topic that was read up to these offsets; None where it is."""
        return self._checks.find_loss(topic, read)

    def is_recreated(self, topic: str) -> bool:
        """Return whether a consumer has learned that the name has another topic now."""
        return self._checks.is_recreated(topic, self._of(topic))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group outside any transaction."""
        committed = {place: OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        self._consumer.commit(committed, timeout_ms=ASK_MS)

    def produce(self, record: OutgoingRecord) -> None:
        """Send a record outside any transaction, and return once the broker has it."""
        if self._producer is None:
            self._producer = KafkaProducer(**producing(self._settings, self._process))
        sent = self._producer.send(
            record.topic, value=record.value, key=record.key, partition=record.partition
        )
        sent.get(timeout=SEND_S)

    def _of(self, topic: str) -> Any:
        """Return the consumer that reads a topic."""
        return self._consumer if topic == self.topic or self._beside is None else self._beside


def consumer_in_no_group(settings: KafkaSettings, process: str, **limits: Any) -> Any:
    """Return a consumer of committed records to which partitions are assigned."""
    require_listener(settings, LISTEN_S)
    options: dict[str, Any] = {**consuming(settings, process), "group_id": None, **limits}
    return KafkaConsumer(**options)
