"""The client through which a process of a group reads and writes: one protocol, for Kafka and for memory.

Both implementations raise the errors of `broker_errors.py`, and `tests/kafka/test_client_contract.py` holds
them to the same behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from ..messages.record import Record
from .broker_errors import KafkaError
from .changed_topics import Loss


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class ClientRecord(Protocol):
    """A record as the client returns it; `timestamp` is in milliseconds, and -1 where there is none."""

    @property
    def topic(self) -> str: ...  # noqa: D102
    @property
    def partition(self) -> int: ...  # noqa: D102
    @property
    def offset(self) -> int: ...  # noqa: D102
    @property
    def timestamp(self) -> int: ...  # noqa: D102
    @property
    def key(self) -> bytes | None: ...  # noqa: D102
    @property
    def value(self) -> bytes | None: ...  # noqa: D102


def record_of(record: ClientRecord) -> Record:
    """Return a record of the client as the stages read it."""
    return Record(record.partition, record.offset, record.timestamp * 1_000_000, record.value or b"")


class OutgoingRecord(NamedTuple):
    """A record to send; `partition` None: any; `value` None: a compacted topic forgets the key."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None


class Assignment:
    """The partitions that the group has assigned to a client.

    `count` grows with every change. `is_complete` is false while the group divides the partitions.
    """

    def __init__(self) -> None:
        self.count = 0
        self.owned: frozenset[int] = frozenset()
        self.is_complete = False

    def revoke(self) -> None:
        """Take note that the group divides the partitions, so that this client owns none."""
        self.is_complete = False
        self._change(())

    def assign(self, numbers: Iterable[int]) -> None:
        """Take note that this client owns these partitions, and no others."""
        self.is_complete = True
        self._change(numbers)

    def _change(self, numbers: Iterable[int]) -> None:
        self.owned = frozenset(numbers)
        self.count += 1


class TransactionalProducer(Protocol):
    """A producer that writes records and offsets together.

    After a KafkaError nothing of the transaction may be relied on: call `abandon`.
    """

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        ...

    def begin(self) -> None:
        """Begin a transaction."""

    def produce(self, records: Iterable[OutgoingRecord]) -> None:
        """Send records, and return once the brokers have all of them."""

    def offsets(self, offsets: Mapping[TopicPartition, int], member: Any) -> None:
        """Add the group's offsets to the transaction; `member` is the membership at the poll.

        Raises CommitFailedError if the group has assigned the partitions again since.
        """

    def commit(self) -> None:
        """Commit the transaction."""

    def abandon(self, error: KafkaError) -> KafkaError:
        """Let go of a transaction that failed, and return the error that ended it.

        Raises StreamError (TRL733) where another process of this instance has ended it.
        """
        ...


class GroupClient(Protocol):
    """A member of a consumer group that reads one topic of the group, and perhaps another one beside it.

    The group divides the first topic; a process chooses the partitions of the second one with `read_from`.
    Every method raises KafkaError where the broker does not answer, or refuses.
    """

    @property
    def assignment(self) -> Assignment:
        """Return the partitions that the group has assigned."""
        ...

    @property
    def transactions(self) -> TransactionalProducer:
        """Return the producer of transactions."""
        ...

    @property
    def group(self) -> str:
        """Return the name of the group."""
        ...

    @property
    def topic(self) -> str:
        """Return the topic that the group divides."""
        ...

    def open(self) -> None:
        """Join the group, and abort the transaction that an earlier run left open; once is enough."""

    def close(self) -> None:
        """Leave the group, and drop what was not committed."""

    def member(self) -> Any:
        """Return the membership for `TransactionalProducer.offsets`; None without one."""

    def poll(self, topic: str, wait_s: float, records_max: int) -> list[ClientRecord]:
        """Return records of a topic, those of a partition in order; wait for the first one."""
        ...

    def read_from(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Read these partitions of both topics from these offsets on, and no others.

        Returns False where the group has revoked one of its own just now; then nothing is changed.
        """
        ...

    def pause(self, partition: TopicPartition, *, is_paused: bool) -> None:
        """Stop reading a partition, or go on with it."""

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic.

        Raises UnknownTopicOrPartitionError where it is deleted.
        """
        ...

    def position(self, partition: TopicPartition) -> int:
        """Return the offset behind the last record that was polled, or that was skipped as uncommitted."""
        ...

    def committed(self, partition: TopicPartition) -> int | None:
        """Return the group's offset, None without one.

        Raises KafkaTimeoutError while a transaction is open that may still change it.
        """
        ...

    def first(self, partition: TopicPartition) -> int:
        """Return the offset of the first record that the broker has not deleted."""
        ...

    def first_since(self, partition: TopicPartition, time_ms: int) -> int:
        """Return the offset of the first record that is not older; the end without one."""
        ...

    def unread(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the number of unread records of each partition; this asks the broker."""
        ...

    def high_water(self, partition: TopicPartition) -> int | None:
        """Return where a partition ended at the last poll, None before the first one; asks no broker."""
        ...

    def read_compacted(
        self, topic: str, partitions: Collection[int], going_on: Callable[[], bool]
    ) -> dict[int, dict[str, bytes]] | None:
        """Return the latest value of each key of each partition; None where `going_on` turns false.

        Waits for transactions that began before. Raises StreamError (TRL731) for a record without a key.
        """
        ...

    def find_loss(self, topic: str, read: Mapping[int, int]) -> Loss | None:
        """Return why this is not the topic that was read up to these offsets; None where it is."""
        ...

    def is_recreated(self, topic: str) -> bool:
        """Return whether the client can see that records come from another topic of that name by now."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group outside any transaction."""

    def produce(self, record: OutgoingRecord) -> None:
        """Send a record outside any transaction, and return once the broker has it."""
