"""What the receivers count: the seam between them and the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ...schemas.otlp.signal import Signal
from .rejections import Reason
from .request import Encoding


class OtlpTransport(StrEnum):
    """The way by which a request came."""

    HTTP = "http"
    GRPC = "grpc"


@dataclass(frozen=True, slots=True)
class RequestKind:
    """How a request came: what it brings, by which transport, in which encoding."""

    signal: Signal
    transport: OtlpTransport
    encoding: Encoding


class RefusalMeter(Protocol):
    """Counts requests that were not taken."""

    def refused(self, reason: Reason) -> None:
        """A request was not taken."""
        ...


class ReceiverMeter(RefusalMeter, Protocol):
    """Counts requests. It is told nothing that they hold."""

    def received(self, way: RequestKind, items: int, size: int) -> None:
        """A request was acknowledged: items that could be read in it, bytes of it unpacked."""
        ...

    def unlinked(self, count: int) -> None:
        """Log records with content came that name no span."""
        ...

    def dropped(self, way: RequestKind) -> None:
        """A request was acknowledged and dropped."""
        ...

    def flawed(self, signal: Signal, rejected: int, codes: Mapping[str, int]) -> None:
        """A request had items that could not be read, and so many flaws of each code."""
        ...
