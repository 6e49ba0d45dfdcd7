"""The production processes over the broker in memory, one turn at a time, and the monitor's order of writes.

The rekeyer, the archiver and the alerts are those of `tracline stream`, each begun again when it crashed.
Faust runs the monitor on its own loop, so `SimulatedMonitor` stands for it: the same stage and order.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tracline.archive.shared_writer import LiveArchive
from tracline.predict.detector import DetectorSettings
from tracline.predict.following.loaded_chains import LoadedChains
from tracline.schemas.settings import SessionSettings
from tracline.stream.alerts.delivery import Delivery
from tracline.stream.alerts.rates import Tolerance
from tracline.stream.error import StreamError
from tracline.stream.group.alerts import AlertsRuntime
from tracline.stream.group.archive import ArchiveRuntime
from tracline.stream.group.client import TopicPartition
from tracline.stream.group.process import GroupProcess
from tracline.stream.group.rekey import RekeyRuntime
from tracline.stream.group.rekey_sources import RekeySources
from tracline.stream.group.rekey_state import TopicCounts
from tracline.stream.group.state import Latest
from tracline.stream.kafka import alerts_process as alerts
from tracline.stream.kafka import archive_process as archive
from tracline.stream.kafka import rekey_process as rekey
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.memory.broker import MemoryBroker, MemoryTransaction
from tracline.stream.memory.client import MemoryClient
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.process.alert_metrics import AlertMetrics
from tracline.stream.process.archive_metrics import ArchiveMetrics
from tracline.stream.process.faultpoints import AlertFault, ArchiveFault, MonitorFault, RekeyFault
from tracline.stream.process.rekey_metrics import RekeyMetrics
from tracline.stream.stages.alert import AlertsResult, AlertsState, AlertStage, VerdictsRecord
from tracline.stream.stages.archive import ChunkLimits
from tracline.stream.stages.monitor import MonitorStage
from tracline.stream.stages.monitor_step import MonitorOptions
from tracline.stream.stages.rekey import RekeyStage
from tracline.stream.stages.schedule import MonitorState

KAFKA = KafkaSettings()
NAMES = {topic: KAFKA.topic(topic) for topic in Topic}
TOPICS = {name: topic for topic, name in NAMES.items()}
CHANGELOG = "monitor-changelog"
TIMEOUT_S = 30.0
"""The time that a member may be silent, and a transaction be open, by the simulation's clock."""
CRASHES = (
    *RekeyFault,
    # A store in memory acknowledges at once, and alerts are delivered by no process here.
    *(fault for fault in MonitorFault if fault is not MonitorFault.ACKNOWLEDGED),
    *ArchiveFault,
    *(AlertFault.RECEIVED, AlertFault.STEPPED, AlertFault.PRODUCED),
    "between records",
)
"""The places where a process may crash."""
CALM_EVERY = 5
"""Of so many seeds one has only the crashes that chance has for it, which may be none."""


def fated_crash(seed: int) -> str | None:
    """Return the place where a process crashes when it first comes there: chance alone leaves some out."""
    return CRASHES[seed % len(CRASHES)] if seed % CALM_EVERY else None


class Crash(BaseException):
    """The process is gone; no stage takes it for an error of a record."""


@dataclass(frozen=True)
class Layout:
    """The number of partitions, and about how large a message may be."""

    sources: int
    partitions: int
    bytes_max: int


def make_topics(broker: MemoryBroker, layout: Layout) -> None:
    """Create every topic."""
    counts = {Topic.SPANS: layout.sources, Topic.LOGS: layout.sources, Topic.REKEY_STATE: layout.sources}
    counts |= dict.fromkeys((Topic.DEAD_LETTER, Topic.ALERTS, Topic.ALERTS_STATE), 1)
    for topic, name in NAMES.items():
        broker.create_topic(name, counts.get(topic, layout.partitions))
    broker.create_topic(CHANGELOG, layout.partitions)


@dataclass
class CommittedOrder:
    """The verdicts in the order in which the transactions of alerts committed them."""

    records: list[VerdictsRecord] = field(default_factory=list)
    steps: dict[str, list[VerdictsRecord]] = field(default_factory=dict)
    """The records of the last step, by the name of the process's producer."""

    def commit(self, producer: str) -> None:
        """Add the records of the producer's last step."""
        self.records += self.steps.pop(producer, [])


class ObservedBroker(MemoryBroker):
    """A broker that notes which transactions of alerts were committed."""

    order: CommittedOrder

    def end_transaction(self, name: str, transaction: MemoryTransaction, *, is_committed: bool) -> None:
        """Note a committed transaction."""
        super().end_transaction(name, transaction, is_committed=is_committed)
        if is_committed:
            self.order.commit(name)


