"""The minimal cost of the pipeline: copying its messages in transactions, and parsing them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.examples.local_kafka import Broker

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
    admin: Any = KafkaAdminClient(bootstrap_servers=[broker.bootstrap])
    topics = {name: {"num_partitions": 1, "replication_factor": 1} for name in (SOURCE, TARGET)}
    admin.create_topics(topics)
    admin.close()
    producer: Any = KafkaProducer(bootstrap_servers=[broker.bootstrap], compression_type="zstd", linger_ms=20)
    for message in messages:
        producer.send(SOURCE, message, partition=0)
    producer.flush()
    producer.close()


def copied(broker: Broker, count: int) -> float:
    """Copy that many messages with their offsets; return the processor seconds after the first `WARM`."""
    consumer: Any = KafkaConsumer(
        bootstrap_servers=[broker.bootstrap], group_id="floor", enable_auto_commit=False
    )
    source = TopicPartition(SOURCE, 0)
    consumer.assign([source])
    consumer.seek_to_beginning(source)
    producer: Any = KafkaProducer(
        bootstrap_servers=[broker.bootstrap],
        transactional_id="floor",
        compression_type="zstd",
        linger_ms=5,
        batch_size=1 << 20,
    )
    producer.init_transactions()
    copied, began = 0, time.process_time()
    while copied < count:
        limit = WARM - copied if copied < WARM else AT_ONCE
        records = [record for batch in consumer.poll(200, max_records=limit).values() for record in batch]
        if not records:
            continue
        producer.begin_transaction()
        for record in records:
            producer.send(TARGET, record.value, partition=0)
        offsets = {source: OffsetAndMetadata(records[-1].offset + 1, "", -1)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        copied += len(records)
        if copied == WARM:
            began = time.process_time()
    spent = time.process_time() - began
    producer.close()
    consumer.close()
    return spent
