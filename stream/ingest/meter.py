"""The meters of the receivers: the seam between them and the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ...schemas.otlp.signal import Signal
from .rejections import Reason
from .request import Encoding


class OtlpTransport(StrEnum):
    """The protocol that carries a request."""

    HTTP = "http"
    GRPC = "grpc"


@dataclass(frozen=True, slots=True)
class RequestKind:
    """A request's signal, transport and encoding."""

    signal: Signal
    transport: OtlpTransport
    encoding: Encoding


class RefusalMeter(Protocol):
    """Counts refused requests."""

    def refused(self, reason: Reason) -> None:
        """Count a refused request."""
        ...


class ReceiverMeter(RefusalMeter, Protocol):
    """Counts requests. It gets nothing of their content."""

    def received(self, kind: RequestKind, items: int, size: int) -> None:
        """Count an acknowledged request: the items read in it, and its bytes after decompression."""
        ...

    def unlinked(self, count: int) -> None:
        """Count log records with content that name no span."""
        ...

    def dropped(self, kind: RequestKind) -> None:
        """Count a request that was acknowledged and dropped."""
        ...

    def flawed(self, signal: Signal, rejected: int, codes: Mapping[str, int]) -> None:
        """Count the unreadable items of a request, and its flaws by code."""
        ...