class ObservedAlertStage(AlertStage):
    """A stage of alerts that notes the records of its last step."""

    order: CommittedOrder
    producer: str

    def step(self, state: AlertsState, records: Iterable[VerdictsRecord]) -> AlertsResult:
        """Note the records, and step."""
        noted = self.order.steps[self.producer] = list(records)
        return super().step(state, noted)


@dataclass
class Setting:
    """The things that the processes of a run share: broker, time, and the places where they may crash.

    `clock` is in seconds, `now` is the time of day in nanoseconds; `gap` may raise `Crash`.
    """

    broker: MemoryBroker
    layout: Layout
    clock: Callable[[], float]
    now: Callable[[], int]
    gap: Callable[[str, str], None]
    """Called with the slot and the place."""
    hits: Counter[str] = field(default_factory=Counter)
    order: CommittedOrder = field(default_factory=CommittedOrder)


@dataclass
class Slot:
    """A process of one name, as a supervisor runs it: begun again when it has ended."""

    name: str
    start: Callable[[str, str, threading.Event, Callable[[str], None]], tuple[MemoryClient, GroupProcess]]
    """Makes a process of an instance and a client's name."""
    hits: Counter[str]
    running: tuple[MemoryClient, GroupProcess] | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    starts: int = 0
    lines: list[str] = field(default_factory=list)

    def turn(self) -> None:
        """Do one turn; begin the process where there is none."""
        if self.running is None:
            self.starts += 1
            self.stopping.clear()
            self.running = self.start(self.name, f"{self.name}#{self.starts}", self.stopping, self._report)
        try:
            self.running[1].turn()
        except Crash:
            # Its membership and its transaction are left to their timeouts.
            self.running = None
        except StreamError as error:
            self.hits[error.code] += 1
            self.running[0].close()
            self.running = None

    def stop(self) -> None:
        """Stop the process as SIGTERM does, if it runs."""
        if self.running is not None:
            self.stopping.set()
            with suppress(Crash):
                self.running[1].run()
            self.running = None

    @property
    def is_ready(self) -> bool:
        """Return whether the process goes on with its partitions."""
        return self.running is not None and self.running[1].is_ready

    def _report(self, text: str) -> None:
        self.lines.append(text)
        self.hits["moved"] += text.startswith("the group gave the partitions")
        self.hits["away"] += text.startswith("Kafka: ")


def rekey_slot(name: str, setting: Setting, sessions: SessionSettings) -> Slot:
    """Return a slot of the rekeyer."""

    def start(
        instance: str, client_name: str, stopping: threading.Event, report: Callable[[str], None]
    ) -> tuple[MemoryClient, GroupProcess]:
        layout = setting.layout
        spans, logs = NAMES[Topic.SPANS], NAMES[Topic.LOGS]
        client = MemoryClient(
            setting.broker, KAFKA.group("rekey"), client_name, spans, TIMEOUT_S, logs, instance
        )
        metrics = RekeyMetrics(
            [spans, logs], [NAMES[topic] for topic in rekey.SENDS], rekey.DEAD_LETTER_CODES
        )
        runtime = RekeyRuntime(
            instance,
            TIMEOUT_S,
            metrics,
            report,
            stopping,
            setting.now,
            setting.clock,
            lambda fault: setting.gap(instance, fault),
        )
        counts = TopicCounts(layout.sources, layout.partitions)
        sources = RekeySources(RekeyStage(sessions, NAMES), counts, layout.bytes_max)
        return client, rekey.rekey_over(client, NAMES, sources, runtime, reads_logs=True)

    return Slot(name, start, setting.hits)


def archive_slot(name: str, setting: Setting, root: Path, limits: ChunkLimits) -> Slot:
    """Return a slot of the archiver, which writes to that folder."""

    def start(
        instance: str, client_name: str, stopping: threading.Event, report: Callable[[str], None]
    ) -> tuple[MemoryClient, GroupProcess]:
        judged = NAMES[Topic.JUDGED]
        client = MemoryClient(setting.broker, KAFKA.group("archive"), client_name, judged, TIMEOUT_S)
        metrics = ArchiveMetrics([judged], archive.DEAD_LETTER_CODES)
        runtime = ArchiveRuntime(
            metrics, report, stopping, TIMEOUT_S, setting.clock, lambda fault: setting.gap(instance, fault)
        )
        files = LiveArchive(root, f"kafka-{judged}", "0" * 64)
        return client, archive.archive_over(client, NAMES, files, runtime, limits)

    return Slot(name, start, setting.hits)


