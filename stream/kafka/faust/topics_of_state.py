"""The topic of events and the changelog: their partitions, and the checks that they match the state."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import KafkaTimeoutError  # pyright: ignore[reportMissingTypeStubs]
from faust.types import TP

from ...error import StreamError
from ...group.broker_errors import KafkaError
from ...group.changed_topics import Loss
from ...messages.topics import Topic
from ..librdkafka.admin import Admin
from ..settings import KafkaSettings
from ..topic_checks import require
from ..topic_identity import TopicIdentities
from ..topics import look

MARKS = 1
"""Offsets without a message: the marker of the last transaction has an offset, too."""
RETRY_S = 1.0
"""Seconds before a request that Kafka did not answer is sent again."""


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


def monitor_topics(admin: Admin, kafka: KafkaSettings, sends: Iterable[Topic]) -> MonitorTopics:
    """Return the topics of a monitor that writes to `sends`. Raises StreamError (TRL724, TRL744)."""
    found, written = look(admin, kafka), frozenset(sends)
    require(found, kafka, Topic.EVENTS, *written)
    if Topic.RISK in written - found.keys():
        hint = "make it with: tracline stream topics --create"
        raise StreamError("TRL724", f"{kafka.topic(Topic.RISK)} is missing", hint)
    name, events = kafka.topic(Topic.EVENTS), found[Topic.EVENTS]
    changelog = f"{kafka.group('monitor')}-state-changelog"
    stored = admin.topics().get(changelog)
    if stored is not None and stored.partitions != events.partitions:
        raise uneven(name, events.partitions, stored.partitions)
    return MonitorTopics(name, admin.topic_id(name), changelog, events.partitions, events.replicas)


async def where_to_go_on(topics: MonitorTopics, consumer: Any, offsets: Mapping[int, int]) -> dict[int, int]:
    """Return the next offset of each partition: behind the last judged message, and behind deleted ones.

    `offsets` are those of the last judged messages. Raises StreamError (TRL744) where the topic has another
    number of partitions.
    """
    events = {number: TP(topics.events, number) for number in offsets}
    begins: Mapping[TP, int] = await consumer.earliest_offsets(*events.values()) if events else {}
    if (found := consumer.topic_partitions(topics.events)) not in (None, topics.partitions):
        raise uneven(topics.events, found, topics.partitions)
    return {number: max(done + 1, begins.get(events[number], 0)) for number, done in offsets.items()}


async def check_state(
    topics: MonitorTopics,
    checks: TopicIdentities,
    ids: Collection[str],
    offsets: Mapping[int, int],
    applied: Mapping[int, int],
) -> None:
    """Raise StreamError (TRL744) where the topics are not those of the state.

    `ids` are the ids of the topic of events in the state, `offsets` those of the last judged messages, and
    `applied` the last offsets of the changelog that the stores on disk have.
    """
    if set(ids) - {topics.events_id}:
        raise lost_events(Loss(f"{topics.events} was deleted and created again", is_recreated=True))
    judged = {number: offset + 1 for number, offset in offsets.items()}
    if (loss := await check(checks, topics.events, judged)) is not None:
        raise lost_events(loss)
    read = {number: offset + 1 for number, offset in applied.items()}
    if read and (loss := await check(checks, topics.changelog, read)) is not None:
        hint = "the state on disk is of another topic: delete the folder of --data, or choose another"
        raise StreamError("TRL744", loss.what, hint)


async def check(checks: TopicIdentities, topic: str, read: Mapping[int, int]) -> Loss | None:
    """Return what `find_loss` of the identities finds, from a thread; wait for Kafka while it is away."""
    while True:
        try:
            return await asyncio.to_thread(checks.find_loss, topic, read)
        except KafkaError:
            await asyncio.sleep(RETRY_S)


async def deleted(consumer: Any, place: TP, expected: int, found: int) -> int:
    """Return how many messages from the offset `expected` to `found` Kafka may have deleted.

    The other offsets without a message are those of transactions: of their markers, and of aborted records.
    Waits for Kafka where it does not answer.
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
    """Return the error (TRL744) that the topic of events is not the one that was judged."""
    hint = "the state and the topics behind it are of the old one: choose another prefix"
    if not loss.is_recreated:
        hint = f"nothing is changed: start again once all brokers are back. Else {hint}"
    return StreamError("TRL744", loss.what, hint)


def uneven(name: str, found: int, stored: int) -> StreamError:
    """Return the error (TRL744) that a topic has another number of partitions than its state."""
    problem = f"{name} has {found} partitions, and its state {stored}"
    hint = "sessions would change their partition: begin with new topics and a new state"
    return StreamError("TRL744", problem, hint)
