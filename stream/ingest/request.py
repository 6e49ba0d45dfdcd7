"""What the receivers hand over, and what they may expect: the seam between the network and the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decode import decode_json, decode_logs_protobuf, decode_protobuf, read_span_json
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal


class Encoding(StrEnum):
    """How a request's body is written."""

    PROTOBUF = "protobuf"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Request:
    """One export request: its body (uncompressed), what is in it, and when it came (ns since the epoch)."""

    body: bytes
    encoding: Encoding
    decoded: Decoded
    received: int
    signal: Signal = Signal.SPANS


def decode(body: bytes, encoding: Encoding, signal: Signal = Signal.SPANS) -> Decoded:
    """Return what a request of spans or log records holds, and what of it cannot be read.

    Never raises for what it may hold.
    """
    if encoding is Encoding.PROTOBUF:
        return decode_logs_protobuf(body) if signal is Signal.LOGS else decode_protobuf(body)
    try:
        return decode_json(read_span_json(body))
    except ValueError as error:
        return Decoded(flaws=(InputFlaw("request", "json", f"cannot be read: {error}"),))


class Busy(Exception):
    """The request cannot be taken now; the sender may come again after `retry_after_s` seconds.

    `reason` is one word for logs and metrics: `queue` (what was taken is not worked off), `disk`, `stopping`.
    """

    def __init__(self, reason: str, retry_after_s: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Intake(Protocol):
    """Takes requests so that none is lost once it was acknowledged."""

    async def put(self, request: Request) -> None:
        """Return once the request is on disk. Raises Busy where it was not taken."""
        ...
