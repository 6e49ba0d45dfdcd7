"""The alerts process over the broker in memory: dead letters, receivers that fail, and topics that change."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tracline.stream.alerts.alert import Alert, AlertStatus, decode
from tracline.stream.alerts.receivers import NotDelivered
from tracline.stream.group.client import TopicPartition
from tracline.stream.messages.topics import Topic
from tracline.stream.process.alert_metrics import DeliveryFailure

from ....support.conversations.alert_messages import (
    BEGAN,
    PARTITIONS,
    Sent,
    check_one_alert,
    messages,
)
from .memory_processes import KAFKA, NAMES, MemoryPipeline, MemoryProcess

READ = "tracline_kafka_messages_read_total"
DELETED = "tracline_kafka_deleted_total"
REPEATS = "tracline_alert_repeats_total"
VERDICTS = NAMES[Topic.VERDICTS]


class Receiver:
    """A receiver that refuses alerts while it is down."""

    name = "receiver"
    resend = True

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.refused = 0
        self.is_down = False

    def send(self, alerts: Sequence[Alert], now: int, lease_s: float) -> None:  # noqa: ARG002
        """Take the alerts."""
        if self.is_down:
            self.refused += 1
            raise NotDelivered(DeliveryFailure.FAILED, "503")
        self.alerts += alerts


@pytest.fixture
def pipeline() -> MemoryPipeline:
    """Return a broker with topics."""
    return MemoryPipeline(partitions=PARTITIONS, now=BEGAN)


def send(pipeline: MemoryPipeline, sent: Sequence[Sent]) -> None:
    """Append messages of verdicts."""
    for message in sent:
        pipeline.append(Topic.VERDICTS, message.partition, message.value)


def alerts_in(pipeline: MemoryPipeline, first: int = 0) -> list[Alert]:
    """Return the committed alerts from an offset on."""
    records = [record for record in pipeline.records(Topic.ALERTS) if record.offset >= first]
    return [decode(record.value or b"") for record in records]


def until_delivered(pipeline: MemoryPipeline, process: MemoryProcess) -> None:
    """Do turns until everything is read, and both alerts are delivered."""
    place = TopicPartition(NAMES[Topic.ALERTS], 0)

    def is_done() -> bool:
        committed = pipeline.broker.committed(KAFKA.group("alerts"), place) or 0
        # Behind the last alert is the marker of its transaction.
        end = pipeline.broker.end(place)
        return pipeline.is_read("alerts", Topic.VERDICTS) and end >= 3 and committed >= end - 1

    process.until("every alert is delivered", is_done)


def test_undelivered_alerts_wait_in_the_topic(pipeline: MemoryPipeline) -> None:
    """A process that ends before a receiver is back has lost nothing: the next one delivers."""
    send(pipeline, messages())
    receiver = Receiver()
    receiver.is_down = True
    first = pipeline.alerts(receiver)
    first.until("it has tried", lambda: receiver.refused)
    first.stop()
    assert not receiver.alerts
    receiver.is_down = False
    until_delivered(pipeline, pipeline.alerts(receiver))
    written = alerts_in(pipeline)
    check_one_alert(written)
    assert receiver.alerts[-1] == written[-1]


def test_records_that_are_no_verdicts_are_dead_letters(pipeline: MemoryPipeline) -> None:
    """Each becomes a dead letter; the alerts are the same."""
    sent = messages()
    sent[50:50] = [Sent(1, b"\xff\x00"), Sent(0, b"{}")]
    send(pipeline, sent)
    until_delivered(pipeline, pipeline.alerts())
    assert sorted((letter.process, letter.code, letter.partition) for letter in pipeline.dead_letters()) == [
        ("alerts", "TRL731", 0),
        ("alerts", "TRL731", 1),
    ]
    check_one_alert(alerts_in(pipeline))


def test_a_record_that_is_no_alert_is_a_dead_letter(pipeline: MemoryPipeline) -> None:
    """It becomes one at once, also while there are no verdicts, and alerts behind it are delivered."""
    pipeline.append(Topic.ALERTS, 0, b"?")
    receiver = Receiver()
    process = pipeline.alerts(receiver)
    process.until("it is a dead letter", pipeline.dead_letters)
    send(pipeline, messages())
    until_delivered(pipeline, process)
    [letter] = pipeline.dead_letters()
    assert (letter.process, letter.code, letter.topic, letter.offset) == (
        "alerts", "TRL764", NAMES[Topic.ALERTS], 0,
    )  # fmt: skip
    check_one_alert(alerts_in(pipeline, first=1))
    assert receiver.alerts[-1].status is AlertStatus.RESOLVED


@pytest.mark.slow
def test_marks_of_events_that_were_recreated_are_refused(pipeline: MemoryPipeline) -> None:
    """Repeated messages are dropped; where the events end before their marks, all would be (TRL766)."""
    sent = messages()
    for partition in range(PARTITIONS):
        pipeline.append(Topic.EVENTS, partition, *[b""] * 1_000)
    send(pipeline, [*sent, *sent[-9:]])
    first = pipeline.alerts()
    first.until("repeats are dropped", lambda: first.count(REPEATS) == 9)
    first.stop()
    pipeline.recreate(Topic.EVENTS)
    second = pipeline.alerts()
    send(pipeline, messages(seed=2))
    error = second.failure()
    assert error.code == "TRL766"
    assert "ends at offset 0, and was read up to" in str(error)


def test_verdicts_that_are_deleted_are_counted(pipeline: MemoryPipeline) -> None:
    """Retention overtakes a process that is at work."""
    sent = [message for message in messages() if message.partition == 0]
    process = pipeline.alerts()
    send(pipeline, sent[:5])
    process.until("five are read", lambda: process.count(READ, topic=VERDICTS) == 5)
    send(pipeline, sent[5:])
    pipeline.delete_records(Topic.VERDICTS, 0, len(sent) - 3)
    process.until("the rest is read", lambda: process.count(READ, topic=VERDICTS) == 8)
    assert process.count(DELETED, topic=VERDICTS) == len(sent) - 8
    assert any(f"that were not read (5 to {len(sent) - 4})" in line for line in process.lines)


@pytest.mark.parametrize("count", [5, 30])
def test_verdicts_that_are_recreated_are_refused(pipeline: MemoryPipeline, count: int) -> None:
    """The process ends (TRL735), however long the new topic is; a restart reads it from its beginning."""
    sent = [message for message in messages() if message.partition == 0]
    first = pipeline.alerts()
    send(pipeline, sent[:9])
    first.until("nine are read", lambda: first.count(READ, topic=VERDICTS) == 9)
    pipeline.recreate(Topic.VERDICTS)
    send(pipeline, sent[9 : 9 + count])
    assert first.failure().code == "TRL735"
    second = pipeline.alerts()
    second.until("all is read", lambda: second.count(READ, topic=VERDICTS) == count)
    assert second.count(REPEATS) == 0
