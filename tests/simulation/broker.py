"""What Kafka guarantees, in this process: logs, compaction, transactions with fencing, committed reads.

A written double, for the faults that a real broker cannot be made to have at a given moment. What it knows
of Kafka is little: a partition is a log whose offsets have holes where a transaction ended; a reader of
what is committed stops before the first record of an open transaction and never sees an aborted one; of two
producers with one transactional id the later one stops the earlier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tracline.stream.messages.topics import Topic
from tracline.stream.stages.rekey import Input, Record


class Fenced(Exception):
    """The producer has been replaced, or its group has moved on: it may write no more."""


@dataclass(eq=False)
class Transaction:
    """A producer's open transaction, or how it ended."""

    epoch: int
    state: str = "open"
    wrote: set[tuple[Topic, int]] = field(default_factory=set)
    offsets: dict[Input, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A record in a log, or (without one) the mark at which a transaction ended."""

    key: str | None
    value: bytes | None
    time: int
    transaction: Transaction | None
    is_mark: bool = False


class Broker:
    """Logs by topic and partition, and what groups have committed."""

    def __init__(self) -> None:
        self.logs: dict[tuple[Topic, int], list[Entry]] = defaultdict(list)
        self.committed: dict[tuple[str, Input | int], int] = defaultdict(int)
        self.generation: dict[int, int] = defaultdict(int)
        self._epochs: dict[str, int] = defaultdict(int)
        self._open: dict[str, Transaction] = {}

    def append(
        self,
        topic: Topic,
        partition: int,
        key: str | None,
        value: bytes | None,
        time: int,
        transaction: Transaction | None = None,
    ) -> int:
        """Write a record; its offset. Raises Fenced where its transaction is none any more."""
        if transaction is not None:
            if transaction.state != "open":
                raise Fenced
            transaction.wrote.add((topic, partition))
        log = self.logs[topic, partition]
        log.append(Entry(key, value, time, transaction))
        return len(log) - 1

    def read(self, topic: Topic, partition: int, at: int, most: int) -> tuple[list[Record], int]:
        """Up to so many committed records from an offset on, and the position behind them."""
        records: list[Record] = []
        log = self.logs[topic, partition]
        while at < len(log) and len(records) < most:
            entry = log[at]
            if entry.transaction is not None and entry.transaction.state == "open":
                break
            if not entry.is_mark and (entry.transaction is None or entry.transaction.state == "committed"):
                records.append(Record(partition, at, entry.time, entry.value or b"", topic))
            at += 1
        return records, at

    def latest(self, topic: Topic, partition: int) -> dict[str, bytes]:
        """Return what a compacted partition holds: the last committed value of each key."""
        found: dict[str, bytes] = {}
        for entry in self.logs[topic, partition]:
            if entry.is_mark or (entry.transaction is not None and entry.transaction.state != "committed"):
                continue
            assert entry.key is not None, "a compacted topic has keys"
            if entry.value is None:
                found.pop(entry.key, None)
            else:
                found[entry.key] = entry.value
        return found

    def join(self, name: str) -> int:
        """Begin as the producer of that name: whoever was it is fenced, and what he left open aborted."""
        self._epochs[name] += 1
        left = self._open.pop(name, None)
        if left is not None:
            self._end(left, "aborted")
        return self._epochs[name]

    def begin(self, name: str, epoch: int) -> Transaction:
        """Begin a transaction. Raises Fenced where another has joined under the name."""
        if epoch != self._epochs[name]:
            raise Fenced
        self._open[name] = Transaction(epoch)
        return self._open[name]

    def commit(self, name: str, transaction: Transaction, group: str, generations: dict[int, int]) -> None:
        """Commit outputs and offsets; raises Fenced where a source has moved to another member since."""
        numbers = {one.partition for one in transaction.offsets}
        moved = any(self.generation[one] != generations[one] for one in numbers)
        if transaction.state != "open" or moved:
            self.abort(name, transaction)
            raise Fenced
        self._open.pop(name, None)
        self._end(transaction, "committed")
        for one, offset in transaction.offsets.items():
            self.committed[group, one] = offset

    def abort(self, name: str, transaction: Transaction) -> None:
        """Abort a transaction, if it is open."""
        if self._open.get(name) is transaction:
            del self._open[name]
        if transaction.state == "open":
            self._end(transaction, "aborted")

    def expire(self, but: Iterable[str]) -> int:
        """Abort what producers left open for too long, but for these, which live; how many there were."""
        left = [name for name in self._open if name not in but]
        for name in left:
            self._end(self._open.pop(name), "aborted")
        return len(left)

    def _end(self, transaction: Transaction, state: str) -> None:
        transaction.state = state
        for place in sorted(transaction.wrote):
            self.logs[place].append(Entry(None, None, 0, transaction, is_mark=True))
