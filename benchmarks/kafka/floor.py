"""The minimal cost of the pipeline: copying its messages in transactions, and parsing them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.examples.local_kafka import Broker
from tracline.stream.kafka.librdkafka.admin import NewTopicLayout
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings

from tests.support.brokers.sending import sending

AT_ONCE = 1_000
"""The most messages of a transaction."""
WARM = 500
"""The number of messages before the measurement starts."""
SOURCE, TARGET = "floor-in", "floor-out"


@dataclass(frozen=True)
class Floor:
    """Microseconds of processor a span: to copy its bytes in transactions, to parse them with upb."""

    copy_us: float
    parse_us: float


def floor(broker: Broker, messages: Sequence[bytes]) -> Floor:
    """Measure both over the same messages."""
    began = time.process_time()
    for message in messages:
        ExportTraceServiceRequest.FromString(message)
    parse_s = time.process_time() - began
    spans = [count_of(message) for message in messages]
    send(broker, messages)
    return Floor(copied(broker, len(messages)) / sum(spans[WARM:]) * 1e6, parse_s / sum(spans) * 1e6)


def count_of(message: bytes) -> int:
    """Return the number of spans in a message."""
    request = ExportTraceServiceRequest.FromString(message)
    return sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)


def send(broker: Broker, messages: Sequence[bytes]) -> None:
    """Make both topics, and send the messages to the first."""
    kafka = KafkaSettings((broker.bootstrap,))
    with administering(kafka) as admin:
        assert not admin.create({name: NewTopicLayout(1) for name in (SOURCE, TARGET)})
    with sending(kafka) as producer:
        for message in messages:
            producer.produce(SOURCE, message, partition=0)


def copied(broker: Broker, count: int) -> float:
    """Copy that many messages with their offsets; return the processor seconds after the first `WARM`."""
    reached = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    reading = {"group.id": "floor", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer: Any = Consumer({**reached, **reading})
    consumer.assign([TopicPartition(SOURCE, 0, 0)])
    writing = {"transactional.id": "floor", "compression.type": "zstd", "linger.ms": 5, "batch.size": 1 << 20}
    producer: Any = Producer({**reached, **writing})
    producer.init_transactions()
    done, began = 0, time.process_time()
    while done < count:
        records: Any = consumer.consume(WARM - done if done < WARM else AT_ONCE, 0.2)
        if not records:
            continue
        producer.begin_transaction()
        for record in records:
            producer.produce(TARGET, record.value(), partition=0)
        producer.flush()
        offset = TopicPartition(SOURCE, 0, records[-1].offset() + 1)
        producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata())
        producer.commit_transaction()
        done += len(records)
        if done == WARM:
            began = time.process_time()
    spent = time.process_time() - began
    consumer.close()
    return spent
