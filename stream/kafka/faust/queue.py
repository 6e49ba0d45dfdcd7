"""The way of one partition's messages, from Kafka's client to being judged: in their order, each once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ...error import StreamError

LANE_MESSAGES = 4
"""Messages of a partition that wait to be judged."""


@dataclass(slots=True)
class PartitionQueue:
    """The way of one partition's messages while it is ours, in one generation of the group; None ends it.

    `last` is the offset of the message that was handed over last, or the one before which all is done.
    """

    generation: int
    last: int
    queue: asyncio.Queue[Any] = field(default_factory=lambda: asyncio.Queue(LANE_MESSAGES))
    task: asyncio.Task[None] | None = None
    is_closed: bool = False

    async def offer(self, message: Any, before: int | None) -> None:
        """Hand a message over, unless it is of another generation or came before.

        `before` is the offset of the message before it; raises StreamError (TRL747) where that never came.
        """
        if self.is_closed or message.generation_id != self.generation:
            return
        if before is None or message.offset <= self.last:
            return
        if before > self.last:
            what = f"Kafka's client lost messages of partition {message.partition} behind {self.last}"
            raise StreamError("TRL747", what, "nothing was told as done: start it again")
        self.last = message.offset
        await self.queue.put(message)

    async def close(self) -> None:
        """Return once the message in hand is done with; those that wait are left to whoever comes next."""
        self.is_closed = True
        self._drop()
        self.queue.put_nowait(None)
        if self.task is not None:
            await self.task
        # Whoever was about to hand one over may go on.
        self._drop()

    def _drop(self) -> None:
        while not self.queue.empty():
            self.queue.get_nowait()
