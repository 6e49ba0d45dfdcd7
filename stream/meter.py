"""What the receivers count: the seam between them and the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from .intake import Encoding
from .refusal import Reason


class Transport(StrEnum):
    """The way by which a request came."""

    HTTP = "http"
    GRPC = "grpc"


class Refusals(Protocol):
    """Counts requests that were not taken."""

    def refused(self, reason: Reason) -> None:
        """A request was not taken."""
        ...


class Meter(Refusals, Protocol):
    """Counts requests. It is told nothing that they hold."""

    def received(self, transport: Transport, encoding: Encoding, spans: int, size: int) -> None:
        """A request was acknowledged: spans that could be read in it, bytes of it unpacked."""
        ...

    def flawed(self, rejected: int, codes: Mapping[str, int]) -> None:
        """A request had spans that could not be read, and so many flaws of each code."""
        ...
