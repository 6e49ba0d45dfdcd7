"""The queue between Kafka's client and the judging: the messages of a poll, in order, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...error import StreamError

QUEUED_MESSAGES_MAX = 512
"""Messages of all partitions that wait to be judged."""
QUEUED_BYTES_MAX = 24 << 20
"""Bytes of the messages that wait; a larger message waits alone.

They are judged together, in two seconds where the process has a core to itself.
"""


class MessageQueue:
    """The queue of all assigned partitions in one generation of the group.

    `last` has for each partition the offset of the last message that was offered, or the offset before the
    first one to judge.
    """

    def __init__(self, generation: int, last: Mapping[int, int]) -> None:
        self._generation, self._last = generation, dict(last)
        self._messages: list[Any] = []
        self._bytes = 0
        self._changed = asyncio.Condition()
        self._is_closed = False
        self.task: asyncio.Task[None] | None = None

    async def offer(self, message: Any, before: int | None) -> None:
        """Put a message into the queue, unless it is of another generation or came before; wait for room.

        `before` is the offset of the message before it; raises StreamError (TRL747) where that never came.
        """
        last = self._last.get(message.partition)
        if self._is_closed or message.generation_id != self._generation or last is None:
            return
        if before is None or message.offset <= last:
            return
        if before > last:
            problem = f"Kafka's client lost messages of partition {message.partition} behind {last}"
            raise StreamError("TRL747", problem, "no offset was committed for them: start it again")
        self._last[message.partition] = message.offset
        size = len(message.value or b"")
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_closed or self._has_room(size))
            if not self._is_closed:
                self._messages.append(message)
                self._bytes += size
                self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        is_small = len(self._messages) < QUEUED_MESSAGES_MAX and self._bytes + size <= QUEUED_BYTES_MAX
        return is_small or not self._messages

    async def take(self) -> list[Any]:
        """Return the messages in the queue once there are any; none once it is closed."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_closed or bool(self._messages))
            messages, self._messages, self._bytes = self._messages, [], 0
            self._changed.notify_all()
            return [] if self._is_closed else messages

    async def close(self) -> None:
        """Drop the messages in the queue, for the next owner, and wait for those that are being judged."""
        async with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self.task is not None:
            # Faust may cancel the callback of a rebalance that waits here when the process ends meanwhile.
            await asyncio.shield(self.task)
