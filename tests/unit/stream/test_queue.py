"""The way of a partition's messages in the monitor, from Kafka's client to being judged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from tracline.stream.error import StreamError
from tracline.stream.kafka.faust.queue import LANE_MESSAGES, PartitionQueue


@dataclass(frozen=True)
class Message:
    """What a lane looks at in a message."""

    offset: int
    generation_id: int = 2
    partition: int = 0


def taken(lane: PartitionQueue) -> list[int]:
    """The offsets that wait in a lane."""
    found: list[int] = []
    while not lane.queue.empty():
        found.append(lane.queue.get_nowait().offset)
    return found


def test_messages_come_in_their_order_with_the_gaps_of_transactions() -> None:
    """Each follows the one before it, whatever lies between; one that came is not taken again."""

    async def hand() -> list[int]:
        lane = PartitionQueue(generation=2, last=4)
        for offset, before in ((6, 4), (7, 6), (6, 4), (9, 7)):
            await lane.offer(Message(offset), before)
        return taken(lane)

    assert asyncio.run(hand()) == [6, 7, 9]


@pytest.mark.parametrize(("message", "before"), [(Message(6, generation_id=1), 4), (Message(6), None)])
def test_messages_of_another_time_are_left_out(message: Message, before: int | None) -> None:
    """What was read before the partition was ours, or before reading began anew, is read again."""

    async def hand() -> list[int]:
        lane = PartitionQueue(generation=2, last=4)
        await lane.offer(message, before)
        return taken(lane)

    assert asyncio.run(hand()) == []


def test_a_message_whose_predecessor_never_came_is_not_taken() -> None:
    """Kafka's client has lost one: to go on would leave it out for good."""

    async def hand() -> None:
        lane = PartitionQueue(generation=2, last=4)
        await lane.offer(Message(9), 7)

    with pytest.raises(StreamError, match="lost messages of partition 0 behind 4") as caught:
        asyncio.run(hand())
    assert caught.value.code == "TRL747"


def test_a_full_lane_that_closes_lets_go_of_whoever_waits() -> None:
    """What is in hand is finished, what waits is dropped, and who was about to hand one over goes on."""

    async def close() -> list[int]:
        lane = PartitionQueue(generation=2, last=-1)
        done: list[int] = []
        started = asyncio.Event()

        async def drive() -> None:
            while (message := await lane.queue.get()) is not None:
                started.set()
                await asyncio.sleep(0)
                done.append(message.offset)

        lane.task = asyncio.create_task(drive())
        await lane.offer(Message(0), -1)
        await started.wait()
        for offset in range(1, LANE_MESSAGES + 1):
            lane.queue.put_nowait(Message(offset))
        blocked = asyncio.create_task(lane.offer(Message(LANE_MESSAGES + 1), 0))
        await asyncio.sleep(0)
        await asyncio.wait_for(lane.close(), 5)
        await asyncio.wait_for(blocked, 5)
        await lane.offer(Message(LANE_MESSAGES + 2), LANE_MESSAGES + 1)
        return done

    assert asyncio.run(close())[:1] == [0]
