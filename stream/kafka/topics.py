"""The topics of the pipeline, as they must be and as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..messages.topics import Topic
from .librdkafka.admin import Admin
from .settings import KafkaSettings

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class PartitionCount(StrEnum):
    """The reason for a topic's number of partitions."""

    SPANS = "spans"
    """The topic that collectors write; one rekeyer reads each."""
    SESSIONS = "sessions"
    """The topics by which sessions are divided; one monitor reads each partition."""
    ONE = "one"
    """A topic that must stay in one order, or is small."""


@dataclass(frozen=True)
class TopicSpec:
    """A topic as it must be: `days` of records, or with None the last one of each key.

    The pipeline works without one that has `without`, which is what is left out then.
    """

    topic: Topic
    count: PartitionCount
    days: int | None
    without: str | None = None


SPECS = (
    TopicSpec(Topic.SPANS, PartitionCount.SPANS, 7),
    TopicSpec(Topic.LOGS, PartitionCount.SPANS, 7, "no log records are read"),
    TopicSpec(Topic.REKEY_STATE, PartitionCount.SPANS, None),
    TopicSpec(Topic.EVENTS, PartitionCount.SESSIONS, 7),
    TopicSpec(Topic.JUDGED, PartitionCount.SESSIONS, 7),
    TopicSpec(Topic.VERDICTS, PartitionCount.SESSIONS, 30),
    TopicSpec(Topic.RISK, PartitionCount.SESSIONS, 30, "no monitor can follow a chain"),
    TopicSpec(Topic.DEAD_LETTER, PartitionCount.ONE, 30),
    TopicSpec(Topic.ALERTS, PartitionCount.ONE, 30),
    TopicSpec(Topic.ALERTS_STATE, PartitionCount.ONE, None),
)
"""All topics. A process that is down for longer than its topic's days loses records."""
OPTIONAL = frozenset(spec.topic for spec in SPECS if spec.without is not None)
"""The topics that may be missing."""
OF_COLLECTORS = (Topic.SPANS, Topic.LOGS)
"""The topics that collectors write."""


@dataclass(frozen=True)
class FoundTopic:
    """A topic as it is: partitions, replicas of each (the fewest), and its configuration."""

    partitions: int
    replicas: int
    config: Mapping[str, str]


def config_of(spec: TopicSpec, settings: KafkaSettings, replicas: int) -> dict[str, str]:
    """Return the topic's configuration. Two of three replicas must have a record to acknowledge it."""
    config = {
        "cleanup.policy": "compact" if spec.days is None else "delete",
        "max.message.bytes": str(settings.request_bytes_max),
        # The topic stays as the producer wrote it: the broker does not compress again.
        "compression.type": "producer",
    }
    if spec.topic in OF_COLLECTORS:
        # Producers' clocks differ: by one that is ahead the time would go on for all.
        config["message.timestamp.type"] = "LogAppendTime"
    if replicas > 1:
        config["min.insync.replicas"] = str(max(1, replicas - 1))
    if spec.days is not None:
        # The cluster's own limit of bytes may be a matter of hours.
        return {**config, "retention.ms": str(spec.days * DAY_MS), "retention.bytes": "-1"}
    # A restart reads these from the beginning: what was overwritten must go soon.
    return {
        **config,
        "segment.ms": str(HOUR_MS),
        "segment.bytes": str(64 * 1024 * 1024),
        "min.cleanable.dirty.ratio": "0.1",
    }


def look(admin: Admin, settings: KafkaSettings) -> dict[Topic, FoundTopic]:
    """Return the topics that exist, as they are."""
    names = {settings.topic(spec.topic): spec.topic for spec in SPECS}
    there = {name: layout for name, layout in admin.topics().items() if name in names}
    configs = admin.configs(there) if there else {}
    return {
        names[name]: FoundTopic(layout.partitions, layout.replicas, configs[name])
        for name, layout in there.items()
        # It may be deleted meanwhile.
        if name in configs
    }
