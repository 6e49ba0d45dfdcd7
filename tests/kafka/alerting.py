"""The alerts process on a real broker, the messages that it reads, and the alerts that must come of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracline.schemas.time import NS, parse_time
from tracline.stream.alerts.alert import Alert, decode
from tracline.stream.alerts.rates import Rates, default_rates, encode
from tracline.stream.group.client import OutgoingRecord, TopicPartition
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.librdkafka.admin import LATEST
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import is_read, read
from ..support.brokers.sending import send_records
from ..support.conversations.alert_messages import (
    BEGAN,
    PARTITIONS,
    SETTINGS,
    SPIKE,
    TICK_S,
    Sent,
    messages,
)
from ..support.http.hook import Hook
from ..support.processes.forking import ForkedProcess
from ..support.processes.rekeying import until
from ..support.processes.stage import running

TIMEOUT_S = 2.0


def with_topics(kafka: KafkaSettings) -> KafkaSettings:
    """The settings, once their topics are made."""
    with administering(kafka) as admin:
        create(admin, kafka, partitions=PARTITIONS)
    return kafka


def write_rates(folder: Path) -> Path:
    """Write the tolerated rates, as the command reads them, and return the file."""
    rates_of_desk: Rates = default_rates(TICK_S, TICK_S)
    path = folder / "rates.json"
    path.write_bytes(encode(rates_of_desk))
    return path


@contextmanager
def process(
    kafka: KafkaSettings, rates: Path, *more: str, fault: str | None = None
) -> Iterator[ForkedProcess]:
    """A process of the command; whatever happens, it does not outlive the test."""
    flags = ("--rates", str(rates), "--arl", str(SETTINGS.arl_ticks), "--resend-s", "1")
    waits = ("--timeout-s", str(TIMEOUT_S))
    with running(kafka, rates.with_name("alerts.log"), "alerts", *flags, *waits, *more, fault=fault) as stage:
        yield stage.process


def send(kafka: KafkaSettings, sent: list[Sent]) -> None:
    """Send the messages to their partitions."""
    topic = kafka.topic(Topic.VERDICTS)
    send_records(kafka, [OutgoingRecord(topic, message.partition, None, message.value) for message in sent])


def halves() -> tuple[list[Sent], list[Sent]]:
    """The messages, parted at the last tick of the spike."""
    sent = messages()
    half = next(place for place, message in enumerate(sent) if _tick_of(message) == SPIKE.stop - 1)
    return sent[:half], sent[half:]


def _tick_of(message: Sent) -> int | None:
    """The tick at whose end a message's watermark is."""
    watermark = json.loads(message.value)["watermark"]
    if watermark is None:
        return None
    return ((parse_time(watermark) or 0) - BEGAN) // (TICK_S * NS)


def alerts(kafka: KafkaSettings) -> list[Alert]:
    """Return what is committed to the topic of alerts."""
    return [decode(record.value) for record in read(kafka, kafka.topic(Topic.ALERTS))]


def notifications(receiver: Hook) -> list[tuple[str, str]]:
    """The id and status of each alert that was posted."""
    return [
        (alert["id"], alert["status"]) for _, body in receiver.posts for alert in json.loads(body)["alerts"]
    ]


def until_delivered(kafka: KafkaSettings) -> None:
    """Wait until everything is read, and both alerts delivered: behind the last is its transaction's mark."""
    place, group = TopicPartition(kafka.topic(Topic.ALERTS), 0), kafka.group("alerts")
    with administering(kafka, "test") as admin:

        def is_done() -> bool:
            if not is_read(admin, kafka, "alerts"):
                return False
            end = admin.offsets([place], LATEST)[place]
            committed = admin.group_offsets(group, [place]).get(place)
            return end >= 3 and committed is not None and committed >= end - 1

        until("every alert is delivered", is_done)
