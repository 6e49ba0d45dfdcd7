"""Export requests, and the intake that stores them: the seam between the network and the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from ...schemas.attempt import Broken, attempt
from ...schemas.chat.find import InputFlaw
from ...schemas.otlp.decode import decode_json, decode_logs_protobuf, decode_protobuf, read_span_json
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.signal import Signal
from ...schemas.plain_traces.requests import PlainRecord, PlainRequest, plain_request

RequestContent: TypeAlias = Decoded | PlainRequest
NOT_STORED = -1
"""The offset of a record that has none yet."""


class Encoding(StrEnum):
    """The encoding of a request's body."""

    PROTOBUF = "protobuf"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """An export request: its decompressed body, its content, and its arrival (ns since the epoch)."""

    body: bytes
    encoding: Encoding
    content: RequestContent
    received: int
    signal: Signal = Signal.SPANS


def read(
    body: bytes, encoding: Encoding, signal: Signal, received: int, scope: Sequence[str] = ()
) -> RequestContent:
    """Return the content of a request that arrived at that time: plain spans, or what `decode` returns.

    Plain spans have no flaw. The resource attributes named by `scope` precede the ids of sessions.
    """
    if encoding is Encoding.PROTOBUF and signal is Signal.SPANS:
        record = PlainRecord(body, received, NOT_STORED, b"")
        plain = attempt(lambda: plain_request(record, scope))
        if plain is not None and not isinstance(plain, Broken):
            return plain
    return decode(body, encoding, signal)


def decode(body: bytes, encoding: Encoding, signal: Signal = Signal.SPANS) -> Decoded:
    """Return the spans or log records of a request, and its flaws. Never raises, whatever the body holds."""
    if encoding is Encoding.PROTOBUF:
        return decode_logs_protobuf(body) if signal is Signal.LOGS else decode_protobuf(body)
    try:
        return decode_json(read_span_json(body))
    except ValueError as error:
        return Decoded(flaws=(InputFlaw("request", "json", f"cannot be read: {error}"),))


class Busy(Exception):
    """A request that cannot be stored now; the sender may retry after `retry_after_s` seconds.

    `reason` is one word for logs and metrics: `queue` (the queue is full), `disk` or `stopping`.
    """

    def __init__(self, reason: str, retry_after_s: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Intake(Protocol):
    """Stores requests, so that none is lost once it was acknowledged."""

    async def put(self, request: ExportRequest) -> None:
        """Return once the request is on disk. Raises Busy where it is not."""
        ...
