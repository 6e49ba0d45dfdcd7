"""The alerts process reports topics that are not those that it has read."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition
from tracline.stream.alerts.rates import default_rates, encode
from tracline.stream.kafka.settings import KafkaSettings, connecting
from tracline.stream.kafka.topics import administering
from tracline.stream.messages.topics import Topic

from ..unit.stream.alert_messages import PARTITIONS, SETTINGS, TICK_S, Sent, messages
from .anew import make_anew
from .stage import Stage, running

pytestmark = pytest.mark.slow
READ, DELETED = "tracline_kafka_messages_read_total", "tracline_kafka_deleted_total"
PATIENCE_S = "20"
"""The time that the process may be silent: it stops in the midst of a test, and stays the active one."""
REPEATS = "tracline_alert_repeats_total"


@contextmanager
def alerting(kafka: KafkaSettings, folder: Path, name: str) -> Iterator[Stage]:
    """A process of alerts without a receiver."""
    rates = folder / "rates.json"
    rates.write_bytes(encode(default_rates(TICK_S, TICK_S)))
    flags = ("--rates", str(rates), "--arl", str(SETTINGS.arl_ticks), "--timeout-s", PATIENCE_S)
    with running(kafka, folder / name, "alerts", *flags) as stage:
        yield stage


def send(kafka: KafkaSettings, sent: list[Sent]) -> None:
    """Send messages of verdicts to their partitions."""
    producer = KafkaProducer(**connecting(kafka, "test"))
    for one in sent:
        producer.send(kafka.topic(Topic.VERDICTS), one.value, partition=one.partition)
    producer.flush()
    producer.close()


def fill_events(kafka: KafkaSettings, count: int) -> None:
    """Let every partition of events end behind that many messages; nobody here reads them."""
    producer = KafkaProducer(**connecting(kafka, "test"))
    for number in range(PARTITIONS * count):
        producer.send(kafka.topic(Topic.EVENTS), b"", partition=number % PARTITIONS)
    producer.flush()
    producer.close()


def test_marks_of_events_that_were_made_anew_are_refused(topics: KafkaSettings, tmp_path: Path) -> None:
    """Messages that were made again are dropped; where the events end before their marks all would be."""
    sent = messages()
    with alerting(topics, tmp_path, "first") as stage:
        fill_events(topics, 1_000)
        send(topics, [*sent, *sent[-9:]])
        stage.until(REPEATS, lambda values: values == [9])
        assert stage.stop() == 0
    make_anew(topics, Topic.EVENTS, 4)
    with alerting(topics, tmp_path, "second") as stage:
        send(topics, messages(seed=2))
        assert stage.ended() == 2
    said = stage.log.read_text()
    assert "TRL766" in said
    assert "ends at offset 0, and was read up to" in said


def test_verdicts_that_are_deleted_meanwhile_are_said(topics: KafkaSettings, tmp_path: Path) -> None:
    """Retention overtakes a process that is at work: what it has not read is counted."""
    sent = messages()
    own = [one for one in sent if one.partition == 0]
    place = TopicPartition(topics.topic(Topic.VERDICTS), 0)
    with alerting(topics, tmp_path, "log") as stage:
        send(topics, own[:5])
        stage.until(READ, lambda values: values == [5])
        stage.process.send_signal(signal.SIGSTOP)
        # What was asked for before it stopped is answered with one.
        send(topics, own[5:6])
        send(topics, own[6:-3])
        with administering(topics) as admin:
            admin.delete_records({place: len(own) - 3})
        send(topics, own[-3:])
        stage.process.send_signal(signal.SIGCONT)
        stage.until(READ, lambda values: values[0] >= 8)
        stage.until("tracline_kafka_lag", lambda values: max(values) == 0)
        (lost,), (read,) = map(stage.metric, (DELETED, READ))
        assert stage.stop() == 0
    assert lost > 0
    assert read + lost == len(own)
    assert f"that were not read ({read - 3:.0f} to {len(own) - 4})" in stage.log.read_text()


@pytest.mark.parametrize("count", [5, 30])
def test_verdicts_that_are_made_anew_meanwhile_are_refused(
    topics: KafkaSettings, tmp_path: Path, count: int
) -> None:
    """The process ends, however far the new topic goes; a restart reads it from its beginning."""
    own = [one for one in messages() if one.partition == 0]
    with alerting(topics, tmp_path, "first") as stage:
        send(topics, own[:9])
        stage.until(READ, lambda values: values == [9])
        make_anew(topics, Topic.VERDICTS, 4)
        send(topics, own[9 : 9 + count])
        assert stage.ended() == 2
    assert "TRL735" in stage.log.read_text()
    with alerting(topics, tmp_path, "second") as stage:
        stage.until(READ, lambda values: values == [count])
        assert stage.metric(REPEATS) == [0]
