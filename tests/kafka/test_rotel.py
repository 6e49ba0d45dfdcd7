"""The records of rotel, a collector of another make, in Kafka: the rekey stage reads them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import rotel
from tracline.examples.local_kafka import free_port
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import read
from ..support.processes.rekeying import batches, candidates_of, letters, make_topics, process, until
from ..support.processes.talking import LIVE, WAIT_S, listening, resolved, talk
from .side_by_side import side_by_side

pytestmark = pytest.mark.slow
AGENT = Path(rotel.__file__).with_name("rotel-agent")


@contextmanager
def agent(kafka: KafkaSettings, folder: Path, encoding: str, compression: str) -> Iterator[int]:
    """A rotel between agents and Kafka; its port. When the block ends all that it took is sent."""
    port, log = free_port(), folder / "rotel.log"
    options = {
        "pid-file": folder / "rotel.pid",
        "otlp-http-endpoint": f"127.0.0.1:{port}",
        "otlp-grpc-endpoint": f"127.0.0.1:{free_port()}",
        "exporter": "kafka",
        "kafka-exporter-brokers": ",".join(kafka.bootstrap_servers),
        "kafka-exporter-traces-topic": kafka.topic(Topic.SPANS),
        "kafka-exporter-format": encoding,
        "kafka-exporter-compression": compression,
        "kafka-exporter-acks": "all",
        "kafka-exporter-partitioner": "murmur2",
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    with log.open("wb") as output:
        running = subprocess.Popen([AGENT, "start", *words], stdout=output, stderr=output)
    try:
        listening(running, port, log.read_text)
        yield port
        running.send_signal(signal.SIGTERM)
        assert running.wait(WAIT_S) == 0, log.read_text()
    finally:
        running.kill()
        running.wait(WAIT_S)


def test_what_rotel_writes_is_rekeyed(kafka: KafkaSettings, tmp_path: Path) -> None:
    """The candidates are those of the spans as the SDK ended them; no trace is in two partitions."""

    def check(kafka: KafkaSettings, way: tuple[str, str]) -> None:
        folder = tmp_path / way[0]
        folder.mkdir()
        check_rekeyed(kafka, folder, *way)

    side_by_side(kafka, [("protobuf", "snappy"), ("json", "lz4")], check)


def check_rekeyed(kafka: KafkaSettings, folder: Path, encoding: str, compression: str) -> None:
    """Check what comes of conversations that rotel writes so."""
    make_topics(kafka)
    with agent(kafka, folder, encoding, compression) as port:
        sent = talk([port], sessions=6, seed=11)
    expected = resolved(sent)
    records = read(kafka, kafka.topic(Topic.SPANS))
    assert len(records) > 1
    # Every key is empty, so that all come to one partition: traces stay whole, but nothing is shared.
    assert len({record.partition for record in records}) == 1
    with process(kafka, sessions=LIVE) as running:
        until("all is resolved", lambda: candidates_of(batches(kafka)).total() >= expected.total())
        running.process.terminate()
        assert running.ended() == 0, running.lines
    assert expected.total() > 50
    assert candidates_of(batches(kafka)) == expected
    assert not letters(kafka)
