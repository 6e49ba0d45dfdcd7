"""Reading the state in a compacted topic: the latest record of each key, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kafka.structs import TopicPartition

from ..group.state import Latest

POLL_MS = 100
RECORDS = 5_000
"""Records that are taken from the client at a time."""


def read_compacted(
    consumer: Any, topic: str, partitions: Collection[int], going_on: Callable[[], bool]
) -> dict[int, dict[str, bytes]] | None:
    """Return the records of each partition by key, up to its end; None where `going_on` turns false.

    Waits for transactions that began before. Raises StreamError (TRL731) for a record without a key;
    KafkaError where the broker does not answer.
    """
    found = {number: Latest(topic) for number in partitions}
    unread = {TopicPartition(topic, number) for number in partitions}
    consumer.assign(sorted(unread))
    consumer.seek_to_beginning(*sorted(unread))
    while unread:
        if not going_on():
            return None
        for place, records in consumer.poll(timeout_ms=POLL_MS, max_records=RECORDS).items():
            for record in records:
                found[place.partition].put(record.key, record.value)
        # The high water mark is of a fetch after the start. Nobody can read up to it while a
        # transaction below it is open.
        unread = {place for place in unread if not _is_read(consumer, place)}
    return {number: latest.values for number, latest in found.items()}


def _is_read(consumer: Any, place: TopicPartition) -> bool:
    end = consumer.highwater(place)
    if end is None:
        return False
    position = consumer.position(place, timeout_ms=POLL_MS)
    return position is not None and position >= end
