"""The client of a group over the broker in memory: polls return at once, and nothing happens between calls.

A rebalance reaches a client with its next poll, as it reaches librdkafka's consumer. Until then it has its
partitions and an earlier generation, and the broker rejects what it commits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..group.broker_errors import (
    FENCED,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
    fenced_error,
)
from ..group.changed_topics import Loss, loss_of
from ..group.client import Assignment, ClientRecord, OutgoingRecord, TopicPartition
from ..group.state import Latest
from .broker import MemoryBroker, MemoryTransaction


class MemoryProducer:
    """The transactional producer of one client; `name` is its transactional id."""

    def __init__(
        self, broker: MemoryBroker, client: str, group: str, instance: str, timeout_s: float
    ) -> None:
        self._broker, self._client, self._group = broker, client, group
        self._instance, self._timeout_s = instance, timeout_s
        self._name = f"{group}-{instance}"
        self._epoch: int | None = None
        self._began = 0.0
        self._transaction: MemoryTransaction | None = None

    @property
    def is_open(self) -> bool:
        """Return whether there may be transactions."""
        return self._epoch is not None

    def open(self) -> None:
        """Abort what was left open."""
        self._broker.request(self._client, "init")
        self._epoch = self._broker.open_producer(self._name)

    def discard(self) -> None:
        """Drop the producer; the broker aborts what is open when its time is over, or its successor opens."""
        self._epoch = self._transaction = None

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return self._broker.partitions(topic)

    def begin(self) -> None:
        """Begin a transaction."""
        if self._epoch is None:
            raise IllegalStateError("the producer is not open")
        self._began = self._broker.clock()
        self._broker.request(self._client, "begin")
        self._transaction = self._broker.begin(self._name, self._epoch, self._timeout_s)

    def produce(self, records: Iterable[OutgoingRecord]) -> None:
        """Append records."""
        for record in records:
            self._broker.request(self._client, "produce")
            transaction = self._current()
            time_ms = round(self._broker.clock() * 1000)
            self._broker.append(
                record.topic, record.partition, record.key, record.value, time_ms, transaction
            )

    def offsets(self, offsets: Mapping[TopicPartition, int], member: Any) -> None:
        """Add the group's offsets to the transaction."""
        self._broker.request(self._client, "offsets")
        transaction = self._current()
        self._broker.check_member(self._group, member)
        transaction.offsets.update({(self._group, place): offset for place, offset in offsets.items()})

    def commit(self) -> None:
        """Commit the transaction."""
        self._broker.request(self._client, "commit")
        self._broker.end_transaction(self._name, self._current(), is_committed=True)
        self._transaction = None

    def abandon(self, error: KafkaError) -> KafkaError:
        """Let go of a transaction that failed, and return the error."""
        age_s = self._broker.clock() - self._began
        self.discard()
        if isinstance(error, FENCED) and age_s < self._timeout_s:
            raise fenced_error(self._instance)
        return error

    def _current(self) -> MemoryTransaction:
        """Return the open transaction; raise ProducerFencedError where the broker has ended it."""
        self._broker.expire()
        if self._epoch is None or self._transaction is None:
            raise IllegalStateError("there is no transaction")
        self._broker.check_epoch(self._name, self._epoch)
        return self._transaction


