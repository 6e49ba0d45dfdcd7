"""The two brokers of the client contract: one in memory, and a real Apache Kafka."""

# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tracline.stream.group.client import ClientRecord, GroupClient, OutgoingRecord, TopicPartition
from tracline.stream.kafka.client import KafkaClient
from tracline.stream.kafka.librdkafka.admin import NewTopicLayout
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.memory.broker import MemoryBroker
from tracline.stream.memory.client import MemoryClient

from ..support.brokers.sending import send_records
from ..support.processes.rekeying import delete_topic, until

GROUP = "contract"
TIMEOUT_S = 20.0
"""The time that a member may be silent, and a transaction be open: longer than a test."""
PARTITIONS = 2
BYTES_MAX = 100_000


class Harness(Protocol):
    """A broker with the topics `work`, `beside` and `state`, two partitions each."""

    def name(self, topic: str) -> str:
        """Return the full name of a topic."""
        ...

    def client(self, instance: str | None = None) -> GroupClient:
        """Return an opened client of `work` with `beside`; it is closed at the end."""
        ...

    def create(self, topic: str) -> None:
        """Create a topic."""

    def delete(self, topic: str) -> None:
        """Delete a topic."""

    def send(self, topic: str, partition: int, *values: bytes | None, key: bytes | None = None) -> None:
        """Send records outside any transaction."""

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset."""

    def until(self, what: str, is_so: Callable[[], Any]) -> None:
        """Ask until it is so."""


@dataclass
class InMemory:
    """The broker in memory, whose time stands unless a test lets it pass."""

    time: float = 1_000.0
    broker: MemoryBroker = field(init=False)
    clients: int = 0

    def __post_init__(self) -> None:
        self.broker = MemoryBroker(lambda: self.time)

    def name(self, topic: str) -> str:
        return topic

    def client(self, instance: str | None = None) -> MemoryClient:
        self.clients += 1
        name = f"client-{self.clients}"
        client = MemoryClient(self.broker, GROUP, name, "work", TIMEOUT_S, "beside", instance or name)
        client.open()
        return client

    def create(self, topic: str) -> None:
        self.broker.create_topic(topic, PARTITIONS, BYTES_MAX)

    def delete(self, topic: str) -> None:
        self.broker.delete_topic(topic)

    def send(self, topic: str, partition: int, *values: bytes | None, key: bytes | None = None) -> None:
        for value in values:
            self.broker.append(topic, partition, key, value, round(self.time * 1000))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self.broker.delete_records(TopicPartition(topic, partition), before)

    def until(self, what: str, is_so: Callable[[], Any]) -> None:
        assert any(is_so() for _ in range(10)), what


@dataclass
class OnKafka:
    """A real broker, with names of the test's own."""

    settings: KafkaSettings
    stack: ExitStack
    clients: int = 0

    def name(self, topic: str) -> str:
        return f"{self.settings.prefix}-{topic}"

    def client(self, instance: str | None = None) -> KafkaClient:
        self.clients += 1
        client = KafkaClient(
            self.settings,
            GROUP,
            self.name("work"),
            TIMEOUT_S,
            self.name("beside"),
            instance or f"client-{self.clients}",
        )
        self.stack.enter_context(closing(client))
        client.open()
        return client

    def create(self, topic: str) -> None:
        new = NewTopicLayout(PARTITIONS, config={"max.message.bytes": str(BYTES_MAX)})
        with administering(self.settings) as admin:
            # A deleted topic has its name for a moment.
            until("its name is free", lambda: not admin.create({self.name(topic): new}))

    def delete(self, topic: str) -> None:
        delete_topic(self.settings, self.name(topic))

    def send(self, topic: str, partition: int, *values: bytes | None, key: bytes | None = None) -> None:
        send_records(
            self.settings, [OutgoingRecord(self.name(topic), partition, key, value) for value in values]
        )

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        with administering(self.settings) as admin:
            admin.delete_records({TopicPartition(self.name(topic), partition): before})

    def until(self, what: str, is_so: Callable[[], Any]) -> None:
        until(what, is_so)


@contextmanager
def on_kafka(settings: KafkaSettings) -> Iterator[OnKafka]:
    """A harness over a real broker; its clients are closed at the end."""
    with ExitStack() as stack:
        yield OnKafka(settings, stack)


def poll(harness: Harness, client: GroupClient, topic: str, count: int) -> list[ClientRecord]:
    """Poll until there are so many records of a topic, and return them."""
    found: list[ClientRecord] = []

    def are_enough() -> bool:
        found.extend(client.poll(harness.name(topic), 0.1, 100))
        return len(found) >= count

    harness.until(f"{count} records of {topic}", are_enough)
    return found


def join(harness: Harness, *clients: GroupClient) -> None:
    """Poll until the group has divided its topic among these clients."""

    def are_divided() -> bool:
        for client in clients:
            client.poll(client.topic, 0.1, 1)
        owned = [client.assignment.owned for client in clients if client.assignment.is_complete]
        return len(owned) == len(clients) and sum(map(len, owned)) == PARTITIONS

    harness.until("the group has divided its topic", are_divided)
