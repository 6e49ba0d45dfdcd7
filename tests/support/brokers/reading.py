"""The content of a topic as a consumer of committed records reads it, and whether a process has read it.

Each asks for the one topic that it is about: the broker has those of all other tests, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition
from tracline.stream.kafka.lag import EARLIEST, LATEST, READS
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings, consuming

WAIT_S = 40.0
"""The time that a transaction may be open that was begun before."""


def read(settings: KafkaSettings, name: str) -> list[Any]:
    """Every committed record that was in the topic by now, by partition, as kafka-python returns them.

    What a transaction that is open now will have committed, or aborted, is waited for: to a consumer of
    committed records a partition seems to end before it, whatever others have committed behind it since.
    """
    with administering(settings, "test") as admin:
        parts = _partitions(admin, name)
        ends = {
            part: latest.offset
            for part, latest in admin.list_partition_offsets(dict.fromkeys(parts, LATEST)).items()
        }
        begins = admin.list_partition_offsets(dict.fromkeys(parts, EARLIEST))
    found = _committed(settings, {part: begins[part].offset for part in parts}, ends)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def is_read(admin: Any, settings: KafkaSettings, process: str) -> bool:
    """Return whether a process's group has committed all records in the topic that it reads, to the last one.

    Aborted records and the marks of transactions may follow: nobody reads these, so nobody commits them. A
    transaction that its producer left open is marked as aborted behind what others have written since.
    False where the broker does not answer: a new one has no coordinator yet.
    """
    try:
        parts = [part for topic in READS[process] for part in _partitions(admin, settings.topic(topic))]
        group = settings.group(process)
        # The ends come last: a record that is sent meanwhile is not read.
        committed = admin.list_group_offsets({group: None})[group]
        begins, ends = (
            admin.list_partition_offsets(dict.fromkeys(parts, which)) for which in (EARLIEST, LATEST)
        )
    except KafkaError:
        return False
    at = {part: stored.offset for part, stored in committed.items() if stored.offset >= 0}
    since = {part: at.get(part, begins[part].offset) for part in parts}
    behind = {part: offset for part, offset in since.items() if offset < ends[part].offset}
    found = _committed(settings, behind, {part: ends[part].offset for part in behind})
    return next(found, None) is None


def _committed(
    settings: KafkaSettings, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[Any]:
    """Yield the committed records of each partition from its begin up to its end."""
    if not begins:
        return
    consumer: Any = KafkaConsumer(**{**consuming(settings, "test"), "group_id": None})
    until = time.monotonic() + WAIT_S
    try:
        consumer.assign(list(begins))
        for part, offset in begins.items():
            consumer.seek(part, offset)
        while left := [part for part in begins if consumer.position(part) < ends[part]]:
            assert time.monotonic() < until, f"a transaction stays open: {left}"
            for records in consumer.poll(timeout_ms=100).values():
                yield from records
    finally:
        consumer.close()


def _partitions(admin: Any, name: str) -> list[TopicPartition]:
    """The partitions of a topic, in their order."""
    [topic] = admin.describe_topics([name])
    return sorted(TopicPartition(name, part["partition_index"]) for part in topic["partitions"])