def alerts_slot(
    name: str,
    setting: Setting,
    tolerance: Tolerance,
    settings: DetectorSettings,
    delivery: Callable[[AlertMetrics], Delivery],
) -> Slot:
    """Return a slot of the alerts."""

    def start(
        instance: str, client_name: str, stopping: threading.Event, report: Callable[[str], None]
    ) -> tuple[MemoryClient, GroupProcess]:
        read, verdicts = NAMES[Topic.ALERTS], NAMES[Topic.VERDICTS]
        client = MemoryClient(
            setting.broker, KAFKA.group("alerts"), client_name, read, TIMEOUT_S, verdicts, instance
        )

        stage = ObservedAlertStage(tolerance, settings, verdicts)
        stage.order, stage.producer = setting.order, f"{KAFKA.group('alerts')}-{instance}"
        metrics = AlertMetrics(
            [verdicts], [NAMES[topic] for topic in alerts.SENDS], (), alerts.DEAD_LETTER_CODES
        )
        runtime = AlertsRuntime(
            instance,
            TIMEOUT_S,
            metrics,
            report,
            stopping,
            stage,
            lambda: delivery(metrics),
            setting.now,
            setting.clock,
            lambda fault: setting.gap(instance, fault),
        )
        return client, alerts.alerts_over(client, NAMES, setting.layout.partitions, runtime)

    return Slot(name, start, setting.hits)


@dataclass
class SimulatedMonitor:
    """Outputs, all acknowledged; then the changelog, write by write; then, now and then, the offset."""

    setting: Setting
    options: MonitorOptions
    committed: dict[int, int]
    """The offsets of the group, which all its processes share."""
    chains: LoadedChains
    table: dict[str, bytes] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stage, self.state = MonitorStage(self.options, self.chains), MonitorState(self.table)

    def assign(self, partitions: Iterable[int]) -> None:
        """Take partitions over, from the changelog and the committed offsets."""
        new = list(partitions)
        for number in new:
            self.table.update(self._changelog(number))
            self.positions[number] = self.committed.get(number, 0)
        self.stage.restore(self.state, new, list(self.table.items()))

    def revoke(self, partitions: Iterable[int]) -> None:
        """Leave partitions to another process."""
        gone = list(partitions)
        self.state.revoke(gone)
        for number in gone:
            self.positions.pop(number, None)
            for key in self._changelog(number):
                self.table.pop(key, None)

    def turn(self, polled: Mapping[int, int], commits: bool) -> bool:
        """Take the next messages of partitions, as many as `polled` has of each; return whether any came."""
        records: list[Record] = []
        positions = dict(self.positions)
        for partition, count in polled.items():
            place = TopicPartition(NAMES[Topic.EVENTS], partition)
            read, positions[partition] = self.setting.broker.read(place, self.positions[partition], count)
            records += [
                Record(
                    partition, record.offset, record.timestamp * 1_000_000, record.value or b"", Topic.EVENTS
                )
                for record in read
            ]
        if records:
            self._step(records)
        self.positions = positions
        if commits:
            self.committed.update({partition: positions[partition] for partition in polled})
            self._gap("monitor-committed")
        return bool(records)

    def _step(self, records: Sequence[Record]) -> None:
        """Step messages together; write the outputs, and then the state."""
        self.setting.hits["judged together"] += len(records) > 1
        self._gap("monitor-received")
        result = self.stage.step(self.state, records)
        self._gap("monitor-stepped")
        for output in result.outputs:
            key = None if output.key is None else output.key.encode()
            self._append(NAMES[output.topic], output.partition, key, output.value)
            self._gap("monitor-produced")
        for partition, writes in result.writes.items():
            for name, data in writes:
                self._append(CHANGELOG, partition, name.encode(), data)
                if data is None:
                    self.table.pop(name, None)
                else:
                    self.table[name] = data
                self._gap("monitor-written")
        self.state.apply(result.writes)

    def _changelog(self, number: int) -> dict[str, bytes]:
        latest, place = Latest(CHANGELOG), TopicPartition(CHANGELOG, number)
        for record in self.setting.broker.read(place, 0, 1 << 30)[0]:
            latest.put(record.key, record.value)
        return latest.values

    def _append(self, topic: str, partition: int | None, key: bytes | None, value: bytes | None) -> None:
        time_ms = round(self.setting.clock() * 1000)
        self.setting.broker.append(topic, partition, key, value, time_ms)

    def _gap(self, place: str) -> None:
        self.setting.gap("monitor", place)
