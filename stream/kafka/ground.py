"""The topics that the monitor stands on, and whether they are those that its state is of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import KafkaTimeoutError  # pyright: ignore[reportMissingTypeStubs]
from faust.types import TP

from ..error import StreamError

MARKS = 1
"""Offsets that may be no messages: the mark of the last transaction has one, too."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The names of the topic of events and of the state's changelog; partitions and replicas of each."""

    events: str
    changelog: str
    partitions: int
    replicas: int


async def looked_at(
    ground: Ground, consumer: Any, offsets: Mapping[int, int], applied: Mapping[int, int]
) -> dict[int, int]:
    """Where to go on in each partition: behind what was judged, and behind what Kafka has deleted.

    `offsets` are those of the last events that were judged of each partition, `applied` up to where the
    state here has its changelog. Raises StreamError (TRL744) where the topics end before that.
    """
    going_on: dict[int, int] = {}
    events = {number: TP(ground.events, number) for number in offsets}
    begins: Mapping[TP, int] = await consumer.earliest_offsets(*events.values()) if events else {}
    for number, end in (await _ends(consumer, ground.events, offsets)).items():
        done = offsets[number] + 1
        if end < done:
            raise made_anew(f"{ground.events} partition {number} ends at {end}")
        going_on[number] = max(done, begins.get(events[number], 0))
    for number, end in (await _ends(consumer, ground.changelog, applied)).items():
        if end <= applied[number]:
            what = f"{ground.changelog} partition {number} ends at {end}, before the state on disk"
            hint = "the state is of another topic: delete the folder of --data, or choose another"
            raise StreamError("TRL744", what, hint)
    if (found := consumer.topic_partitions(ground.events)) not in (None, ground.partitions):
        raise uneven(ground.events, found, ground.partitions)
    return going_on


async def _ends(consumer: Any, topic: str, numbers: Mapping[int, int]) -> dict[int, int]:
    """Where these partitions of a topic end."""
    places = [TP(topic, number) for number in numbers]
    ends: Mapping[TP, int | None] = await consumer.highwaters(*places) if places else {}
    return {place.partition: ends.get(place) or 0 for place in places}


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


def made_anew(what: str) -> StreamError:
    """The error (TRL744) that a topic of events is not the one that was judged."""
    hint = "it was made anew, and what comes behind it was not: choose another prefix"
    return StreamError("TRL744", f"{what}, before what was judged of it", hint)


def uneven(name: str, found: int, kept: int) -> StreamError:
    """The error (TRL744) that a topic has other partitions than the state that is kept of it."""
    what = f"{name} has {found} partitions, and the state that is kept of it {kept}"
    hint = "sessions would change their partition: begin with new topics and a new state"
    return StreamError("TRL744", what, hint)