class MemoryClient:
    """A client of one process; `name` is unique among the clients of a broker.

    `topic` is divided by the group, `beside` is the second topic, if there is one. With an `instance` the
    client has transactions.
    """

    def __init__(
        self,
        broker: MemoryBroker,
        group: str,
        name: str,
        topic: str,
        timeout_s: float,
        beside: str | None = None,
        instance: str | None = None,
    ) -> None:
        self.assignment = Assignment()
        self.group, self.topic = group, topic
        self.transactions = MemoryProducer(broker, name, group, instance or "none", timeout_s)
        self._broker, self._name, self._beside = broker, name, beside
        self._timeout_s, self._is_transactional = timeout_s, instance is not None
        self._generation: int | None = None
        self._has_joined = False
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._ids: dict[str, int] = {}

    def open(self) -> None:
        """Join the group, and abort the transaction that an earlier run left open."""
        if not self._has_joined:
            self._ask("join")
            self._broker.join(self.group, self._name, self.topic, self._timeout_s)
            self._has_joined = True
        if self._is_transactional and not self.transactions.is_open:
            self.transactions.open()

    def close(self) -> None:
        """Leave the group, and drop what was not committed."""
        self.transactions.discard()
        if self._has_joined:
            self._broker.leave(self.group, self._name)
            self._has_joined, self._generation = False, None

    def member(self) -> tuple[str, int] | None:
        """Return the membership: the name and the generation of the last assignment."""
        return None if self._generation is None else (self._name, self._generation)

    def poll(self, topic: str, wait_s: float, records_max: int) -> list[ClientRecord]:  # noqa: ARG002
        """Return records of a topic, one partition after the other; the next poll begins with another one."""
        self._ask("poll")
        if topic == self.topic:
            self._follow_group()
        found: list[ClientRecord] = []
        for place in [place for place in self._positions if place.topic == topic]:
            if place in self._paused or len(found) >= records_max:
                continue
            limit = min(records_max - len(found), self._broker.fetch_limit(place))
            records, position = self._broker.read(place, self._positions.pop(place), limit)
            self._positions[place], self._ends[place] = position, self._broker.end(place)
            found += records
        return found

    def _follow_group(self) -> None:
        """Take note of a rebalance: one poll revokes the partitions, the next one assigns them."""
        if not self._has_joined:
            return
        if (generation := self._broker.heartbeat(self.group, self._name)) is None:
            self._broker.join(self.group, self._name, self.topic, self._timeout_s)
            generation = self._broker.heartbeat(self.group, self._name)
        if generation == self._generation and self.assignment.is_complete:
            return
        for place in [place for place in self._positions if place.topic == self.topic]:
            del self._positions[place]
        self._paused = {place for place in self._paused if place.topic != self.topic}
        if self.assignment.is_complete:
            self.assignment.revoke()
            return
        self._generation = generation
        numbers = self._broker.assignment(self.group, self._name)
        self.assignment.assign(numbers)
        for place in (TopicPartition(self.topic, number) for number in numbers):
            committed = self._broker.committed(self.group, place)
            self._positions[place] = self._broker.first(place) if committed is None else committed

    def read_from(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Read these partitions from these offsets on, and no others."""
        numbers = {place.partition for place in offsets if place.topic == self.topic}
        if not numbers <= self.assignment.owned:
            return False
        self._positions = dict(offsets)
        self._paused.clear()
        return True

    def pause(self, partition: TopicPartition, *, is_paused: bool) -> None:
        """Stop reading a partition, or go on with it."""
        if is_paused:
            self._paused.add(partition)
        else:
            self._paused.discard(partition)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        self._ask("metadata")
        return self._broker.partitions(topic)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset behind the last record that was polled, or that was skipped as uncommitted."""
        if partition not in self._positions:
            raise IllegalStateError(f"{partition} is not assigned")
        return self._positions[partition]

    def committed(self, partition: TopicPartition) -> int | None:
        """Return the group's offset, None without one."""
        self._ask("committed")
        if self._broker.has_pending_offset(self.group, partition):
            raise KafkaTimeoutError("a transaction is open that may still commit an offset")
        return self._broker.committed(self.group, partition)

    def first(self, partition: TopicPartition) -> int:
        """Return the offset of the first record that the broker has not deleted."""
        self._ask("offsets of records")
        return self._broker.first(partition)

    def first_since(self, partition: TopicPartition, time_ms: int) -> int:
        """Return the offset of the first record that is not older; the end without one."""
        self._ask("offsets of records")
        return self._broker.first_since(partition, time_ms)

    def unread(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the number of unread records of each partition."""
        self._ask("offsets of records")
        return {place: max(0, self._broker.end(place) - self.position(place)) for place in partitions}

    def high_water(self, partition: TopicPartition) -> int | None:
        """Return where a partition ended at the last poll, None before the first one."""
        return self._ends.get(partition)

    def read_compacted(
        self, topic: str, partitions: Collection[int], going_on: Callable[[], bool]
    ) -> dict[int, dict[str, bytes]] | None:
        """Return the latest value of each key of each partition.

        Raises KafkaTimeoutError where a transaction is open that began before: nothing is waited for here.
        """
        self._ask("read state")
        if not going_on():
            return None
        found: dict[int, dict[str, bytes]] = {}
        for number in partitions:
            place, latest = TopicPartition(topic, number), Latest(topic)
            end = self._broker.end(place)
            records, position = self._broker.read(place, self._broker.first(place), end)
            if position < end:
                raise KafkaTimeoutError(f"a transaction is open in {topic}")
            for record in records:
                latest.put(record.key, record.value)
            found[number] = latest.values
        return found

    def find_loss(self, topic: str, read: Mapping[int, int]) -> Loss | None:
        """Return why this is not the topic that was read up to these offsets; None where it is."""
        self._ask("check")
        ends = {number: self._broker.end(TopicPartition(topic, number)) for number in read}
        found = self._broker.topic_id(topic)
        return loss_of(topic, read, ends, is_recreated=found != self._ids.setdefault(topic, found))

    def is_recreated(self, topic: str) -> bool:
        """Return whether the name has another topic now than the one that was checked first."""
        try:
            found = self._broker.topic_id(topic)
        except UnknownTopicOrPartitionError:
            return False
        return self._ids.get(topic, found) != found

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group outside any transaction."""
        self._ask("commit offsets")
        if self._generation is None:
            raise IllegalStateError("the client is no member")
        self._broker.commit(self.group, offsets, (self._name, self._generation))

    def produce(self, record: OutgoingRecord) -> None:
        """Append a record outside any transaction."""
        self._ask("produce")
        time_ms = round(self._broker.clock() * 1000)
        self._broker.append(record.topic, record.partition, record.key, record.value, time_ms)

    def _ask(self, kind: str) -> None:
        self._broker.request(self._name, kind)
