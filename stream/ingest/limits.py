"""What the receivers take at most, and how much of it is taken."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from ...schemas.otlp.framing import REQUEST_RATIO_MAX
from .rejections import Reason, Refused


@dataclass(frozen=True, slots=True)
class ReceiverLimits:
    """Limits of the receivers; sizes in bytes.

    Twenty mebibytes a request is what OTLP's specification recommends, packed and unpacked.
    """

    packed_bytes_max: int = 20 << 20
    """Of one request as it is sent."""
    unpacked_bytes_max: int = 20 << 20
    """Of one request after decompression."""
    ratio_max: int = REQUEST_RATIO_MAX
    """How many times its own size a request may unpack to."""
    requests_max: int = 64
    """Requests that are read, decoded or written at once."""
    bytes_max: int = 128 << 20
    """Of all these requests together."""
    decoders_max: int = 2
    """Requests that are unpacked and decoded at once: decoded, one takes many times its size."""
    inline_bytes_max: int = 32 << 10
    """Of a request that is decoded where it arrives; what is larger is decoded in a thread."""
    read_timeout_s: float = 30.0
    """How long a sender may take for a request, in seconds."""
    stall_s: float = 10.0
    """How long a sender over HTTP may take for `stall_bytes` of it, or for its end, in seconds."""
    stall_bytes: int = 16 << 10
    """Of a body: a sender that brought so much since it was looked at is not slow."""
    yield_s: float = 0.5
    """How long a sender may be slow before it yields its place where another needs it, in seconds."""
    retry_s: float = 1.0
    """When a sender may come again that was sent away for `requests_max` or `bytes_max`, or for a fault."""


class Admission:
    """What one request takes of a `AdmissionControl`; `peer` is who sends it."""

    def __init__(self, room: AdmissionControl, peer: str) -> None:
        self._room = room
        self._timeout: asyncio.Timeout | None = None
        self._until = self._stall_s = 0.0
        self._marked_size = 0
        self.peer = peer
        self.size = 0
        self.marked = 0.0
        self.has_yielded = False

    def hold(self, size: int) -> None:
        """Take that many bytes more. Raises Refused where they are too many for all requests together."""
        self._room.make_bytes(size, self)
        self.size += size
        if self._timeout is not None and self.size - self._marked_size >= self._room.limits.stall_bytes:
            self._mark(self._timeout)

    @asynccontextmanager
    async def reading(self, stall_s: float) -> AsyncGenerator[None]:
        """Read a body in time: its next bytes within `stall_s`, and all within `read_timeout_s`.

        Raises Refused where it takes longer, or had to yield to another request meanwhile.
        """
        now = self._room.clock()
        self._until = now + self._room.limits.read_timeout_s
        self._stall_s, self.marked, self._marked_size = stall_s, now, self.size
        try:
            async with asyncio.timeout(min(stall_s, self._room.limits.read_timeout_s)) as self._timeout:
                yield
        except TimeoutError:
            if not self.has_yielded:
                raise Refused(Reason.SLOW, "the body did not come in time") from None
        finally:
            self._timeout = None
        if self.has_yielded:
            raise self._room.yielded()

    def is_reading(self) -> bool:
        """Return whether the body is still read."""
        return self._timeout is not None

    def is_slow(self, now: float) -> bool:
        """Return whether the body is still read, and little of it came for a while."""
        return self.is_reading() and now - self.marked >= self._room.limits.yield_s

    def give_up(self) -> None:
        """Yield to another request: the reader is woken, and told to send its sender away."""
        self.has_yielded = True
        timeout, self._timeout = self._timeout, None
        if timeout is not None and not timeout.expired():
            timeout.reschedule(0.0)

    def _mark(self, timeout: asyncio.Timeout) -> None:
        self.marked, self._marked_size = self._room.clock(), self.size
        if not timeout.expired():
            left_s = min(self._stall_s, self._until - self.marked)
            timeout.reschedule(asyncio.get_running_loop().time() + left_s)


class AdmissionControl:
    """The requests that are in work, over all receivers; for one event loop."""

    def __init__(self, limits: ReceiverLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self.size = 0
        self._is_closed = False
        self._places: dict[Admission, None] = {}

    @property
    def requests(self) -> int:
        """Return how many there are."""
        return len(self._places)

    @contextmanager
    def admit(self, peer: str) -> Generator[Admission]:
        """A place for a request of that peer while it is in work.

        Where there is none left a slow sender yields its own. Raises Refused where none is slow.
        """
        if self._is_closed:
            raise self.yielded()
        if self.requests >= self.limits.requests_max and not self._reclaim():
            raise self.crowded("too many requests are in work")
        place = Admission(self, peer)
        self._places[place] = None
        try:
            yield place
        finally:
            self._leave(place)

    def make_bytes(self, size: int, place: Admission) -> None:
        """Take so many bytes for a place; slow senders yield theirs. Raises Refused where none is slow."""
        if place.has_yielded:
            raise self.yielded()
        while self.size + size > self.limits.bytes_max:
            if not self._reclaim(place):
                raise self.crowded("too many bytes are in work")
        self.size += size

    def close(self) -> None:
        """Refuse all requests from now on, and those whose body is still read; the process ends."""
        self._is_closed = True
        for place in [place for place in self._places if place.is_reading()]:
            self._take(place)

    def yielded(self) -> Refused:
        """Return the refusal of a request that lost its place; its sender may come again."""
        if self._is_closed:
            return Refused(Reason.STOPPING, "the process ends", self.limits.retry_s)
        return self.crowded("the body came too slowly while others waited")

    def crowded(self, text: str) -> Refused:
        """Return the refusal of a request for the sake of others; its sender may come again."""
        return Refused(Reason.CROWDED, text, self.limits.retry_s)

    def _reclaim(self, besides: Admission | None = None) -> bool:
        """Take the place of the slow sender with most places, whose body stands still for longest."""
        now = self.clock()
        slow = [place for place in self._places if place is not besides and place.is_slow(now)]
        if not slow:
            return False
        of_peer = Counter(place.peer for place in self._places)
        slowest = min(slow, key=lambda place: (-of_peer[place.peer], place.marked))
        self._take(slowest)
        return True

    def _take(self, place: Admission) -> None:
        place.give_up()
        self._leave(place)

    def _leave(self, place: Admission) -> None:
        if place in self._places:
            del self._places[place]
            self.size -= place.size
