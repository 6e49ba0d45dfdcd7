"""The processes around the pure parts, as small as they can be: each step in the order of the real ones.

Between any two steps they ask `gap`, which may raise `Crash`: then the process is gone, with all it had in
memory, and another one begins from what the broker has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from tracline.schemas.settings import SessionSettings
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.monitor import Monitoring, Terms
from tracline.stream.stages.rekey import Input, Record, Rekeyer, Transaction

from .broker import Broker, Fenced

CHANGELOG = Topic.ALERTS_STATE
"""Stands for the changelog of the monitor's table, which has no `Topic` of its own."""


class Crash(Exception):
    """The process is gone."""


@dataclass(frozen=True)
class Layout:
    """How many partitions there are, and about how large a message may be."""

    sources: int
    partitions: int
    bytes_max: int


Gap = Callable[[str], None]
INPUTS = (Topic.SPANS, Topic.LOGS)
"""The topics of which a source has a partition each."""


def inputs_of(source: int) -> tuple[Input, Input]:
    """Return what is read of a source."""
    spans, logs = (Input(topic, source) for topic in INPUTS)
    return spans, logs


class RekeyProcess:
    """Consume, transform, produce: outputs, state and offsets in one transaction."""

    def __init__(
        self, name: str, broker: Broker, settings: SessionSettings, layout: Layout, gap: Gap
    ) -> None:
        self.name, self.broker, self.settings, self.layout, self.gap = name, broker, settings, layout, gap
        self.epoch = broker.join(name)
        self.rekeyer = Rekeyer(settings, layout.sources, layout.partitions, layout.bytes_max, "otlp_spans")
        self.positions: dict[Input, int] = {}
        self.generations: dict[int, int] = {}

    def assign(self, sources: Iterable[int]) -> None:
        """Take sources over, from the state topic and the committed offsets."""
        for source in sources:
            self.generations[source] = self.broker.generation[source]
            self.rekeyer.assign(source, self.broker.latest(Topic.REKEY_STATE, source))
            for one in inputs_of(source):
                self.positions[one] = self.broker.committed["rekey", one]

    def revoke(self, sources: Iterable[int]) -> None:
        """Leave sources to another."""
        for source in sources:
            self.rekeyer.revoke(source)
            for one in inputs_of(source):
                self.positions.pop(one, None)

    def turn(self, sources: Iterable[int], most: int, topics: Collection[Topic] = INPUTS) -> bool:
        """Read some records of these sources and do what they want; whether there were any.

        Of inputs of other topics none is read: they fall behind.
        """
        records: list[Record] = []
        positions: dict[Input, int] = {}
        self._expect_logs()
        for one in (one for source in sources for one in inputs_of(source) if one in self.positions):
            if one.topic not in topics:
                continue
            own, positions[one] = self.broker.read(one.topic, one.partition, self.positions[one], most)
            records += own
        if not records:
            return False
        self.gap("rekey-received")
        self._commit(lambda: self.rekeyer.take(records), positions)
        return True

    def tick(self, now: int) -> None:
        """Tell the time, at sources that are read to their end by the clock."""
        self._expect_logs()
        idle = [one for one in self.positions if not self._is_behind(one)]
        self._commit(lambda: self.rekeyer.tick(idle, now), {})

    def _is_behind(self, one: Input) -> bool:
        """Return whether there are records of an input that are not read."""
        return self.positions[one] < len(self.broker.logs[one])

    def _expect_logs(self) -> None:
        for one in self.positions:
            if one.topic is Topic.LOGS and self._is_behind(one):
                self.rekeyer.expect_logs(one.partition)

    def _commit(self, make: Callable[[], Transaction], positions: dict[Input, int]) -> None:
        transaction = self.broker.begin(self.name, self.epoch)
        try:
            done = make()
            self.gap("rekey-taken")
            for number, output in enumerate(done.outputs):
                partition = number % 2 if output.partition is None else output.partition
                self.broker.append(output.topic, partition, output.key, output.value, 0, transaction)
                self.gap("rekey-produced")
            transaction.offsets = dict(done.offsets)
            if not transaction.offsets:
                # A tick belongs to its sources' generation, too.
                transaction.offsets = dict(self.positions)
            self.gap("rekey-offsets")
            self.broker.commit(self.name, transaction, "rekey", self.generations)
        except Fenced:
            raise Crash("fenced") from None
        self.positions.update(positions)
        self.gap("rekey-committed")


@dataclass
class MonitorProcess:
    """Outputs, all acknowledged; then the changelog, write by write; then, now and then, the offset."""

    broker: Broker
    terms: Terms
    gap: Gap
    table: dict[str, bytes] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.monitoring = Monitoring(self.terms, self.table)

    def assign(self, partitions: Iterable[int]) -> None:
        """Take partitions over, from the changelog and the committed offsets."""
        new = list(partitions)
        for number in new:
            self.table.update(self.broker.latest(CHANGELOG, number))
            self.positions[number] = self.broker.committed["monitor", number]
        self.monitoring.assign(new, list(self.table.items()))

    def revoke(self, partitions: Iterable[int]) -> None:
        """Leave partitions to another."""
        gone = list(partitions)
        self.monitoring.revoke(gone)
        for number in gone:
            self.positions.pop(number, None)
            for key in self.broker.latest(CHANGELOG, number):
                self.table.pop(key, None)

    def turn(self, partition: int, commits: bool) -> bool:
        """Take the next message of a partition; whether there was one."""
        records, position = self.broker.read(Topic.EVENTS, partition, self.positions[partition], 1)
        for record in records:
            self.gap("monitor-received")
            step = self.monitoring.step(record)
            self.gap("monitor-stepped")
            for output in step.outputs:
                target = 0 if output.partition is None else output.partition
                self.broker.append(output.topic, target, output.key, output.value, 0)
                self.gap("monitor-produced")
            for key, value in step.writes:
                self.broker.append(CHANGELOG, partition, key, value, 0)
                if value is None:
                    self.table.pop(key, None)
                else:
                    self.table[key] = value
                self.gap("monitor-written")
        self.positions[partition] = position
        if commits:
            self.broker.committed["monitor", partition] = position
            self.gap("monitor-committed")
        return bool(records)
