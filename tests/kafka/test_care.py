"""`tracline stream topics` and `lag` as an operator runs them, against a real broker."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from tracline.examples.local_kafka import Broker, free_port
from tracline.stream.group.client import OutgoingRecord, TopicPartition
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.librdkafka.reader import TopicReader
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.properties import consuming
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.brokers.sending import send_records
from ..support.processes.calling import stream

pytestmark = pytest.mark.slow


def test_topics_are_made_and_looked_at(kafka: KafkaSettings, tmp_path: Path) -> None:
    """Missing topics are findings but those of log records and risks; made, none is; both formats agree."""
    before = stream(kafka, tmp_path, "topics")
    assert before.returncode == 1
    assert before.stdout.count("is missing\n  hint: make it with: tracline stream topics --create") == 8
    made = stream(kafka, tmp_path, "topics", "--create", "--partitions", "3")
    assert (made.returncode, made.stderr.count("created ")) == (0, 10)
    assert "wrong" not in made.stdout
    found = json.loads(stream(kafka, tmp_path, "topics", "--format", "json").stdout)
    assert {topic["topic"]: topic["partitions"] for topic in found}[kafka.topic(Topic.EVENTS)] == 3
    assert [topic["flaws"] for topic in found] == [[]] * 10


def test_a_difference_that_may_be_meant_is_no_finding(topics: KafkaSettings, tmp_path: Path) -> None:
    """A spans' topic with a smaller limit is reported, and the exit code stays 0; tracline's own count."""
    larger = stream(topics, tmp_path, "topics", TRACLINE_KAFKA_MESSAGE_BYTES_MAX="2000000")
    assert larger.returncode == 1
    assert f"differs: {topics.spans_topic} has max.message.bytes" in larger.stdout
    assert f"wrong: {topics.topic(Topic.EVENTS)} has max.message.bytes" in larger.stdout


def test_the_lag_is_what_is_written_and_not_committed(topics: KafkaSettings, tmp_path: Path) -> None:
    """Ten records, of which the group has committed four: six behind; who never committed has no offset."""
    name = topics.topic(Topic.EVENTS)
    send_records(topics, [OutgoingRecord(name, 1, None, b"%d" % number) for number in range(10)])
    with closing(TopicReader(consuming(topics, "monitor"), name)) as reader:
        reader.commit({TopicPartition(name, 1): 4})
    lags = json.loads(stream(topics, tmp_path, "lag", "--format", "json").stdout)
    assert len(lags) == 5 * 4
    assert [lag for lag in lags if lag["lag"]] == [
        {"process": "monitor", "topic": name, "partition": 1, "committed": 4, "end": 10, "lag": 6}
    ]
    assert {lag["committed"] for lag in lags if lag["partition"] != 1} == {None}
    table = stream(topics, tmp_path, "lag")
    assert table.returncode == 0
    assert any(line.split()[-4:] == ["1", "4", "10", "6"] for line in table.stdout.splitlines())


def test_the_lag_is_shown_of_a_broker_that_never_had_a_group(new_broker: Broker, tmp_path: Path) -> None:
    """Without topics the first one is named; with them all is 0, though none was ever asked for an offset."""
    kafka = KafkaSettings((new_broker.bootstrap,))
    before = stream(kafka, tmp_path, "lag")
    assert before.returncode == 2
    assert before.stderr.startswith("tracline stream lag: TRL724 otlp_spans is missing\n  hint: make it with")
    with administering(kafka) as admin:
        create(admin, kafka, partitions=1)
    ended = stream(kafka, tmp_path, "lag", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    assert [(lag["process"], lag["lag"]) for lag in json.loads(ended.stdout)] == [
        ("rekey", 0), ("rekey", 0), ("monitor", 0), ("archive", 0), ("alerts", 0)
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["topics", "lag"])
def test_no_broker_ends_with_2_and_what_to_check(command: str, tmp_path: Path) -> None:
    """The error names the address, and nothing else comes on standard error."""
    address = f"127.0.0.1:{free_port()}"
    ended = stream(KafkaSettings((address,)), tmp_path, command)
    assert ended.returncode == 2
    assert ended.stderr == (
        f"tracline stream {command}: TRL723 no broker listens ({address}: connection refused)\n"
        "  hint: check that the brokers run, and bootstrap_servers\n"
    )


def test_a_contradiction_ends_with_2(tmp_path: Path) -> None:
    """Settings that do not go together are refused before anything is asked."""
    ended = stream(KafkaSettings(), tmp_path, "lag", TRACLINE_KAFKA_SECURITY_PROTOCOL="SASL_SSL")
    assert ended.returncode == 2
    assert ended.stderr.startswith("[kafka]: TRL721 SASL_SSL needs sasl_mechanism\n")
