"""The lag of each process of the pipeline behind its inputs, by the offsets that it has committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..error import StreamError
from ..group.client import TopicPartition
from ..messages.topics import Topic
from .librdkafka.admin import EARLIEST, LATEST, Admin
from .settings import KafkaSettings
from .topics import OPTIONAL

READS: Mapping[str, tuple[Topic, ...]] = {
    "rekey": (Topic.SPANS, Topic.LOGS),
    "monitor": (Topic.EVENTS,),
    "archive": (Topic.JUDGED,),
    "alerts": (Topic.VERDICTS,),
}
"""The topics that each process reads; its group is `KafkaSettings.group` of its name."""


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


def lags(admin: Admin, settings: KafkaSettings) -> list[Lag]:
    """Return the lag of every process at every partition that it reads.

    Raises StreamError (TRL724) where a topic is missing that the pipeline needs.
    """
    names = {settings.topic(topic): topic for topics in READS.values() for topic in topics}
    there = {name: layout for name, layout in admin.topics().items() if name in names}
    for name, topic in names.items():
        if name not in there and topic not in OPTIONAL:
            raise StreamError("TRL724", f"{name} is missing", "make it with: tracline stream topics --create")
    places = [
        TopicPartition(name, number) for name, layout in there.items() for number in range(layout.partitions)
    ]
    begins, ends = admin.offsets(places, EARLIEST), admin.offsets(places, LATEST)
    found: list[Lag] = []
    for process, topic in ((process, topic) for process, topics in READS.items() for topic in topics):
        of_topic = sorted(place for place in places if place.topic == settings.topic(topic))
        committed = admin.group_offsets(settings.group(process), of_topic)
        for place in of_topic:
            offset = committed.get(place)
            since = begins[place] if offset is None else offset
            lag = max(0, ends[place] - since)
            found.append(Lag(process, place.topic, place.partition, offset, ends[place], lag))
    return found
