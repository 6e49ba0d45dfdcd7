"""`tracline stream rekey` as a process of its own or in this one, and what it has made of records."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tracline.schemas.records.dead_letter import DeadLetter, decode_dead_letter
from tracline.schemas.settings import SessionSettings
from tracline.stream.error import StreamError
from tracline.stream.group.process import GroupProcess
from tracline.stream.group.rekey import RekeyRuntime
from tracline.stream.group.rekey_sources import RekeySources
from tracline.stream.group.rekey_state import TopicCounts
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.librdkafka.admin import NewTopicLayout
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.rekey_process import DEAD_LETTER_CODES, SENDS, rekey_client, rekey_over
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import CandidateBatch, EventsMessage, decode
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.process.rekey_metrics import RekeyMetrics
from tracline.stream.stages.rekey import RekeyStage

from ..brokers.reading import is_read
from ..brokers.reading import read as read_records
from ..brokers.sending import sending
from ..conversations.keyed import (
    BYTES_MAX,
    PARTITIONS,
    SETTINGS,
    SOURCES,
    Work,
    candidates_of,
    key_of,
    places_of,
    whole,
)
from .stage import TIMEOUT_S, Stage, running

WAIT_S = 40.0
"""The time that a test waits for anything, on a machine that has other work."""
POLL_S = 0.05


def make_topics(kafka: KafkaSettings) -> None:
    """Make the topics, those of spans and of events with the numbers of partitions that the tests have."""
    with administering(kafka) as admin:
        # The conversations' times are of another year: no record is too old to be stored.
        assert not admin.create({kafka.spans_topic: NewTopicLayout(SOURCES, config={"retention.ms": "-1"})})
        create(admin, kafka, partitions=PARTITIONS)


def delete_topic(kafka: KafkaSettings, name: str) -> None:
    """Delete a topic, and wait until the broker knows it.

    The controller deletes it first. Until the broker learns that, it takes records for the topic and answers
    with its id, also where a topic of the same name was created since.
    """
    with administering(kafka) as admin:
        admin.delete(name)
        until("the broker knows that it is deleted", lambda: name not in admin.topics())


def send(kafka: KafkaSettings, records: Iterable[Record], *values: tuple[int, bytes | None]) -> None:
    """Send records of spans to their partitions, as a collector does; then further (partition, value)."""
    with sending(kafka, **{"message.max.bytes": 64 << 20}) as producer:
        for record in records:
            key, time_ms = key_of(record.value).encode(), record.time // 1_000_000
            producer.produce(kafka.spans_topic, record.value, key, record.partition, timestamp=time_ms)
        for partition, value in values:
            producer.produce(kafka.spans_topic, value, b"key", partition)


def until(what: str, is_so: Callable[[], Any], *, within_s: float = WAIT_S) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        threading.Event().wait(POLL_S)


def until_carried(kafka: KafkaSettings) -> None:
    """Wait until every record of spans is committed as read."""
    with administering(kafka, "test") as admin:
        until("all spans are read", lambda: is_read(admin, kafka, "rekey"))


def read(kafka: KafkaSettings, topic: Topic) -> list[Any]:
    """The values of all records of a topic that are committed, partition by partition."""
    return [record.value for record in read_records(kafka, kafka.topic(topic))]


def messages(kafka: KafkaSettings) -> list[EventsMessage]:
    """The messages for the monitor."""
    return [decode(value) for value in read(kafka, Topic.EVENTS)]


def batches(kafka: KafkaSettings) -> list[CandidateBatch]:
    """The batches for the monitor."""
    return [whole(message) for message in messages(kafka) if isinstance(message, CandidateBatch)]


def letters(kafka: KafkaSettings) -> list[DeadLetter]:
    """The dead letters."""
    return [decode_dead_letter(value) for value in read(kafka, Topic.DEAD_LETTER)]


def check(kafka: KafkaSettings, work: Work, expected: Counter[str]) -> None:
    """The committed candidates are those of the work, each once, and give the events of its conversations."""
    found = batches(kafka)
    candidates = candidates_of(found)
    assert (expected - candidates, candidates - expected) == (Counter(), Counter())
    assert places_of(candidate for batch in found for candidate in batch.candidates) == work.places


@contextmanager
def process(
    kafka: KafkaSettings, *more: str, sessions: SessionSettings = SETTINGS, fault: str | None = None
) -> Iterator[Stage]:
    """Run `tracline stream rekey`; the process does not outlive the block."""
    names = ("lateness_s", "hold_s", "idle_s", "tick_s", "skew_s")
    variables = {f"TRACLINE_SESSIONS_{name.upper()}": str(getattr(sessions, name)) for name in names}
    flags = ("--timeout-s", TIMEOUT_S, *more)
    with TemporaryDirectory() as folder:
        log = Path(folder) / "rekey.log"
        with running(kafka, log, "rekey", *flags, fault=fault, **variables) as stage:
            yield stage


@dataclass
class Here:
    """The process in a thread of this one: its lines, and the error that it raised."""

    group_process: GroupProcess
    stopping: threading.Event
    metrics: RekeyMetrics
    lines: list[str] = field(default_factory=list)
    error: StreamError | None = None

    def work(self) -> None:
        """Work until `stop` is called."""
        try:
            self.group_process.run()
        except StreamError as error:
            self.error = error

    @property
    def partitions(self) -> str:
        """The partitions in the last log line that names them."""
        words = "assigned partitions "
        assigned = [line.removeprefix(words) for line in self.lines if line.startswith(words)]
        return assigned[-1] if assigned else ""

    def count(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@contextmanager
def here(
    kafka: KafkaSettings,
    *,
    instance: str = "here",
    timeout_s: float = float(TIMEOUT_S),
    sessions: SessionSettings = SETTINGS,
    stage: Callable[[SessionSettings, Mapping[Topic, str]], RekeyStage] = RekeyStage,
    partitions: int = PARTITIONS,
    now: Callable[[], int] = time.time_ns,
    reads_logs: bool = False,
) -> Iterator[Here]:
    """The process in a thread, stopped at the end."""
    stopping, lines = threading.Event(), list[str]()
    reads = [kafka.topic(topic) for topic in (Topic.SPANS, Topic.LOGS)]
    metrics = RekeyMetrics(reads, map(kafka.topic, SENDS), DEAD_LETTER_CODES)
    runtime = RekeyRuntime(instance, timeout_s, metrics, lines.append, stopping, now)
    names = {topic: kafka.topic(topic) for topic in Topic}
    sources = RekeySources(stage(sessions, names), TopicCounts(SOURCES, partitions), BYTES_MAX)
    client = rekey_client(kafka, runtime, reads_logs=reads_logs)
    group_process = rekey_over(client, names, sources, runtime, reads_logs=reads_logs)
    running = Here(group_process, stopping, metrics, lines)
    thread = threading.Thread(target=running.work)
    thread.start()
    try:
        yield running
    finally:
        stopping.set()
        thread.join(WAIT_S)
        assert not thread.is_alive()
