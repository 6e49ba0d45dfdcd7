"""The topics that the monitor stands on, and whether they are those that its state is of."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import KafkaTimeoutError  # pyright: ignore[reportMissingTypeStubs]
from faust.types import TP
from kafka.errors import KafkaError

from ...error import StreamError
from ...group.client import Loss
from ..topic_checks import TopicChecks

MARKS = 1
"""Offsets that may be no messages: the mark of the last transaction has one, too."""
RETRY_S = 1.0
"""How long to wait before Kafka is asked again."""


@dataclass(frozen=True, slots=True)
class MonitorTopics:
    """The names of the topic of events and of the state's changelog; partitions and replicas of each.

    `events_id` is the id of the topic of events.
    """

    events: str
    events_id: str
    changelog: str
    partitions: int
    replicas: int


async def where_to_go_on(ground: MonitorTopics, consumer: Any, offsets: Mapping[int, int]) -> dict[int, int]:
    """Return where to go on in each partition: behind what was judged, and behind what Kafka has deleted.

    `offsets` are those of the last events that were judged of each partition. Raises StreamError (TRL744)
    where the topic has another number of partitions.
    """
    events = {number: TP(ground.events, number) for number in offsets}
    begins: Mapping[TP, int] = await consumer.earliest_offsets(*events.values()) if events else {}
    if (found := consumer.topic_partitions(ground.events)) not in (None, ground.partitions):
        raise uneven(ground.events, found, ground.partitions)
    return {number: max(done + 1, begins.get(events[number], 0)) for number, done in offsets.items()}


async def check_state(
    ground: MonitorTopics,
    checks: TopicChecks,
    ids: Collection[str],
    offsets: Mapping[int, int],
    applied: Mapping[int, int],
) -> None:
    """Raise StreamError (TRL744) where the topics are not those that the state is of.

    `ids` are those of the topic of events that the state names, `offsets` those of the last events that were
    judged of each partition, `applied` up to where the state on disk holds the changelog.
    """
    if set(ids) - {ground.events_id}:
        raise lost_events(Loss(f"{ground.events} was deleted and created again", is_recreated=True))
    judged = {number: offset + 1 for number, offset in offsets.items()}
    if (loss := await check(checks, ground.events, judged)) is not None:
        raise lost_events(loss)
    held = {number: offset + 1 for number, offset in applied.items()}
    if held and (loss := await check(checks, ground.changelog, held)) is not None:
        hint = "the state on disk is of another topic: delete the folder of --data, or choose another"
        raise StreamError("TRL744", loss.what, hint)


async def check(checks: TopicChecks, topic: str, read: Mapping[int, int]) -> Loss | None:
    """Do as `TopicChecks.find_loss`, beside other work; wait for Kafka where it does not answer."""
    while True:
        try:
            return await asyncio.to_thread(checks.find_loss, topic, read)
        except KafkaError:
            await asyncio.sleep(RETRY_S)


async def deleted(consumer: Any, place: TP, expected: int, found: int) -> int:
    """How many messages of a partition Kafka may have deleted before the one that was found at an offset.

    All that came before `expected` is done with. What is left out otherwise are the marks of transactions,
    and what was aborted. Waits for Kafka where it does not answer.
    """
    if found - expected <= MARKS:
        return 0
    while True:
        try:
            begins: Mapping[TP, int] = await consumer.earliest_offsets(place)
        except KafkaTimeoutError:
            continue
        return max(0, min(begins[place], found) - expected)


def lost_events(loss: Loss) -> StreamError:
    """The error (TRL744) that the topic of events is not the one that was judged."""
    hint = "the state and the topics behind it are of the old one: choose another prefix"
    if not loss.is_recreated:
        hint = f"nothing is changed: start again once all brokers are back. Else {hint}"
    return StreamError("TRL744", loss.what, hint)


def uneven(name: str, found: int, kept: int) -> StreamError:
    """The error (TRL744) that a topic has other partitions than the state that is kept of it."""
    what = f"{name} has {found} partitions, and the state that is kept of it {kept}"
    hint = "sessions would change their partition: begin with new topics and a new state"
    return StreamError("TRL744", what, hint)
