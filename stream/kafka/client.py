"""The client of a group over Kafka: librdkafka's consumers, producers and admin client behind one protocol.

Two consumers read: one is a member of the group; the other joins no group, and has the partitions of the
second topic assigned. So one process has both topics of a partition, whatever topics other members read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from ..group.broker_errors import IllegalStateError, KafkaConnectionError, KafkaError, KafkaTimeoutError
from ..group.changed_topics import Loss
from ..group.client import Assignment, ClientRecord, OutgoingRecord, TopicPartition
from .librdkafka.admin import EARLIEST, LATEST, Which, since
from .librdkafka.reader import TopicReader, read_compacted
from .librdkafka.sender import RecordSender
from .preflight import LISTEN_S, require_listener
from .properties import consuming, joining, producing
from .settings import KafkaSettings
from .topic_identity import TopicIdentities
from .transactions import Transactions

ASK_S = 2.0
"""Seconds that the broker may take to answer a request."""
SEND_MS = 5_000
"""Milliseconds that the broker may take to acknowledge a record outside a transaction."""


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
        self._polled: set[str] = set()
        self._member: TopicReader | None = None
        self._beside: TopicReader | None = None
        self._sender: RecordSender | None = None

    def open(self) -> None:
        """Join the group, and abort the transaction that an earlier run left open."""
        if self._member is None:
            require_listener(self._settings, LISTEN_S)
            properties = joining(self._settings, self._process, self._timeout_s)
            self._member = TopicReader(properties, self.topic, self.assignment, self._is_away)
        if self._beside_topic is not None and self._beside is None:
            self._beside = TopicReader(consuming(self._settings, self._process), self._beside_topic)
        if self._is_transactional and not self.transactions.is_open:
            self.transactions.open()

    def close(self) -> None:
        """Leave the group, and drop what was not committed."""
        self.transactions.discard()
        self._checks.close()
        for closing in (self._sender, self._beside, self._member):
            if closing is not None:
                with suppress(KafkaError):
                    closing.close()

    def member(self) -> bytes | None:
        """Return the membership for `Transactions.offsets`; None without one."""
        return None if self._member is None else self._member.member

    def poll(self, topic: str, wait_s: float, records_max: int) -> list[ClientRecord]:
        """Return records of a topic, those of a partition in order; wait for the first one."""
        records = self._of(topic).poll(wait_s, records_max)
        if records:
            self._polled.add(topic)
        return list(records)

    def read_from(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Read these partitions from these offsets on, and no others."""
        by_topic: dict[str, dict[int, int]] = {}
        for place, offset in offsets.items():
            by_topic.setdefault(place.topic, {})[place.partition] = offset
        if not by_topic.get(self.topic, {}).keys() <= self.assignment.owned:
            return False
        for reader in (self._member, self._beside):
            if reader is not None:
                reader.read_from(by_topic.get(reader.topic, {}))
        return True

    def pause(self, partition: TopicPartition, *, is_paused: bool) -> None:
        """Stop reading a partition, or go on with it."""
        self._of(partition.topic).pause(partition.partition, is_paused=is_paused)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return self._checks.ask(lambda admin: admin.partitions(topic))

    def position(self, partition: TopicPartition) -> int:
        """Return the offset behind the last record that was polled, or that was skipped as uncommitted."""
        return self._of(partition.topic).position(partition.partition)

    def committed(self, partition: TopicPartition) -> int | None:
        """Return the group's offset, None without one."""
        return self._of(self.topic).committed(partition, ASK_S)

    def first(self, partition: TopicPartition) -> int:
        """Return the offset of the first record that the broker has not deleted."""
        return self._offset(partition, EARLIEST)

    def first_since(self, partition: TopicPartition, time_ms: int) -> int:
        """Return the offset of the first record that is not older; the end without one."""
        found = self._offset(partition, since(time_ms))
        return self._offset(partition, LATEST) if found < 0 else found

    def _offset(self, partition: TopicPartition, which: Which) -> int:
        return self._checks.ask(lambda admin: admin.offsets([partition], which))[partition]

    def unread(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the number of unread records of each partition; this asks the broker."""
        ends = self._checks.ask(lambda admin: admin.offsets(partitions, LATEST))
        return {place: max(0, end - self.position(place)) for place, end in ends.items()}

    def high_water(self, partition: TopicPartition) -> int | None:
        """Return where a partition ended at the last poll, None before the first one; asks no broker."""
        return self._of(partition.topic).high_water(partition.partition)

    def read_compacted(
        self, topic: str, partitions: Collection[int], going_on: Callable[[], bool]
    ) -> dict[int, dict[str, bytes]] | None:
        """Return the latest value of each key of each partition; None where `going_on` turns false."""
        require_listener(self._settings, LISTEN_S)
        reader = TopicReader(consuming(self._settings, self._process), topic)
        try:
            return read_compacted(reader, partitions, going_on)
        finally:
            reader.close()

    def find_loss(self, topic: str, read: Mapping[int, int]) -> Loss | None:
        """Return why this is not the topic that was read up to these offsets; None where it is."""
        return self._checks.find_loss(topic, read)

    def is_recreated(self, topic: str) -> bool:
        """Return whether records of a topic came since the last call, and the name has another topic now.

        librdkafka goes on in the other topic without a word.
        """
        if topic not in self._polled:
            return False
        self._polled.remove(topic)
        return self._checks.is_recreated(topic)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group outside any transaction."""
        # librdkafka waits for a coordinator as long as a member may be silent.
        require_listener(self._settings, LISTEN_S)
        self._of(self.topic).commit(offsets)

    def produce(self, record: OutgoingRecord) -> None:
        """Send a record outside any transaction, and return once the broker has it."""
        if self._sender is None:
            properties = producing(self._settings, self._process)
            self._sender = RecordSender({**properties, "message.timeout.ms": SEND_MS})
        self._sender.send([record])

    def _is_away(self) -> bool:
        """Return whether no broker answers."""
        try:
            self.partitions(self.topic)
        except (KafkaConnectionError, KafkaTimeoutError):
            return True
        except KafkaError:
            return False
        return False

    def _of(self, topic: str) -> TopicReader:
        """Return the reader of a topic."""
        reader = self._member if topic == self.topic or self._beside is None else self._beside
        if reader is None:
            raise IllegalStateError("the client is not open")
        return reader
