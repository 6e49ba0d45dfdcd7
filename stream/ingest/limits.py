"""Limits of the receivers, and admission control over concurrent requests."""

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

    OTLP's specification recommends 20 MiB a request, before and after decompression.
    """

    packed_bytes_max: int = 20 << 20
    """Of one request before decompression."""
    unpacked_bytes_max: int = 20 << 20
    """Of one request after decompression."""
    ratio_max: int = REQUEST_RATIO_MAX
    """The greatest ratio of a request's size after decompression to that before."""
    requests_max: int = 64
    """Concurrent requests: read, decoded or written."""
    bytes_max: int = 128 << 20
    """Of all concurrent requests together."""
    decoders_max: int = 2
    """Requests decoded at the same time: a decoded request takes many times its size."""
    inline_bytes_max: int = 32 << 10
    """Of a request that is decoded in the event loop; a larger one is decoded in a thread."""
    read_timeout_s: float = 30.0
    """Seconds that a sender may take for a request."""
    stall_s: float = 10.0
    """Seconds that a sender over HTTP may take for `stall_bytes` of a body, or for its end."""
    stall_bytes: int = 16 << 10
    """Bytes of a body that count as progress."""
    yield_s: float = 0.5
    """Seconds without progress after which another request may take a sender's admission."""
    retry_s: float = 1.0
    """Seconds after which a sender may retry that was refused for a limit or an internal error."""


class Admission:
    """One admitted request: its sender, its bytes so far, and its deadline while the body is read."""

    def __init__(self, control: AdmissionControl, peer: str) -> None:
        self._control = control
        self._timeout: asyncio.Timeout | None = None
        self._until = self._stall_s = 0.0
        self._marked_size = 0
        self.peer = peer
        self.size = 0
        self.progress_at = 0.0
        self.is_revoked = False

    def hold(self, size: int) -> None:
        """Add bytes to the request. Raises Refused where all requests together have too many."""
        self._control.reserve(size, self)
        self.size += size
        if self._timeout is not None and self.size - self._marked_size >= self._control.limits.stall_bytes:
            self._mark_progress(self._timeout)

    @asynccontextmanager
    async def reading(self, stall_s: float) -> AsyncGenerator[None]:
        """Read a body: its next bytes within `stall_s`, and all of it within `read_timeout_s`.

        Raises Refused where that takes longer, or where another request took this one's admission.
        """
        now = self._control.clock()
        self._until = now + self._control.limits.read_timeout_s
        self._stall_s, self.progress_at, self._marked_size = stall_s, now, self.size
        try:
            async with asyncio.timeout(min(stall_s, self._control.limits.read_timeout_s)) as self._timeout:
                yield
        except TimeoutError:
            if not self.is_revoked:
                raise Refused(Reason.SLOW, "timed out reading the body") from None
        finally:
            self._timeout = None
        if self.is_revoked:
            raise self._control.revoked()

    def is_reading(self) -> bool:
        """Return whether the body is still being read."""
        return self._timeout is not None

    def is_slow(self, now: float) -> bool:
        """Return whether the body is still being read and made too little progress for `yield_s`."""
        return self.is_reading() and now - self.progress_at >= self._control.limits.yield_s

    def revoke(self) -> None:
        """Take the admission away: the reader wakes up and refuses the request."""
        self.is_revoked = True
        timeout, self._timeout = self._timeout, None
        if timeout is not None and not timeout.expired():
            timeout.reschedule(0.0)

    def _mark_progress(self, timeout: asyncio.Timeout) -> None:
        self.progress_at, self._marked_size = self._control.clock(), self.size
        if not timeout.expired():
            left_s = min(self._stall_s, self._until - self.progress_at)
            timeout.reschedule(asyncio.get_running_loop().time() + left_s)


class AdmissionControl:
    """The requests that are being handled, over all receivers of one event loop."""

    def __init__(self, limits: ReceiverLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self.size = 0
        self._is_closed = False
        self._admitted: dict[Admission, None] = {}

    @property
    def requests(self) -> int:
        """Return the number of admitted requests."""
        return len(self._admitted)

    @contextmanager
    def admit(self, peer: str) -> Generator[Admission]:
        """Admit a request of a peer for as long as the block runs.

        At the limit the admission of a slow sender is revoked. Raises Refused where no sender is slow.
        """
        if self._is_closed:
            raise self.revoked()
        if self.requests >= self.limits.requests_max and not self._revoke_slowest():
            raise self._crowded("too many concurrent requests")
        admission = Admission(self, peer)
        self._admitted[admission] = None
        try:
            yield admission
        finally:
            self._remove(admission)

    def reserve(self, size: int, admission: Admission) -> None:
        """Reserve bytes for a request, from slow senders where needed. Raises Refused where none is slow."""
        if admission.is_revoked:
            raise self.revoked()
        while self.size + size > self.limits.bytes_max:
            if not self._revoke_slowest(admission):
                raise self._crowded("too many bytes in concurrent requests")
        self.size += size

    def close(self) -> None:
        """Refuse all new requests and those whose body is still being read: the process is stopping."""
        self._is_closed = True
        for admission in [admission for admission in self._admitted if admission.is_reading()]:
            self._revoke(admission)

    def revoked(self) -> Refused:
        """Return the refusal of a request that lost its admission; its sender may retry."""
        if self._is_closed:
            return Refused(Reason.STOPPING, "the process is stopping", self.limits.retry_s)
        return self._crowded("the body came too slowly while other requests waited")

    def _crowded(self, text: str) -> Refused:
        return Refused(Reason.CROWDED, text, self.limits.retry_s)

    def _revoke_slowest(self, besides: Admission | None = None) -> bool:
        """Revoke one slow request: of the peer with most requests, the one longest without progress."""
        now = self.clock()
        slow = [
            admission for admission in self._admitted if admission is not besides and admission.is_slow(now)
        ]
        if not slow:
            return False
        of_peer = Counter(admission.peer for admission in self._admitted)
        self._revoke(min(slow, key=lambda admission: (-of_peer[admission.peer], admission.progress_at)))
        return True

    def _revoke(self, admission: Admission) -> None:
        admission.revoke()
        self._remove(admission)

    def _remove(self, admission: Admission) -> None:
        if admission in self._admitted:
            del self._admitted[admission]
            self.size -= admission.size
