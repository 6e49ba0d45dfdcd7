"""A consumer of the monitor stays in its group."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError
from faust.types import TP
from tracline.stream.kafka.faust.membership import refusal_of, stay
from tracline.stream.kafka.faust.transport import sought
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.processes.stage import TIMEOUT_S, WAIT_S

pytestmark = pytest.mark.slow


IDLE_S = 1.0


def test_who_waits_long_for_a_partition_takes_over(topics: KafkaSettings) -> None:
    """A consumer without partitions stays in the group for longer than one may be that hangs."""
    asyncio.run(asyncio.wait_for(take_over(topics), WAIT_S))


async def take_over(kafka: KafkaSettings) -> None:
    """Of two consumers of one partition the one that has it reads, and ends after a while."""
    assigned = asyncio.Event()
    consumers = [consumer_of(kafka, assigned), consumer_of(kafka, assigned)]
    for consumer in consumers:
        await consumer.start()
        stay(consumer)
    limit = time.monotonic() + 4 * IDLE_S
    while time.monotonic() < limit:
        at_work = await reader_of(consumers, assigned)
    waiting = next(consumer for consumer in consumers if consumer is not at_work)
    assert not waiting.assignment()
    await at_work.stop()
    assert await reader_of([waiting], assigned) is waiting
    await waiting.stop()


def test_a_consumer_that_goes_on_without_its_group_is_known(
    topics: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the task that keeps it in the group is reported: nothing else shows it."""
    asyncio.run(asyncio.wait_for(go_on_without(topics, monkeypatch), WAIT_S))


async def go_on_without(kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that breaks when it is to join again."""

    async def breaks() -> None:
        raise ZeroDivisionError

    assigned = asyncio.Event()
    consumer = consumer_of(kafka, assigned)
    assert refusal_of(consumer) is None
    await consumer.start()
    await reader_of([consumer], assigned)
    assert refusal_of(consumer) is None
    coordinator = consumer._coordinator
    with monkeypatch.context() as broken:
        broken.setattr(coordinator, "ensure_coordinator_known", breaks)
        coordinator.request_rejoin()
        await asyncio.wait([coordinator._coordination_task])
        assert isinstance(refusal_of(consumer), KafkaError)
    with suppress(KafkaError):
        await consumer.stop()


def test_partitions_may_move_while_they_are_sought(topics: KafkaSettings) -> None:
    """To go on with those that have moved is no error; any other refusal of a seek is one."""
    asyncio.run(asyncio.wait_for(seek(topics), WAIT_S))


async def seek(kafka: KafkaSettings) -> None:
    """A consumer looks for its place in a partition that it has not, and then in its own."""

    async def look_for(place: TP) -> None:
        consumer.seek(place, 0)
        if consumer.assignment() == {place}:
            raise IllegalStateError

    assigned = asyncio.Event()
    consumer = consumer_of(kafka, assigned)
    await consumer.start()
    await reader_of([consumer], assigned)
    gone, here = TP(kafka.topic(Topic.EVENTS), 0), TP(kafka.topic(Topic.ALERTS), 0)
    await sought(look_for(gone), consumer, [gone])
    with pytest.raises(IllegalStateError):
        await sought(look_for(here), consumer, [here])
    await consumer.stop()


async def reader_of(consumers: list[AIOKafkaConsumer], assigned: asyncio.Event) -> AIOKafkaConsumer:
    """Return the consumer that has the partition, once it has read from it."""
    while not (having := [consumer for consumer in consumers if consumer.assignment()]):
        assigned.clear()
        await assigned.wait()
    await having[0].getmany(timeout_ms=100)
    return having[0]


class Assigned(ConsumerRebalanceListener):
    """A listener that sets an event when its consumer's partitions are assigned."""

    def __init__(self, assigned: asyncio.Event) -> None:
        self._assigned = assigned

    async def on_partitions_revoked(self, _partitions: list[TopicPartition]) -> None:
        """Do nothing."""

    async def on_partitions_assigned(self, _partitions: list[TopicPartition]) -> None:
        """Set the event."""
        self._assigned.set()


def consumer_of(kafka: KafkaSettings, assigned: asyncio.Event) -> AIOKafkaConsumer:
    """Return a consumer of a topic of one partition, which the client takes to hang if it does not read."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=list(kafka.bootstrap_servers),
        group_id=kafka.group("test"),
        session_timeout_ms=round(float(TIMEOUT_S) * 1000),
        heartbeat_interval_ms=200,
        max_poll_interval_ms=round(IDLE_S * 1000),
    )
    consumer.subscribe([kafka.topic(Topic.ALERTS)], listener=Assigned(assigned))
    return consumer
