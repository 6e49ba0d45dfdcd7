"""Checks of the topics: the missing ones, and those that are not as they must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..error import StreamError
from ..messages.topics import Topic
from .settings import KafkaSettings
from .topics import OF_COLLECTORS, SPECS, FoundTopic, PartitionCount, TopicSpec, config_of


@dataclass(frozen=True)
class TopicFlaw:
    """A fault of a topic and its remedy; `harmful` if the pipeline would go wrong."""

    topic: str
    what: str
    hint: str
    harmful: bool = True


def check(found: Mapping[Topic, FoundTopic], settings: KafkaSettings) -> list[TopicFlaw]:
    """Return what is missing, and what is not as it must be or as `create` would make it, topic by topic."""
    flaws = [_missing(spec, settings) for spec in SPECS if spec.topic not in found]
    flaws += uneven(found, settings)
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
    what = "is missing" if spec.without is None else f"is missing: {spec.without}"
    hint = "make it with: tracline stream topics --create"
    return TopicFlaw(settings.topic(spec.topic), what, hint, harmful=spec.without is None)


def uneven(found: Mapping[Topic, FoundTopic], settings: KafkaSettings) -> list[TopicFlaw]:
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
        if spec.topic is Topic.LOGS:
            hint = "a record must come to the partition of its span: delete this topic and create it again "
            hint += "with: tracline stream topics --create"
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
