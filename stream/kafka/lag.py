"""The lag of each process of the pipeline behind its inputs, by the offsets that it has committed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..error import StreamError
from ..messages.topics import Topic
from .settings import KafkaSettings
from .topics import OPTIONAL

READS: Mapping[str, tuple[Topic, ...]] = {
    "rekey": (Topic.SPANS, Topic.LOGS),
    "monitor": (Topic.EVENTS,),
    "archive": (Topic.JUDGED,),
    "alerts": (Topic.VERDICTS,),
}
"""The topics that each process reads; its group is `KafkaSettings.group` of its name."""

LATEST, EARLIEST = -1, -2
"""Kafka's codes for the end and the beginning of a partition in a request for an offset."""

COORDINATOR_S = 20.0
"""The seconds to wait for the coordinator of offsets: a new broker creates their topic when first asked."""
RETRY_S = 0.25


@dataclass(frozen=True)
class Lag:
    """A partition that a process reads: where it goes on, where the partition ends, and the lag in between.

    `committed` is None where the process has not committed yet. A transaction's mark has an offset like a
    record, so one that has read everything may seem to be behind by one.
    """

    process: str
    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int


def lags(admin: Any, settings: KafkaSettings) -> list[Lag]:
    """Return the lag of every process at every partition that it reads.

    Raises StreamError (TRL724) where a topic is missing that the pipeline needs.
    """
    from kafka.structs import TopicPartition

    names = {settings.topic(topic): topic for topics in READS.values() for topic in topics}
    there = {topic["name"]: topic for topic in admin.describe_topics() if topic["name"] in names}
    for name, topic in names.items():
        if name not in there and topic not in OPTIONAL:
            raise StreamError("TRL724", f"{name} is missing", "make it with: tracline stream topics --create")
    parts = [
        TopicPartition(name, partition["partition_index"])
        for name, topic in there.items()
        for partition in topic["partitions"]
    ]
    begins = admin.list_partition_offsets(dict.fromkeys(parts, EARLIEST))
    ends = admin.list_partition_offsets(dict.fromkeys(parts, LATEST))
    found: list[Lag] = []
    for process, topic in ((process, topic) for process, topics in READS.items() for topic in topics):
        committed = _committed(admin, settings.group(process))
        for part in sorted(part for part in parts if part.topic == settings.topic(topic)):
            at = committed.get(part)
            since = begins[part].offset if at is None or at.offset < 0 else at.offset
            offset = None if at is None or at.offset < 0 else int(at.offset)
            end = int(ends[part].offset)
            found.append(Lag(process, part.topic, int(part.partition), offset, end, max(0, end - int(since))))
    return found


def _committed(admin: Any, group: str) -> Mapping[Any, Any]:
    """Return the offsets that a group has committed, by partition."""
    from kafka.errors import KafkaError

    until = time.monotonic() + COORDINATOR_S
    while True:
        try:
            return admin.list_group_offsets({group: None})[group]
        except KafkaError as error:
            if not error.retriable or time.monotonic() > until:
                raise
        time.sleep(RETRY_S)
