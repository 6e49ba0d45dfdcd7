"""Why a request is not taken, and what that is called in HTTP and in gRPC."""

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
    """Why a request is not taken: one word, for metrics."""

    HOST = "host"
    """It is not addressed to this server."""
    TOKEN = "token"
    """It lacks the token, or has another one."""
    METHOD = "method"
    """It is no POST."""
    SIGNAL = "signal"
    """It brings a signal that is not taken, as profiles."""
    TYPE = "type"
    """Its content type or character set is none that is read."""
    CODING = "coding"
    """It is compressed in a way that is not read."""
    SIZE = "size"
    """It is too large, packed or unpacked."""
    DAMAGED = "damaged"
    """It does not unpack."""
    UNREADABLE = "unreadable"
    """Nothing in it can be read."""
    SLOW = "slow"
    """It took too long to come."""
    GONE = "gone"
    """Its sender went away in the middle of it."""
    CROWDED = "crowded"
    """Too many others are in work."""
    QUEUE = "queue"
    """What was taken is not worked off."""
    DISK = "disk"
    """It cannot be kept."""
    STOPPING = "stopping"
    """The process ends."""
    FAULT = "fault"
    """Something that nobody expected went wrong here."""


@dataclass(frozen=True, slots=True)
class Status:
    """A reason's status code in HTTP and in gRPC (`google.rpc.Code`)."""

    http: int
    grpc: int


STATUS: dict[Reason, Status] = {
    Reason.HOST: Status(421, PERMISSION_DENIED),
    Reason.TOKEN: Status(401, UNAUTHENTICATED),
    Reason.METHOD: Status(405, UNIMPLEMENTED),
    Reason.SIGNAL: Status(404, UNIMPLEMENTED),
    Reason.TYPE: Status(415, INVALID_ARGUMENT),
    Reason.CODING: Status(415, UNIMPLEMENTED),
    Reason.SIZE: Status(413, RESOURCE_EXHAUSTED),
    Reason.DAMAGED: Status(400, INVALID_ARGUMENT),
    Reason.UNREADABLE: Status(400, INVALID_ARGUMENT),
    Reason.SLOW: Status(408, DEADLINE_EXCEEDED),
    Reason.GONE: Status(400, CANCELLED),
    Reason.CROWDED: Status(429, RESOURCE_EXHAUSTED),
    Reason.QUEUE: Status(429, RESOURCE_EXHAUSTED),
    Reason.DISK: Status(503, UNAVAILABLE),
    Reason.STOPPING: Status(503, UNAVAILABLE),
    Reason.FAULT: Status(503, UNAVAILABLE),
}
"""Exporters come again after 429 and 503; after RESOURCE_EXHAUSTED only where it is said when."""


class Refused(Exception):
    """A request that is not taken; `text` says why and has nothing of the request in it.

    With `retry_after_s` its sender may come again after that many seconds; without, it should not.
    `flaws` are what is wrong inside it, where that is known.
    """

    def __init__(
        self, reason: Reason, text: str, retry_after_s: float | None = None, flaws: tuple[InputFlaw, ...] = ()
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.retry_after_s = retry_after_s
        self.flaws = flaws
