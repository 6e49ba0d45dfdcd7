"""The administration of Kafka with librdkafka's client: topics, ends, groups and their offsets."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

from confluent_kafka import Consumer, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from ...group.broker_errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from ...group.client import TopicPartition
from .errors import kafka_error, raising

Answer = TypeVar("Answer")
Which: TypeAlias = OffsetSpec
"""The choice of an offset in a partition."""
EARLIEST = cast("Which", OffsetSpec.earliest())
LATEST = cast("Which", OffsetSpec.latest())
WORD_BITS = 64
RETRY_S = 0.05
LATE_S = 5.0
"""The seconds that librdkafka may take to see that the time of a request is up."""
COORDINATOR_S = 20.0
"""The seconds to wait for the coordinator of offsets: a new broker creates their topic when first asked."""


def since(time_ms: int) -> Which:
    """Choose the first record that is not older."""
    return cast("Which", OffsetSpec.for_timestamp(time_ms))


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The number of a topic's partitions, and of the replicas of each, the fewest."""

    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True)
class NewTopicLayout:
    """A topic to create: the numbers of its partitions and of the replicas of each, and its configuration."""

    partitions: int
    replicas: int = 1
    config: Mapping[str, str] = field(default_factory=dict[str, str])


class Admin:
    """A client that asks and changes the brokers; each request raises KafkaError after `within_s`.

    Raises KafkaError where librdkafka refuses the properties.
    """

    def __init__(self, properties: Mapping[str, Any], within_s: float) -> None:
        self._within_s = within_s
        # Nobody reads its log: each request has its error.
        self._properties = {**properties, "log_level": 0}
        with raising():
            self._client: Any = AdminClient(self._properties)

    def topics(self) -> dict[str, TopicLayout]:
        """Return all topics by name."""
        with raising():
            found = self._client.list_topics(timeout=self._within_s).topics
        return {
            name: TopicLayout(len(topic.partitions), min(map(_replicas, topic.partitions.values())))
            for name, topic in found.items()
            if topic.error is None and topic.partitions
        }

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic. Raises KafkaError where it does not exist."""
        return partitions_of(self._client, topic, self._within_s)

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic. Raises KafkaError where it does not exist."""
        asked = self._client.describe_topics(TopicCollection([topic]), request_timeout=self._within_s)
        found = self._answer(asked[topic]).topic_id
        words = found.get_most_significant_bits(), found.get_least_significant_bits()
        high, low = (word % (1 << WORD_BITS) for word in words)
        return str(uuid.UUID(int=high << WORD_BITS | low))

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the configuration of each topic that exists."""
        return self._configs(ResourceType.TOPIC, topics)

    def broker_config(self) -> dict[str, str]:
        """Return the configuration of one of the brokers."""
        with raising():
            first = str(min(self._client.list_topics(timeout=self._within_s).brokers))
        return self._configs(ResourceType.BROKER, [first])[first]

    def _configs(self, kind: ResourceType, names: Iterable[str]) -> dict[str, dict[str, str]]:
        asked = [ConfigResource(kind, name) for name in names]
        answers = self._client.describe_configs(asked, request_timeout=self._within_s)
        found: dict[str, dict[str, str]] = {}
        for resource, answer in answers.items():
            with suppress(UnknownTopicOrPartitionError):
                entries = self._answer(answer).items()
                found[resource.name] = {key: entry.value for key, entry in entries if entry.value is not None}
        return found

    def create(self, topics: Mapping[str, NewTopicLayout]) -> dict[str, KafkaError]:
        """Create topics, wait until a broker knows them, and return the errors by topic."""
        new = [
            NewTopic(name, layout.partitions, layout.replicas, config=dict(layout.config))
            for name, layout in topics.items()
        ]
        failed: dict[str, KafkaError] = {}
        for name, answer in self._client.create_topics(new).items() if new else ():
            try:
                self._answer(answer)
                self._wait_for(name)
            except KafkaError as error:
                failed[name] = error
        return failed

    def _wait_for(self, topic: str) -> None:
        """Wait until a broker knows a topic that was created."""
        until = time.monotonic() + self._within_s
        while True:
            try:
                self.partitions(topic)
            except UnknownTopicOrPartitionError:
                if time.monotonic() > until:
                    raise
            else:
                return
            time.sleep(RETRY_S)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._answer(self._client.delete_topics([topic])[topic])

    def offsets(self, places: Iterable[TopicPartition], which: Which) -> dict[TopicPartition, int]:
        """Return an offset of each partition; -1 where no record is as late. Ends have open transactions."""
        asked = {Place(*place): which for place in places}
        if not asked:
            return {}

        def ask() -> dict[TopicPartition, int]:
            answers = self._client.list_offsets(asked, request_timeout=self._within_s)
            return {
                TopicPartition(place.topic, place.partition): self._answer(answer).offset
                for place, answer in answers.items()
            }

        return self._until_answered(ask, self._within_s)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records of each partition before an offset."""
        places = [Place(*place, offset) for place, offset in before.items()]
        for answer in self._client.delete_records(places, request_timeout=self._within_s).values():
            self._answer(answer)

    def group_offsets(self, group: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets that a group has committed of these partitions, where it has committed one.

        A consumer asks, which does not join: librdkafka (2.16) crashes when an admin client asks a broker
        that does not coordinate the group any more or yet (its issue 5040).
        """
        asked = [Place(*place) for place in places]
        if not asked:
            return {}
        # Else the answer would wait for open transactions.
        asking = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
        with raising():
            consumer: Any = Consumer({**self._properties, **asking})

        def ask() -> list[Place]:
            with raising():
                found: list[Place] = consumer.committed(asked, timeout=COORDINATOR_S)
            for place in found:
                if place.error is not None:
                    raise kafka_error(place.error)
            return found

        try:
            found = self._until_answered(ask, COORDINATOR_S)
        finally:
            consumer.close()
        return {
            TopicPartition(place.topic, place.partition): place.offset for place in found if place.offset >= 0
        }

    def group_clients(self, group: str) -> list[str]:
        """Return the names of the clients in a group."""

        def ask() -> list[str]:
            answers = self._client.describe_consumer_groups([group], request_timeout=self._within_s)
            return [member.client_id for member in self._answer(answers[group]).members]

        return self._until_answered(ask, COORDINATOR_S)

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        return str(self._answer(self._client.describe_cluster(request_timeout=self._within_s)).cluster_id)

    def _until_answered(self, ask: Callable[[], Answer], within_s: float) -> Answer:
        """Return the answer to a question that brokers cannot answer while a leader or coordinator begins."""
        until = time.monotonic() + within_s
        while True:
            try:
                return ask()
            except (KafkaTimeoutError, UnknownTopicOrPartitionError):
                raise
            except KafkaError as error:
                if not error.retriable or time.monotonic() > until:
                    raise
            time.sleep(RETRY_S)
            # librdkafka (2.16) asks no broker again who leads a partition that had no leader.
            self.topics()

    def _answer(self, answer: Future[Answer]) -> Answer:
        """Return the answer of a broker; librdkafka gives up in time."""
        # An error that is raised here would refer to itself, and hold the client until cycles are looked for.
        try:
            error = answer.exception(self._within_s + LATE_S)
        except TimeoutError:
            raise KafkaTimeoutError("no broker has answered") from None
        if isinstance(error, KafkaException):
            raise kafka_error(error.args[0])
        return answer.result()


def partitions_of(client: Any, topic: str, within_s: float) -> int:
    """Return the number of partitions of a topic, which a client of librdkafka asks.

    Raises KafkaError where it does not exist.
    """
    with raising():
        found = client.list_topics(topic, timeout=within_s).topics[topic]
    if found.error is not None:
        raise kafka_error(found.error)
    if not found.partitions:
        raise UnknownTopicOrPartitionError(topic)
    return len(found.partitions)


def _replicas(partition: Any) -> int:
    return len(partition.replicas)
