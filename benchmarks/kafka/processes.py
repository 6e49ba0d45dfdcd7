"""Processes over a real Apache Kafka, with their use of processor and memory, for `pipeline.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from confluent_kafka import OFFSET_BEGINNING
from tracline.examples.local_kafka import Broker
from tracline.schemas.span import Span
from tracline.schemas.time import rfc3339
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.lag import lags
from tracline.stream.kafka.librdkafka.reader import TopicReader, records_from
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.properties import consuming
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import decode_verdicts
from tracline.stream.messages.topics import Topic

from tests.support.brokers.sending import sending
from tests.support.otlp_requests import to_otlp

TRACLINE = Path(sys.executable).with_name("tracline")
PARTITIONS = 4
"""The number of partitions of spans and of events."""
SILENT_S = 120
"""The time for which a process may be stopped before the group assigns its partitions to others."""
WAIT_S = 600.0
POLL_S = 0.05
RECORDS = 5_000
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Running:
    """A process and its `log`."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def cpu(self) -> float:
        """Return the seconds of processor time that it has used."""
        return cpu_of(self.process.pid)

    @property
    def memory_mb(self) -> float:
        """Return its peak memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def hold(self) -> None:
        """Stop the process."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the process."""
        self.process.send_signal(signal.SIGCONT)

    def wait_for_log(self, text: str) -> None:
        """Wait until the log contains the text."""
        self.until(lambda: text in self.log.read_text(), f"{text!r} in the log")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds. Raises AssertionError after `WAIT_S`, or if the process ended."""
        limit = time.monotonic() + WAIT_S
        while not holds():
            assert self.process.poll() is None, f"the process has ended:\n{self.log.read_text()}"
            assert time.monotonic() < limit, f"not in time: {what}"
            time.sleep(POLL_S)


def cpu_of(pid: int) -> float:
    """Return the seconds of processor time that all threads of a process have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass
class Setup:
    """A broker, and a name for the topics, groups and states of one measurement."""

    broker: Broker
    prefix: str
    sessions: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def kafka(self) -> KafkaSettings:
        """Return the settings of the processes."""
        return KafkaSettings(
            (self.broker.bootstrap,),
            prefix=self.prefix,
            spans_topic=f"{self.prefix}-spans",
            logs_topic=f"{self.prefix}-logs",
        )

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the processes."""
        kafka = {
            "TRACLINE_KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap,
            "TRACLINE_KAFKA_PREFIX": self.prefix,
            "TRACLINE_KAFKA_SPANS_TOPIC": f"{self.prefix}-spans",
            "TRACLINE_KAFKA_LOGS_TOPIC": f"{self.prefix}-logs",
        }
        named = {f"TRACLINE_SESSIONS_{name.upper()}": str(value) for name, value in self.sessions.items()}
        return os.environ | kafka | named

    def make_topics(self) -> None:
        """Create all topics."""
        with administering(self.kafka) as admin:
            create(admin, self.kafka, partitions=PARTITIONS)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Running]:
        """Run `tracline stream` with these arguments until the block ends."""
        log = self.broker.folder / f"{self.prefix}-{arguments[0]}-{time.time_ns()}.log"
        with log.open("wb") as output:
            command = [TRACLINE, "stream", *arguments, "--timeout-s", str(SILENT_S)]
            process = subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)
        try:
            yield Running(process, log)
        finally:
            process.kill()
            process.wait()

    def carried(self) -> bool:
        """Return whether the rekeyer has read all spans."""
        with administering(self.kafka, "benchmark") as admin:
            return not any(lag.lag for lag in lags(admin, self.kafka) if lag.process == "rekey")


def source_of(trace_id: str) -> int:
    """Return the partition of a trace."""
    return crc32(trace_id.encode()) % PARTITIONS


def send(setup: Setup, requests: Iterable[Sequence[Span]]) -> None:
    """Send the spans of each trace as one message, like a collector that partitions by trace."""
    with sending(setup.kafka) as producer:
        for spans in requests:
            body, trace_id = to_otlp(spans).SerializeToString(), spans[0].trace_id
            producer.produce(setup.kafka.spans_topic, body, trace_id.encode(), source_of(trace_id))


def closing_spans(at: int, salt: int) -> list[list[Span]]:
    """Return a root span for each partition of spans, which only advances the watermark."""
    names = (f"{salt:016x}{number:016x}" for number in range(1, 10_000))
    by_source: dict[int, str] = {}
    for name in names:
        by_source.setdefault(source_of(name), name)
        if len(by_source) == PARTITIONS:
            break
    return [
        [Span(trace_id=name, span_id=name[-16:], parent_id=None, name="late", start=at, end=at)]
        for name in by_source.values()
    ]


class Reader:
    """A reader of the committed records of a topic from its beginning."""

    def __init__(self, setup: Setup, name: str) -> None:
        with administering(setup.kafka, "benchmark") as admin:
            self._numbers = range(admin.partitions(name))
        self._reader = TopicReader(consuming(setup.kafka, "benchmark"), name)
        self._reader.read_from(dict.fromkeys(self._numbers, OFFSET_BEGINNING))

    def poll(self) -> list[Any]:
        """Return the new records."""
        return list(self._reader.poll(0.1, RECORDS))

    def all(self) -> list[Any]:
        """Return all records up to the current end."""
        return [record for number in self._numbers for record in records_from(self._reader, number)]

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()


def judged_until(setup: Setup, watermark: int, process: Running) -> float:
    """Wait for every partition's verdicts up to a time; return when the last was written (seconds)."""
    reader = Reader(setup, setup.kafka.topic(Topic.VERDICTS))
    reached: dict[int, int] = {}

    def is_so() -> bool:
        for record in reader.poll():
            reached_now = decode_verdicts(record.value).watermark
            if reached_now is not None and reached_now >= watermark:
                reached.setdefault(record.partition, record.timestamp)
        return len(reached) == PARTITIONS

    process.until(is_so, f"verdicts up to {rfc3339(watermark)}")
    reader.close()
    return max(reached.values()) / 1000
