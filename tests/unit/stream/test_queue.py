"""The queue between Kafka's client and the judging: order, gaps, generations, and room."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from tracline.stream.error import StreamError
from tracline.stream.kafka.faust.queue import QUEUED_BYTES_MAX, QUEUED_MESSAGES_MAX, MessageQueue


@dataclass(frozen=True)
class Message:
    """The fields of a message that a queue reads."""

    offset: int
    generation_id: int = 2
    partition: int = 0
    value: bytes | None = b"message"


async def offsets(queue: MessageQueue) -> list[int]:
    """Return the offsets of the messages in a queue."""
    return [message.offset for message in await asyncio.wait_for(queue.take(), 5)]


def test_messages_come_in_their_order_with_the_gaps_of_transactions() -> None:
    """Each follows the one before it, whatever lies between; a repeated one is left out."""

    async def run() -> list[int]:
        queue = MessageQueue(2, {0: 4})
        for offset, before in ((6, 4), (7, 6), (6, 4), (9, 7)):
            await queue.offer(Message(offset), before)
        return await offsets(queue)

    assert asyncio.run(run()) == [6, 7, 9]


def test_partitions_share_a_queue() -> None:
    """Messages of all partitions are taken together, each partition by its own offsets."""

    async def run() -> list[tuple[int, int]]:
        queue = MessageQueue(2, {0: -1, 1: 4})
        await queue.offer(Message(0), -1)
        await queue.offer(Message(5, partition=1), 4)
        await queue.offer(Message(1), 0)
        return [(message.partition, message.offset) for message in await queue.take()]

    assert asyncio.run(run()) == [(0, 0), (1, 5), (0, 1)]


@pytest.mark.parametrize(
    ("message", "before"),
    [(Message(6, generation_id=1), 4), (Message(6), None), (Message(6, partition=3), 4)],
    ids=["another generation", "no offset before", "not assigned"],
)
def test_messages_of_another_assignment_are_left_out(message: Message, before: int | None) -> None:
    """Messages read before the partition was assigned, or before reading began again, are read again."""

    async def run() -> list[int]:
        queue = MessageQueue(2, {0: 4})
        await queue.offer(message, before)
        await queue.offer(Message(5), 4)
        return await offsets(queue)

    assert asyncio.run(run()) == [5]


def test_a_message_whose_predecessor_never_came_is_an_error() -> None:
    """Kafka's client has lost one: to go on would leave it out for good."""

    async def run() -> None:
        await MessageQueue(2, {0: 4}).offer(Message(9), 7)

    with pytest.raises(StreamError, match="lost messages of partition 0 behind 4") as caught:
        asyncio.run(run())
    assert caught.value.code == "TRL747"


@pytest.mark.parametrize(
    ("value", "room"), [(b"", QUEUED_MESSAGES_MAX), (bytes(QUEUED_BYTES_MAX // 2), 2)], ids=["count", "bytes"]
)
def test_a_full_queue_makes_its_senders_wait(value: bytes, room: int) -> None:
    """A sender waits until messages were taken; then its message is in the queue."""

    async def run() -> tuple[int, int]:
        queue = MessageQueue(2, {0: -1})
        for offset in range(room):
            await asyncio.wait_for(queue.offer(Message(offset, value=value), offset - 1), 5)
        blocked = asyncio.create_task(queue.offer(Message(room, value=value), room - 1))
        await asyncio.sleep(0)
        first = len(await queue.take())
        await asyncio.wait_for(blocked, 5)
        return first, len(await queue.take())

    assert asyncio.run(run()) == (room, 1)


def test_a_large_message_waits_alone() -> None:
    """A message above the limit is taken into an empty queue."""

    async def run() -> list[int]:
        queue = MessageQueue(2, {0: -1})
        await asyncio.wait_for(queue.offer(Message(0, value=bytes(QUEUED_BYTES_MAX + 1)), -1), 5)
        return await offsets(queue)

    assert asyncio.run(run()) == [0]


def test_a_queue_that_closes_drops_its_messages_and_frees_senders_and_takers() -> None:
    """The waiting messages are the next owner's; who waits goes on."""

    async def run() -> list[object]:
        queue = MessageQueue(2, {0: -1})
        for offset in range(QUEUED_MESSAGES_MAX):
            await queue.offer(Message(offset), offset - 1)
        blocked = asyncio.create_task(queue.offer(Message(QUEUED_MESSAGES_MAX), QUEUED_MESSAGES_MAX - 1))
        await asyncio.sleep(0)
        await asyncio.wait_for(queue.close(), 5)
        await asyncio.wait_for(blocked, 5)
        await queue.offer(Message(QUEUED_MESSAGES_MAX + 1), QUEUED_MESSAGES_MAX)
        return await asyncio.wait_for(queue.take(), 5)

    assert asyncio.run(run()) == []
