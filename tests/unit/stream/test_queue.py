"""The way of a partition's messages in the monitor, from Kafka's client to being judged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from tracline.stream.error import StreamError
from tracline.stream.kafka.faust.queue import QUEUED_MESSAGES_MAX, PartitionQueue


@dataclass(frozen=True)
class Message:
    """The fields of a message that a queue reads."""

    offset: int
    generation_id: int = 2
    partition: int = 0


def taken(queue: PartitionQueue) -> list[int]:
    """The offsets that wait in a queue."""
    found: list[int] = []
    while not queue.messages.empty():
        found.append(queue.messages.get_nowait().offset)
    return found


def test_messages_come_in_their_order_with_the_gaps_of_transactions() -> None:
    """Each follows the one before it, whatever lies between; one that came is not taken again."""

    async def hand() -> list[int]:
        queue = PartitionQueue(generation=2, last=4)
        for offset, before in ((6, 4), (7, 6), (6, 4), (9, 7)):
            await queue.offer(Message(offset), before)
        return taken(queue)

    assert asyncio.run(hand()) == [6, 7, 9]


@pytest.mark.parametrize(("message", "before"), [(Message(6, generation_id=1), 4), (Message(6), None)])
def test_messages_of_another_time_are_left_out(message: Message, before: int | None) -> None:
    """Messages read before the partition was assigned, or before reading began again, are read again."""

    async def hand() -> list[int]:
        queue = PartitionQueue(generation=2, last=4)
        await queue.offer(message, before)
        return taken(queue)

    assert asyncio.run(hand()) == []


def test_a_message_whose_predecessor_never_came_is_not_taken() -> None:
    """Kafka's client has lost one: to go on would leave it out for good."""

    async def hand() -> None:
        queue = PartitionQueue(generation=2, last=4)
        await queue.offer(Message(9), 7)

    with pytest.raises(StreamError, match="lost messages of partition 0 behind 4") as caught:
        asyncio.run(hand())
    assert caught.value.code == "TRL747"


def test_a_full_queue_that_closes_frees_the_senders_that_wait() -> None:
    """The message in hand is finished, the waiting ones are dropped, and a sender that waited goes on."""

    async def close() -> list[int]:
        queue = PartitionQueue(generation=2, last=-1)
        done: list[int] = []
        started = asyncio.Event()

        async def drive() -> None:
            while (message := await queue.messages.get()) is not None:
                started.set()
                await asyncio.sleep(0)
                done.append(message.offset)

        queue.task = asyncio.create_task(drive())
        await queue.offer(Message(0), -1)
        await started.wait()
        for offset in range(1, QUEUED_MESSAGES_MAX + 1):
            queue.messages.put_nowait(Message(offset))
        blocked = asyncio.create_task(queue.offer(Message(QUEUED_MESSAGES_MAX + 1), 0))
        await asyncio.sleep(0)
        await asyncio.wait_for(queue.close(), 5)
        await asyncio.wait_for(blocked, 5)
        await queue.offer(Message(QUEUED_MESSAGES_MAX + 2), QUEUED_MESSAGES_MAX + 1)
        return done

    assert asyncio.run(close())[:1] == [0]
