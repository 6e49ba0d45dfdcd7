"""The reasons for refusing a request, and their status codes in HTTP and gRPC."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from google.rpc.code_pb2 import (
    CANCELLED,
    DEADLINE_EXCEEDED,
    INVALID_ARGUMENT,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNIMPLEMENTED,
)

from ...schemas.chat.find import InputFlaw


class Reason(StrEnum):
    """The reason for refusing a request: one word, for metrics."""

    HOST = "host"
    """Its `Host` header does not name this server."""
    TOKEN = "token"
    """It has no token, or a wrong one."""
    METHOD = "method"
    """Its method is not POST."""
    SIGNAL = "signal"
    """Its signal is not supported, such as profiles."""
    TYPE = "type"
    """Its content type or character set is not supported."""
    CODING = "coding"
    """Its content encoding is not supported."""
    SIZE = "size"
    """It is too large, before or after decompression."""
    DAMAGED = "damaged"
    """Its compressed body is damaged."""
    UNREADABLE = "unreadable"
    """Nothing in it can be read."""
    SLOW = "slow"
    """Reading it timed out."""
    GONE = "gone"
    """Its sender closed the connection."""
    CROWDED = "crowded"
    """There are too many concurrent requests."""
    QUEUE = "queue"
    """The queue of accepted requests is full."""
    DISK = "disk"
    """It cannot be written to disk."""
    STOPPING = "stopping"
    """The process is stopping."""
    FAULT = "fault"
    """An internal error occurred."""


@dataclass(frozen=True, slots=True)
class StatusCodes:
    """A reason's status code in HTTP and in gRPC (`google.rpc.Code`)."""

    http: int
    grpc: int


STATUS_CODES: dict[Reason, StatusCodes] = {
    Reason.HOST: StatusCodes(421, PERMISSION_DENIED),
    Reason.TOKEN: StatusCodes(401, UNAUTHENTICATED),
    Reason.METHOD: StatusCodes(405, UNIMPLEMENTED),
    Reason.SIGNAL: StatusCodes(404, UNIMPLEMENTED),
    Reason.TYPE: StatusCodes(415, INVALID_ARGUMENT),
    Reason.CODING: StatusCodes(415, UNIMPLEMENTED),
    Reason.SIZE: StatusCodes(413, RESOURCE_EXHAUSTED),
    Reason.DAMAGED: StatusCodes(400, INVALID_ARGUMENT),
    Reason.UNREADABLE: StatusCodes(400, INVALID_ARGUMENT),
    Reason.SLOW: StatusCodes(408, DEADLINE_EXCEEDED),
    Reason.GONE: StatusCodes(400, CANCELLED),
    Reason.CROWDED: StatusCodes(429, RESOURCE_EXHAUSTED),
    Reason.QUEUE: StatusCodes(429, RESOURCE_EXHAUSTED),
    Reason.DISK: StatusCodes(503, UNAVAILABLE),
    Reason.STOPPING: StatusCodes(503, UNAVAILABLE),
    Reason.FAULT: StatusCodes(503, UNAVAILABLE),
}
"""Exporters retry after 429 and 503; after RESOURCE_EXHAUSTED only where the answer has a retry delay."""


class Refused(Exception):
    """A refused request; `text` gives the reason and holds nothing of the request.

    With `retry_after_s` its sender may retry after that many seconds; without, it should not.
    `flaws` are the flaws of its content, where they are known.
    """

    def __init__(
        self, reason: Reason, text: str, retry_after_s: float | None = None, flaws: tuple[InputFlaw, ...] = ()
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.retry_after_s = retry_after_s
        self.flaws = flaws
