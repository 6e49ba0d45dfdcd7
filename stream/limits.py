"""What the receivers take at most, and how much of it is taken."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ..schemas.framing import REQUEST_RATIO_MAX
from .refusal import Reason, Refused


@dataclass(frozen=True, slots=True)
class Limits:
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
    """How long a sender may take for a request."""
    retry_s: float = 1.0
    """When a sender may come again that was sent away for `requests_max` or `bytes_max`, or for a fault."""


class Place:
    """What one request takes of a `Room`."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.size = 0

    def hold(self, size: int) -> None:
        """Take that many bytes more. Raises Refused where they are too many for all requests together."""
        if self._room.size + size > self._room.limits.bytes_max:
            raise Refused(Reason.CROWDED, "too many bytes are in work", self._room.limits.retry_s)
        self.size += size
        self._room.size += size


class Room:
    """The requests that are in work, over all receivers; for one event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.requests = 0
        self.size = 0

    @contextmanager
    def place(self) -> Generator[Place]:
        """A place for a request while it is in work. Raises Refused where there is none left."""
        if self.requests >= self.limits.requests_max:
            raise Refused(Reason.CROWDED, "too many requests are in work", self.limits.retry_s)
        place = Place(self)
        self.requests += 1
        try:
            yield place
        finally:
            self.requests -= 1
            self.size -= place.size
