"""Records that a test sends, as any other program may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from tracline.stream.group.client import OutgoingRecord
from tracline.stream.kafka.librdkafka.sender import RecordSender
from tracline.stream.kafka.properties import producing
from tracline.stream.kafka.settings import KafkaSettings

RECORDS_MAX = 10_000_000
WAIT_S = 60.0
"""The time that the broker may take to acknowledge what was sent."""


def send_records(kafka: KafkaSettings, records: Iterable[OutgoingRecord]) -> None:
    """Send records, and return once the broker has them."""
    sender = RecordSender(producing(kafka, "test"))
    sender.send(records)
    sender.close()


@contextmanager
def sending(kafka: KafkaSettings, **properties: Any) -> Iterator[Any]:
    """Yield a producer of librdkafka's own, and wait at the end until the broker has every record."""
    failed: list[Any] = []
    options = {
        "on_delivery": lambda error, _message: failed.append(error),
        "queue.buffering.max.messages": RECORDS_MAX,
        **properties,
    }
    producer = Producer({**producing(kafka, "test"), **options})
    yield producer
    assert not producer.flush(WAIT_S)
    assert not failed
