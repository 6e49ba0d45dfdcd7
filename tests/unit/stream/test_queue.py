"""The queue of the monitor's messages, from Kafka's client to being judged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from tracline.stream.error import StreamError
from tracline.stream.kafka.faust.queue import QUEUED_BYTES_MAX, QUEUED_MESSAGES_MAX, MessageQueue


@dataclass(frozen=True)
class Message:
    """The part of a message that a queue reads."""

    offset: int
    generation_id: int = 2
    partition: int = 0
    value: bytes | None = b""


async def offered(*messages: tuple[Message, int | None]) -> list[int]:
    """Return the offsets that a queue has of these messages, each with the offset before it."""
    queue = MessageQueue(2, {0: 4, 1: 9})
    await queue.offer(Message(5), 4)
    for message, before in messages:
        await queue.offer(message, before)
    return [message.offset for message in await queue.take()]


def test_messages_come_in_their_order_with_the_gaps_of_transactions() -> None:
    """Each follows the one before it, with the gaps between them; a repeated one is dropped."""
    found = offered(
        (Message(6), 5), (Message(7), 6), (Message(6), 5), (Message(10, partition=1), 9), (Message(9), 7)
    )
    assert asyncio.run(found) == [5, 6, 7, 10, 9]


@pytest.mark.parametrize(
    ("message", "before"),
    [(Message(6, generation_id=1), 5), (Message(6), None), (Message(6, partition=2), 5)],
    ids=["other generation", "before a seek", "other partition"],
)
def test_messages_of_another_assignment_are_left_out(message: Message, before: int | None) -> None:
    """The client reads a message again that it read before the assignment or before a seek."""
    assert asyncio.run(offered((message, before))) == [5]


def test_a_message_whose_predecessor_never_came_is_not_taken() -> None:
    """Kafka's client has lost a message: continuing would leave it out for good."""
    with pytest.raises(StreamError, match="lost messages of partition 0 behind 5") as caught:
        asyncio.run(offered((Message(9), 7)))
    assert caught.value.code == "TRL747"


@pytest.mark.parametrize(
    ("values", "taken"),
    [
        ([b""] * (QUEUED_MESSAGES_MAX + 1), QUEUED_MESSAGES_MAX),
        ([bytes(QUEUED_BYTES_MAX // 2 + 1)] * 2, 1),
        ([bytes(2 * QUEUED_BYTES_MAX), b""], 1),
    ],
    ids=["messages", "bytes", "one large message"],
)
def test_a_full_queue_waits_until_its_messages_are_taken(values: list[bytes], taken: int) -> None:
    """Number and bytes are limited; the message that does not fit comes with the next poll."""

    async def polls() -> list[int]:
        queue = MessageQueue(2, {0: -1})

        async def offer() -> None:
            for offset, value in enumerate(values):
                await queue.offer(Message(offset, value=value), offset - 1)

        offering = asyncio.create_task(offer())
        await asyncio.sleep(0)
        first = await queue.take()
        await offering
        return [len(first), len(await queue.take())]

    assert asyncio.run(polls()) == [taken, 1]


def test_a_queue_that_closes_waits_for_its_task_and_releases_a_blocked_offer() -> None:
    """The task finishes the messages in hand; those that wait are dropped, and so is the blocked one."""

    async def close() -> list[int]:
        queue = MessageQueue(2, {0: -1})
        done: list[int] = []
        started, going_on = asyncio.Event(), asyncio.Event()

        async def drive() -> None:
            while messages := await queue.take():
                started.set()
                await going_on.wait()
                done.extend(message.offset for message in messages)

        queue.task = asyncio.create_task(drive())
        await queue.offer(Message(0), -1)
        await started.wait()
        for offset in range(1, QUEUED_MESSAGES_MAX + 1):
            await queue.offer(Message(offset), offset - 1)
        blocked = asyncio.create_task(queue.offer(Message(QUEUED_MESSAGES_MAX + 1), QUEUED_MESSAGES_MAX))
        closing = asyncio.create_task(queue.close())
        await asyncio.sleep(0)
        going_on.set()
        await asyncio.wait_for(closing, 5)
        await asyncio.wait_for(blocked, 5)
        await queue.offer(Message(QUEUED_MESSAGES_MAX + 2), QUEUED_MESSAGES_MAX + 1)
        return done

    assert asyncio.run(close()) == [0]
