"""The queue between Kafka's client and the judging of one partition: in order, each message once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ...error import StreamError

QUEUED_MESSAGES_MAX = 4
"""Messages of a partition that wait to be judged."""


@dataclass(slots=True)
class PartitionQueue:
    """The queue of one partition in one generation of the group; None in `messages` ends it.

    `last` is the offset of the last message that was offered, or the one before which all is judged.
    """

    generation: int
    last: int
    messages: asyncio.Queue[Any] = field(default_factory=lambda: asyncio.Queue(QUEUED_MESSAGES_MAX))
    task: asyncio.Task[None] | None = None
    is_closed: bool = False

    async def offer(self, message: Any, before: int | None) -> None:
        """Put a message into the queue, unless it is of another generation or came before.

        `before` is the offset of the message before it; raises StreamError (TRL747) where that never came.
        """
        if self.is_closed or message.generation_id != self.generation:
            return
        if before is None or message.offset <= self.last:
            return
        if before > self.last:
            what = f"Kafka's client lost messages of partition {message.partition} behind {self.last}"
            raise StreamError("TRL747", what, "no offset was committed for them: start it again")
        self.last = message.offset
        await self.messages.put(message)

    async def close(self) -> None:
        """Wait for the message that is being judged; drop the others, for the next owner."""
        self.is_closed = True
        self._drop()
        self.messages.put_nowait(None)
        if self.task is not None:
            await self.task
        # A blocked `offer` may go on.
        self._drop()

    def _drop(self) -> None:
        while not self.messages.empty():
            self.messages.get_nowait()
