"""The content of a topic as a consumer of committed records reads it, and whether a process has read it.

Each asks for the one topic that it is about: the broker has those of all other tests, too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing

from tracline.stream.group.broker_errors import KafkaError
from tracline.stream.group.client import TopicPartition
from tracline.stream.kafka.lag import READS
from tracline.stream.kafka.librdkafka.admin import EARLIEST, LATEST, Admin
from tracline.stream.kafka.librdkafka.reader import FetchedRecord, TopicReader
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.properties import consuming
from tracline.stream.kafka.settings import KafkaSettings

WAIT_S = 40.0
"""The time that a transaction may be open that was begun before."""


def read(settings: KafkaSettings, name: str) -> list[FetchedRecord]:
    """Every committed record that was in the topic by now, by partition.

    What a transaction that is open now will have committed, or aborted, is waited for: to a consumer of
    committed records a partition seems to end before it, whatever others have committed behind it since.
    """
    with administering(settings, "test") as admin:
        parts = partitions_of(admin, name)
        ends, begins = admin.offsets(parts, LATEST), admin.offsets(parts, EARLIEST)
    return sorted(
        committed_records(settings, begins, ends), key=lambda record: (record.partition, record.offset)
    )


def is_read(admin: Admin, settings: KafkaSettings, process: str) -> bool:
    """Return whether a process's group has committed all records in the topic that it reads, to the last one.

    Aborted records and the marks of transactions may follow: nobody reads these, so nobody commits them. A
    transaction that its producer left open is marked as aborted behind what others have written since.
    False where the broker does not answer: a new one has no coordinator yet.
    """
    try:
        parts = [part for topic in READS[process] for part in partitions_of(admin, settings.topic(topic))]
        # The ends come last: a record that is sent meanwhile is not read.
        at = admin.group_offsets(settings.group(process), parts)
        begins, ends = admin.offsets(parts, EARLIEST), admin.offsets(parts, LATEST)
    except KafkaError:
        return False
    since = {part: at.get(part, begins[part]) for part in parts}
    behind = {part: offset for part, offset in since.items() if offset < ends[part]}
    found = committed_records(settings, behind, {part: ends[part] for part in behind})
    return next(found, None) is None


def committed_records(
    settings: KafkaSettings, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[FetchedRecord]:
    """Yield the committed records of each partition from its begin up to its end."""
    by_topic: dict[str, dict[int, int]] = defaultdict(dict)
    for part, offset in begins.items():
        by_topic[part.topic][part.partition] = offset
    until = time.monotonic() + WAIT_S
    for topic, offsets in by_topic.items():
        with closing(TopicReader(consuming(settings, "test"), topic)) as reader:
            reader.read_from(offsets)
            while left := [n for n in offsets if reader.position(n) < ends[TopicPartition(topic, n)]]:
                assert time.monotonic() < until, f"a transaction stays open: {topic} {left}"
                yield from reader.poll(0.1, 1_000)


def partitions_of(admin: Admin, name: str) -> list[TopicPartition]:
    """The partitions of a topic, in their order."""
    return [TopicPartition(name, number) for number in range(admin.partitions(name))]
