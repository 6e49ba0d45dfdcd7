"""A broker in memory: topics, groups with generations, transactions with fencing.

It keeps the guarantees of Kafka that the pipeline relies on, and no more:

- A partition is a log. A record of a transaction is visible once that is committed, a marker ends the
  transaction in every partition that it wrote to, and nobody reads past the first record of an open one.
- Of two producers with one transactional id the later one fences the earlier.
- A group divides the partitions of its topic by ranges, again whenever a member joins, leaves or is silent
  for its timeout. It rejects offsets of an earlier generation.
- A topic that is created again under its name has another id and no records.

It has no threads, and waits for nothing: the time is a function that the caller passes. It does not rewrite
compacted logs, which only saves space, and it deletes records when it is asked to.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from ..group.broker_errors import (
    CommitFailedError,
    MessageSizeTooLargeError,
    ProducerFencedError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from ..group.client import TopicPartition

RECORDS_MAX = 1 << 30
Request = Callable[[str, str], None]
"""Called before every request of a client, with the client's name and the kind; may raise a KafkaError."""


def _nothing(client: str, kind: str) -> None:
    """Let a request pass."""


class TransactionState(Enum):
    """The states of a transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(eq=False, slots=True)
class MemoryTransaction:
    """A transaction: the partitions that it wrote to, and the offsets of a group that it commits."""

    expires: float
    state: TransactionState = TransactionState.OPEN
    partitions: set[TopicPartition] = field(default_factory=set[TopicPartition])
    offsets: dict[tuple[str, TopicPartition], int] = field(
        default_factory=dict[tuple[str, TopicPartition], int]
    )


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record of a topic; `timestamp` is in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class _LogEntry:
    """An entry of a log: a record, or (without one) the marker at which a transaction ended."""

    record: MemoryRecord | None
    transaction: MemoryTransaction | None

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.state is TransactionState.OPEN

    @property
    def is_committed(self) -> bool:
        return self.transaction is None or self.transaction.state is TransactionState.COMMITTED


@dataclass(slots=True)
class _Log:
    """A partition: its entries, and the offset of the first one that is not deleted."""

    entries: list[_LogEntry] = field(default_factory=list[_LogEntry])
    first: int = 0


@dataclass(slots=True)
class _Topic:
    """A topic: its id, its partitions, and the largest record that it takes."""

    id: int
    logs: list[_Log]
    bytes_max: int
    sent: int = 0


@dataclass(slots=True)
class _Member:
    """A member of a group: how long it may be silent, and until when it is a member if it stays so."""

    timeout_s: float
    expires: float


@dataclass(slots=True)
class _Group:
    """A group: its generation, and its members in the order of their names."""

    topic: str
    generation: int = 0
    members: dict[str, _Member] = field(default_factory=dict[str, _Member])
    offsets: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])


class MemoryBroker:
    """The broker; `clock` is its time in seconds, `request` is called before every request of a client.

    `fetch_limit` is how many records of a partition a poll returns at most; replace it to hold some back.
    """

    def __init__(self, clock: Callable[[], float], request: Request | None = None) -> None:
        self.clock = clock
        self.request: Request = request or _nothing
        self.fetch_limit: Callable[[TopicPartition], int] = lambda _place: RECORDS_MAX
        self._topics: dict[str, _Topic] = {}
        self._created = 0
        self._groups: dict[str, _Group] = {}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, MemoryTransaction] = {}

    # Topics

    def create_topic(self, name: str, partitions: int, bytes_max: int = 1 << 30) -> None:
        """Create a topic that takes records of up to so many bytes."""
        if name in self._topics:
            raise TopicAlreadyExistsError(name)
        self._created += 1
        self._topics[name] = _Topic(self._created, [_Log() for _ in range(partitions)], bytes_max)
        self._rebalance(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records, and every group's offsets of it."""
        self._topic(name)
        del self._topics[name]
        for group in self._groups.values():
            for place in [place for place in group.offsets if place.topic == name]:
                del group.offsets[place]

    def add_partitions(self, name: str, partitions: int) -> None:
        """Add partitions, up to so many."""
        logs = self._topic(name).logs
        logs += [_Log() for _ in range(partitions - len(logs))]
        self._rebalance(name)

    def delete_records(self, place: TopicPartition, before: int) -> None:
        """Delete the records of a partition before an offset."""
        log = self._log(place)
        log.first = max(log.first, min(before, len(log.entries)))

    def topic_id(self, name: str) -> int:
        """Return the id of a topic."""
        return self._topic(name).id

    def partitions(self, name: str) -> int:
        """Return the number of partitions of a topic."""
        return len(self._topic(name).logs)

    def first(self, place: TopicPartition) -> int:
        """Return the offset of the first record that is not deleted."""
        return self._log(place).first

    def end(self, place: TopicPartition) -> int:
        """Return the offset of the next record."""
        return len(self._log(place).entries)

    def first_since(self, place: TopicPartition, time_ms: int) -> int:
        """Return the offset of the first record that is not older; the end without one."""
        log = self._log(place)
        for offset in range(log.first, len(log.entries)):
            record = log.entries[offset].record
            if record is not None and record.timestamp >= time_ms:
                return offset
        return len(log.entries)

    # Records

    def append(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        time_ms: int,
        transaction: MemoryTransaction | None = None,
    ) -> int:
        """Append a record, and return its offset; a record without a partition gets one by its key."""
        found = self._topic(topic)
        if value is not None and len(value) > found.bytes_max:
            raise MessageSizeTooLargeError(topic)
        if partition is None:
            found.sent += 1
            partition = (found.sent if key is None else zlib.crc32(key)) % len(found.logs)
        place = TopicPartition(topic, partition)
        entries = self._log(place).entries
        if transaction is not None:
            transaction.partitions.add(place)
        record = MemoryRecord(topic, partition, len(entries), time_ms, key, value)
        entries.append(_LogEntry(record, transaction))
        return record.offset

    def read(self, place: TopicPartition, offset: int, records_max: int) -> tuple[list[MemoryRecord], int]:
        """Return up to so many committed records from an offset on, and the offset behind them.

        An offset that the partition does not have becomes the first one that it has.
        """
        log = self._log(place)
        at = offset if log.first <= offset <= len(log.entries) else log.first
        records: list[MemoryRecord] = []
        while at < len(log.entries) and len(records) < records_max:
            entry = log.entries[at]
            if entry.is_open:
                break
            if entry.record is not None and entry.is_committed:
                records.append(entry.record)
            at += 1
        return records, at

    # Groups

    def join(self, group: str, member: str, topic: str, timeout_s: float) -> None:
        """Make a client a member of the group that divides a topic."""
        found = self._groups.setdefault(group, _Group(topic))
        found.topic = topic
        found.members[member] = _Member(timeout_s, self.clock() + timeout_s)
        found.generation += 1

    def leave(self, group: str, member: str) -> None:
        """End a membership; the members that are left divide its partitions."""
        if group in self._groups and self._groups[group].members.pop(member, None) is not None:
            self._groups[group].generation += 1

    def heartbeat(self, group: str, member: str) -> int | None:
        """Return the generation of the group; None where the client is no member any more."""
        self.expire()
        found = self._groups[group]
        if (known := found.members.get(member)) is None:
            return None
        known.expires = self.clock() + known.timeout_s
        return found.generation

    def assignment(self, group: str, member: str) -> list[int]:
        """Return the partitions of a member: members divide the topic by ranges, in the order of names."""
        found = self._groups[group]
        names = sorted(found.members)
        count = len(self._topics[found.topic].logs) if found.topic in self._topics else 0
        each, more = divmod(count, len(names))
        index = names.index(member)
        first = index * each + min(index, more)
        return list(range(first, first + each + (index < more)))

    def committed(self, group: str, place: TopicPartition) -> int | None:
        """Return the offset of a group, None without one."""
        return self._groups[group].offsets.get(place) if group in self._groups else None

    def has_pending_offset(self, group: str, place: TopicPartition) -> bool:
        """Return whether an open transaction may change the offset of a group."""
        self.expire()
        return any((group, place) in transaction.offsets for transaction in self._open.values())

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], member: tuple[str, int]) -> None:
        """Commit offsets of a member. Raises CommitFailedError where its generation is over."""
        self.check_member(group, member)
        self._groups[group].offsets.update(offsets)

    def check_member(self, group: str, member: tuple[str, int]) -> None:
        """Raise CommitFailedError where a membership (name and generation) is over."""
        self.expire()
        found = self._groups[group]
        if member[0] not in found.members or member[1] != found.generation:
            raise CommitFailedError

    def _rebalance(self, topic: str) -> None:
        for group in self._groups.values():
            if group.topic == topic:
                group.generation += 1

    # Transactions

    def open_producer(self, name: str) -> int:
        """Return the epoch of a new producer of a transactional id, and abort what its predecessor left."""
        if (left := self._open.pop(name, None)) is not None:
            self._end(left, TransactionState.ABORTED)
        self._epochs[name] = self._epochs.get(name, 0) + 1
        return self._epochs[name]

    def check_epoch(self, name: str, epoch: int) -> None:
        """Raise ProducerFencedError where a later producer has the transactional id."""
        if self._epochs[name] != epoch:
            raise ProducerFencedError(name)

    def begin(self, name: str, epoch: int, timeout_s: float) -> MemoryTransaction:
        """Begin a transaction, which the broker aborts after its timeout."""
        self.check_epoch(name, epoch)
        self._open[name] = MemoryTransaction(self.clock() + timeout_s)
        return self._open[name]

    def end_transaction(self, name: str, transaction: MemoryTransaction, *, is_committed: bool) -> None:
        """Commit or abort a transaction: its records and its offsets together."""
        if self._open.get(name) is transaction:
            del self._open[name]
        self._end(transaction, TransactionState.COMMITTED if is_committed else TransactionState.ABORTED)

    def expire(self) -> None:
        """End the memberships and abort the transactions whose time is over."""
        now = self.clock()
        for group in self._groups.values():
            gone = [name for name, member in group.members.items() if member.expires < now]
            for name in gone:
                del group.members[name]
                group.generation += 1
        for name in [name for name, transaction in self._open.items() if transaction.expires < now]:
            # The producer of an aborted transaction is fenced.
            self._epochs[name] += 1
            self._end(self._open.pop(name), TransactionState.ABORTED)

    def _end(self, transaction: MemoryTransaction, state: TransactionState) -> None:
        transaction.state = state
        for place in sorted(transaction.partitions):
            if place.topic in self._topics:
                self._log(place).entries.append(_LogEntry(None, transaction))
        if state is TransactionState.COMMITTED:
            for (group, place), offset in transaction.offsets.items():
                self._groups[group].offsets[place] = offset

    def _topic(self, name: str) -> _Topic:
        if name not in self._topics:
            raise UnknownTopicOrPartitionError(name)
        return self._topics[name]

    def _log(self, place: TopicPartition) -> _Log:
        logs = self._topic(place.topic).logs
        if place.partition >= len(logs):
            raise UnknownTopicOrPartitionError(f"{place.topic}-{place.partition}")
        return logs[place.partition]
