"""The queue between the receivers' event loop and the pipeline's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ingest.request import Busy, ExportRequest

QUEUE_BYTES_MAX = 64 << 20
"""Bytes of queued requests; the senders of further ones are asked to retry."""
DISK_FREE_BYTES_MIN = 256 << 20
"""Free bytes of the store's disk below which no request is accepted."""
RETRY_DISK_S = 30.0
RETRY_QUEUE_S = 1.0
RETRY_STOPPING_S = 5.0
"""Retry delays, in seconds; by the last one another process may have started."""


@dataclass(slots=True)
class Arrival:
    """A queued request, and the future that its receiver awaits."""

    request: ExportRequest
    done: asyncio.Future[None]

    def settle(self, error: Busy | None = None) -> None:
        """Let the receiver answer: with an acknowledgement, or with the error. Only the first call counts."""

        def settle() -> None:
            if self.done.done():
                return
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(error)

        self.done.get_loop().call_soon_threadsafe(settle)


class RequestQueue:
    """Requests that wait for the pipeline's next round; `put` runs in an event loop."""

    def __init__(self, free_bytes: Callable[[], int]) -> None:
        self._free_bytes = free_bytes
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._arrivals: list[Arrival] = []
        self._size = 0
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Return whether the queue accepts no more requests."""
        with self._lock:
            return self._is_closed

    async def put(self, request: ExportRequest) -> None:
        """Return once the request is on disk. Raises Busy where it is not."""
        if not self._has_disk():
            raise Busy("disk", RETRY_DISK_S)
        arrival = Arrival(request, asyncio.get_running_loop().create_future())
        with self._lock:
            if self._is_closed:
                raise Busy("stopping", RETRY_STOPPING_S)
            if self._size > QUEUE_BYTES_MAX:
                raise Busy("queue", RETRY_QUEUE_S)
            self._arrivals.append(arrival)
            self._size += len(request.body)
        self._changed.set()
        await arrival.done

    def wait(self, seconds: float) -> None:
        """Return when a request comes, when the queue is closed, or after so many seconds."""
        self._changed.wait(seconds)

    def take(self) -> list[Arrival]:
        """Return the queued requests, and empty the queue."""
        with self._lock:
            arrivals, self._arrivals, self._size = self._arrivals, [], 0
            if not self._is_closed:
                self._changed.clear()
        return arrivals

    def close(self) -> None:
        """Accept no more requests."""
        with self._lock:
            self._is_closed = True
        self._changed.set()

    def _has_disk(self) -> bool:
        try:
            return self._free_bytes() >= DISK_FREE_BYTES_MIN
        except OSError:
            return False  # The folder is gone.


def refuse(arrivals: Sequence[Arrival], busy: Busy) -> None:
    """Refuse requests that have no answer yet."""
    for arrival in arrivals:
        arrival.settle(busy)
