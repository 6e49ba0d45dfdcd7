"""What stands in a topic, read as a consumer of committed records does."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer
from kafka.structs import TopicPartition
from tracline.stream.kafka.settings import KafkaSettings, consuming


def read(settings: KafkaSettings, name: str) -> list[Any]:
    """Every committed record that is in the topic now, partition by partition, as kafka-python has them."""
    with_no_group = {**consuming(settings, "test"), "group_id": None}
    consumer = KafkaConsumer(**with_no_group)
    try:
        numbers = sorted(consumer.partitions_for_topic(name) or ())
        assert numbers, f"there is no topic {name}"
        parts = [TopicPartition(name, number) for number in numbers]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(parts)
        found: list[Any] = []
        while any(consumer.position(part) < ends[part] for part in parts):
            for records in consumer.poll(timeout_ms=1000).values():
                found += records
    finally:
        consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))
