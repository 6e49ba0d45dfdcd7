"""The topics of the pipeline as they must be: the missing ones are created, and the others checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..error import StreamError
from ..messages.topics import Topic
from .settings import KafkaSettings

PARTITIONS = 8
"""The partitions of spans and sessions by default; more processes than that have no work."""
NO_ERROR, THERE_ALREADY = 0, 36
"""Kafka's codes; the second if another process creates the same topic at the same time."""
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

    The pipeline works without one that is `optional`.
    """

    topic: Topic
    count: PartitionCount
    days: int | None
    optional: bool = False


SPECS = (
    TopicSpec(Topic.SPANS, PartitionCount.SPANS, 7),
    TopicSpec(Topic.LOGS, PartitionCount.SPANS, 7, optional=True),
    TopicSpec(Topic.REKEY_STATE, PartitionCount.SPANS, None),
    TopicSpec(Topic.EVENTS, PartitionCount.SESSIONS, 7),
    TopicSpec(Topic.JUDGED, PartitionCount.SESSIONS, 7),
    TopicSpec(Topic.VERDICTS, PartitionCount.SESSIONS, 30),
    TopicSpec(Topic.DEAD_LETTER, PartitionCount.ONE, 30),
    TopicSpec(Topic.ALERTS, PartitionCount.ONE, 30),
    TopicSpec(Topic.ALERTS_STATE, PartitionCount.ONE, None),
)
"""All topics. A process that is down for longer than its topic's days loses records."""
OPTIONAL = frozenset(spec.topic for spec in SPECS if spec.optional)
"""The topics that may be missing."""
OF_COLLECTORS = (Topic.SPANS, Topic.LOGS)
"""The topics that collectors write."""


@dataclass(frozen=True)
class FoundTopic:
    """A topic as it is: partitions, replicas of each (the fewest), and its configuration."""

    partitions: int
    replicas: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class TopicFlaw:
    """A fault of a topic and its remedy; `harmful` if the pipeline would go wrong."""

    topic: str
    what: str
    hint: str
    harmful: bool = True


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


def look(admin: Any, settings: KafkaSettings) -> dict[Topic, FoundTopic]:
    """Return the topics that exist, as they are."""
    from kafka.admin import ConfigResource, ConfigResourceType

    names = {settings.topic(spec.topic): spec.topic for spec in SPECS}
    there = {topic["name"]: topic for topic in admin.describe_topics() if topic["name"] in names}
    if not there:
        return {}
    asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in there]
    configs = admin.describe_configs(asked, config_filter="all")["topic"]
    return {
        names[name]: FoundTopic(
            partitions=len(topic["partitions"]),
            replicas=min(len(partition["replica_nodes"]) for partition in topic["partitions"]),
            config={key: entry["value"] for key, entry in configs[name].items()},
        )
        for name, topic in there.items()
    }


def create(admin: Any, settings: KafkaSettings, partitions: int = PARTITIONS, replicas: int = 1) -> list[str]:
    """Create the topics that are missing, and return their names; existing ones stay as they are.

    `partitions` are those of spans and of sessions, unless an existing topic decides how many there are.
    Raises StreamError (TRL724) if two of them have different numbers, or the broker will not create one.
    """
    there = look(admin, settings)
    counts = {PartitionCount.SPANS: partitions, PartitionCount.SESSIONS: partitions, PartitionCount.ONE: 1}
    for spec in SPECS:
        if spec.topic in there and spec.count is not PartitionCount.ONE:
            counts[spec.count] = there[spec.topic].partitions
    if flaws := _uneven(there, settings):
        raise StreamError("TRL724", f"{flaws[0].topic} {flaws[0].what}", flaws[0].hint)
    missing = {
        settings.topic(spec.topic): {
            "num_partitions": counts[spec.count],
            "replication_factor": replicas,
            "configs": config_of(spec, settings, replicas),
        }
        for spec in SPECS
        if spec.topic not in there
    }
    if missing:
        created = admin.create_topics(missing, raise_errors=False)["topics"]
        for topic in created:
            if topic["error_code"] not in (NO_ERROR, THERE_ALREADY):
                what = f"{topic['name']} cannot be made: {topic['error_message']}"
                raise StreamError("TRL724", what, "check --replication, and what this user may do")
        admin.wait_for_topics(list(missing))
    return list(missing)


def check(found: Mapping[Topic, FoundTopic], settings: KafkaSettings) -> list[TopicFlaw]:
    """Return what is missing, and what is not as it must be or as `create` would make it, topic by topic."""
    flaws = [_missing(spec, settings) for spec in SPECS if spec.topic not in found]
    flaws += _uneven(found, settings)
    for spec in SPECS:
        if spec.topic in found:
            flaws += _config_flaws(spec, found[spec.topic], settings)
    return flaws


def require(found: Mapping[Topic, FoundTopic], settings: KafkaSettings, *topics: Topic) -> None:
    """Raise StreamError (TRL724) if one of the topics is missing, or would make the pipeline go wrong."""
    names = {settings.topic(topic) for topic in topics}
    for flaw in check(found, settings):
        if flaw.harmful and flaw.topic in names:
            raise StreamError("TRL724", f"{flaw.topic} {flaw.what}", flaw.hint)


def _missing(spec: TopicSpec, settings: KafkaSettings) -> TopicFlaw:
    """Return the flaw that a topic is missing."""
    what = "is missing: no log records are read" if spec.optional else "is missing"
    hint = "make it with: tracline stream topics --create"
    return TopicFlaw(settings.topic(spec.topic), what, hint, harmful=not spec.optional)


def _uneven(found: Mapping[Topic, FoundTopic], settings: KafkaSettings) -> list[TopicFlaw]:
    """Return the topics that have another number of partitions than those they go with."""
    flaws: list[TopicFlaw] = []
    first: dict[PartitionCount, Topic] = {}
    for spec in SPECS:
        if spec.topic not in found:
            continue
        counterpart = first.setdefault(spec.count, spec.topic)
        wanted = 1 if spec.count is PartitionCount.ONE else found[counterpart].partitions
        if (has := found[spec.topic].partitions) == wanted:
            continue
        why = (
            "and must have 1"
            if spec.count is PartitionCount.ONE
            else f"and {settings.topic(counterpart)} {wanted}"
        )
        what = f"has {has} partitions, {why}"
        hint = "a number of partitions cannot change: choose another prefix, or recreate the topics"
        if spec.optional:
            hint = (
                "a record must come to the partition of its span: delete this topic and make it again with: "
            )
            hint += "tracline stream topics --create"
        flaws.append(TopicFlaw(settings.topic(spec.topic), what, hint))
    return flaws


def _config_flaws(spec: TopicSpec, found: FoundTopic, settings: KafkaSettings) -> Iterator[TopicFlaw]:
    """Yield the differences of the topic's configuration; harmful ones lose records, or refuse them."""
    name = settings.topic(spec.topic)
    for key, wanted in config_of(spec, settings, found.replicas).items():
        has = found.config.get(key, "")
        if has == wanted:
            continue
        at_least = key in {"max.message.bytes", "min.insync.replicas"}
        if at_least and int(has) > int(wanted):
            continue
        # State that is deleted, records that replace each other, or records that are refused.
        harmful = key == "cleanup.policy" or (key == "max.message.bytes" and spec.topic not in OF_COLLECTORS)
        hint = f"set {key}={wanted} with Kafka's own tools" + ("" if harmful else ", unless it is meant so")
        yield TopicFlaw(name, f"has {key}={has}, not {wanted}", hint, harmful)
