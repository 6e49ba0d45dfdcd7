"""The processes of `tracline stream` over the broker in memory, each driven turn by turn.

`tests/kafka/test_client_contract.py` holds this broker's client to the behaviour of a real Kafka.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tracline.archive.shared_writer import LiveArchive
from tracline.schemas.records.dead_letter import DeadLetter, decode_dead_letter
from tracline.schemas.settings import SessionSettings
from tracline.schemas.time import NS
from tracline.stream.alerts.delivery import Delivery, DeliveryIntervals
from tracline.stream.alerts.receivers import Receiver
from tracline.stream.error import StreamError
from tracline.stream.group.alerts import AlertsRuntime
from tracline.stream.group.archive import ArchiveRuntime
from tracline.stream.group.client import TopicPartition
from tracline.stream.group.process import GroupProcess
from tracline.stream.group.rekey import RekeyRuntime
from tracline.stream.group.rekey_sources import RekeySources
from tracline.stream.group.rekey_state import TopicCounts
from tracline.stream.kafka import alerts_process, archive_process, rekey_process
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.memory.broker import MemoryBroker, MemoryRecord
from tracline.stream.memory.client import MemoryClient
from tracline.stream.messages.codec import CandidateBatch, decode
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.process.alert_metrics import AlertMetrics
from tracline.stream.process.archive_metrics import ArchiveMetrics
from tracline.stream.process.rekey_metrics import RekeyMetrics
from tracline.stream.stages.alert import AlertStage
from tracline.stream.stages.archive import ChunkLimits
from tracline.stream.stages.rekey import RekeyStage

from ....support.conversations.alert_messages import SETTINGS as DETECTOR
from ....support.conversations.alert_messages import tolerated
from ....support.conversations.keyed import BYTES_MAX, PARTITIONS, SETTINGS, SOURCES, whole
from ....support.conversations.scripts import START_NS

KAFKA = KafkaSettings()
NAMES = {topic: KAFKA.topic(topic) for topic in Topic}
TIMEOUT_S = 30.0
TURN_S = 0.2
"""Seconds that pass with every turn of a process."""
TURNS_MAX = 1_000
Metrics = RekeyMetrics | ArchiveMetrics | AlertMetrics


@dataclass
class MemoryPipeline:
    """A broker with the topics of the pipeline, and its time: `seconds` of the clock, `now` of the day.

    `refuse` is called with the kind of every request, and may raise a KafkaError.
    """

    sources: int = SOURCES
    partitions: int = PARTITIONS
    seconds: float = 1_000.0
    now: int = START_NS
    refuse: Callable[[str], None] = lambda _kind: None
    broker: MemoryBroker = field(init=False)
    clients: int = 0

    def __post_init__(self) -> None:
        self.broker = MemoryBroker(lambda: self.seconds, lambda _client, kind: self.refuse(kind))
        for topic in Topic:
            self.create(topic)

    def create(self, topic: Topic, bytes_max: int = 1 << 30) -> None:
        """Create a topic."""
        counts = dict.fromkeys((Topic.SPANS, Topic.LOGS, Topic.REKEY_STATE), self.sources)
        counts |= dict.fromkeys((Topic.DEAD_LETTER, Topic.ALERTS, Topic.ALERTS_STATE), 1)
        self.broker.create_topic(NAMES[topic], counts.get(topic, self.partitions), bytes_max)

    def recreate(self, topic: Topic, bytes_max: int = 1 << 30) -> None:
        """Delete a topic, and create it again."""
        self.broker.delete_topic(NAMES[topic])
        self.create(topic, bytes_max)

    def append(self, topic: Topic, partition: int, *values: bytes | None, time: int | None = None) -> None:
        """Append records to a partition."""
        for value in values:
            time_ms = (self.now if time is None else time) // 1_000_000
            self.broker.append(NAMES[topic], partition, None, value, time_ms)

    def send(self, records: Iterable[Record]) -> None:
        """Append records of spans."""
        for record in records:
            self.append(Topic.SPANS, record.partition, record.value, time=record.time)

    def delete_records(self, topic: Topic, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset."""
        self.broker.delete_records(TopicPartition(NAMES[topic], partition), before)

    def records(self, topic: Topic) -> list[MemoryRecord]:
        """Return the committed records, partition by partition."""
        name = NAMES[topic]
        places = [TopicPartition(name, number) for number in range(self.broker.partitions(name))]
        return [record for place in places for record in self.broker.read(place, 0, 1 << 30)[0]]

    def batches(self) -> list[CandidateBatch]:
        """Return the batches of candidates for the monitor."""
        messages = [decode(record.value or b"") for record in self.records(Topic.EVENTS)]
        return [whole(message) for message in messages if isinstance(message, CandidateBatch)]

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters."""
        return [decode_dead_letter(record.value or b"") for record in self.records(Topic.DEAD_LETTER)]

    def is_read(self, process: str, topic: Topic) -> bool:
        """Return whether a group has committed all records of a topic."""
        group, name = KAFKA.group(process), NAMES[topic]
        for number in range(self.broker.partitions(name)):
            place = TopicPartition(name, number)
            committed = self.broker.committed(group, place)
            left, _ = self.broker.read(place, self.broker.first(place) if committed is None else committed, 1)
            if left:
                return False
        return True

    def rekey(
        self,
        instance: str = "one",
        *,
        sessions: SessionSettings = SETTINGS,
        sources: RekeySources | None = None,
        reads_logs: bool = False,
    ) -> MemoryProcess:
        """Return a rekeyer that has not begun."""
        spans, logs = NAMES[Topic.SPANS], NAMES[Topic.LOGS]
        metrics = RekeyMetrics(
            [spans, logs],
            [NAMES[topic] for topic in rekey_process.SENDS],
            rekey_process.DEAD_LETTER_CODES,
        )
        lines, stopping, client = list[str](), threading.Event(), self._client("rekey", spans, logs, instance)
        runtime = RekeyRuntime(
            instance, TIMEOUT_S, metrics, lines.append, stopping, lambda: self.now, lambda: self.seconds
        )
        counts = TopicCounts(self.sources, self.partitions)
        sources = sources or RekeySources(RekeyStage(sessions, NAMES), counts, BYTES_MAX)
        process = rekey_process.rekey_over(client, NAMES, sources, runtime, reads_logs=reads_logs)
        return MemoryProcess(self, process, client, stopping, metrics, lines)

    def archive(self, root: Path, limits: ChunkLimits) -> MemoryProcess:
        """Return an archiver of that folder that has not begun."""
        judged = NAMES[Topic.JUDGED]
        metrics = ArchiveMetrics([judged], archive_process.DEAD_LETTER_CODES)
        lines, stopping, client = list[str](), threading.Event(), self._client("archive", judged)
        runtime = ArchiveRuntime(metrics, lines.append, stopping, TIMEOUT_S, lambda: self.seconds)
        files = LiveArchive(root, f"kafka-{judged}", "0" * 64)
        process = archive_process.archive_over(client, NAMES, files, runtime, limits)
        return MemoryProcess(self, process, client, stopping, metrics, lines)

    def alerts(self, *receivers: Receiver, instance: str = "one") -> MemoryProcess:
        """Return a process of alerts that has not begun."""
        alerts, verdicts = NAMES[Topic.ALERTS], NAMES[Topic.VERDICTS]
        sends = [NAMES[topic] for topic in alerts_process.SENDS]
        names = [receiver.name for receiver in receivers]
        metrics = AlertMetrics([verdicts], sends, names, alerts_process.DEAD_LETTER_CODES)
        lines, stopping = list[str](), threading.Event()
        client = self._client("alerts", alerts, verdicts, instance)

        def delivery() -> Delivery:
            intervals = DeliveryIntervals(resend_s=1.0)
            return Delivery(receivers, metrics, jitter=lambda: 0.0, report=lines.append, intervals=intervals)

        runtime = AlertsRuntime(
            instance,
            TIMEOUT_S,
            metrics,
            lines.append,
            stopping,
            AlertStage(tolerated(), DETECTOR, verdicts),
            delivery,
            # Deliveries are due by the time of day.
            lambda: self.now + round(self.seconds * NS),
            lambda: self.seconds,
        )
        process = alerts_process.alerts_over(client, NAMES, self.partitions, runtime)
        return MemoryProcess(self, process, client, stopping, metrics, lines)

    def _client(
        self, process: str, topic: str, beside: str | None = None, instance: str | None = None
    ) -> MemoryClient:
        self.clients += 1
        name = f"client-{self.clients}"
        return MemoryClient(self.broker, KAFKA.group(process), name, topic, TIMEOUT_S, beside, instance)


@dataclass
class MemoryProcess:
    """A process of a memory pipeline: its lines of log, and the error that ended it."""

    pipeline: MemoryPipeline
    process: GroupProcess
    client: MemoryClient
    stopping: threading.Event
    metrics: Metrics
    lines: list[str]
    error: StreamError | None = None

    def turn(self) -> None:
        """Let time pass, and do one turn, unless the process has ended."""
        self.pipeline.seconds += TURN_S
        if self.error is None:
            try:
                self.process.turn()
            except StreamError as error:
                self.error = error
                self.client.close()

    def until(self, what: str, is_so: Callable[[], object]) -> None:
        """Do turns until it is so."""
        for _ in range(TURNS_MAX):
            if is_so():
                return
            self.turn()
        raise AssertionError(f"{what}: {self.lines}")

    def until_read(self, topic: Topic) -> None:
        """Do turns until the group of the process has read the topic to its end."""
        name = self.client.group.rpartition("-")[2]
        self.until(f"{topic} is read", lambda: self.pipeline.is_read(name, topic))
        assert self.error is None, self.error

    def failure(self) -> StreamError:
        """Do turns until the process ends, and return the error."""
        self.until("it ends", lambda: self.error)
        assert self.error is not None
        return self.error

    def stop(self) -> None:
        """Stop the process as SIGTERM does."""
        self.stopping.set()
        self.process.run()

    def count(self, name: str, **labels: str) -> float:
        """Return the value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0
