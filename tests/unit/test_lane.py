"""The way of one partition's messages into the monitor: in order, each once, and none missing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from tracline.stream.error import StreamError
from tracline.stream.kafka.monitor import _Lane


@dataclass
class Message:
    """What Faust hands over, as far as it is looked at."""

    offset: int
    generation_id: int = 1
    partition: int = 0


def offered(*messages: tuple[Message, int | None], last: int = 5) -> list[int]:
    """The offsets that are handed on, of messages with the offset of the one before each."""

    async def offer() -> list[int]:
        lane = _Lane(1, last)
        for message, before in messages:
            await lane.offer(message, before)
        return [lane.queue.get_nowait().offset for _ in range(lane.queue.qsize())]

    return asyncio.run(offer())


def test_messages_are_handed_on_in_their_order() -> None:
    """Gaps between offsets are marks of transactions: what counts is which message came before."""
    assert offered((Message(6), 5), (Message(9), 6)) == [6, 9]


def test_what_was_done_or_is_of_another_time_is_left_alone() -> None:
    """A message that was judged, or was read before the partition was ours, is not judged again."""
    assert offered((Message(5), 4), (Message(7, generation_id=2), 5), (Message(6), 5)) == [6]


def test_a_message_that_never_came_ends_the_process() -> None:
    """Going on without it would lose what it tells: the process must start again from what is done."""
    with pytest.raises(StreamError) as caught:
        offered((Message(6), 5), (Message(9), 8))
    assert caught.value.code == "TRL747"
