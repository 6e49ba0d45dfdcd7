"""The spans that the receivers decoded, until their content is read.

A span waits for its session as the request that it came in. Serve decodes the span again only after a
restart, or where too many spans came since.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...schemas.candidate import Candidate
from ...schemas.sessions.span_reading import SpanReading
from ...schemas.span import Span

REQUEST_BYTES_MAX = 16 << 20
"""Bytes of the requests of remembered spans; beyond it the oldest are decoded again."""


class DecodedSpans:
    """Decoded spans by the request of each alone: a cache."""

    def __init__(self) -> None:
        self.by_request: dict[bytes, Span] = {}
        self._size = 0

    def add(self, spans: Iterable[tuple[Span, SpanReading]]) -> None:
        """Remember the spans whose content has not been read."""
        for span, reading in spans:
            if reading.request and reading.request not in self.by_request:
                self.by_request[reading.request] = span
                self._size += len(reading.request)
        while self._size > REQUEST_BYTES_MAX:
            self._drop(next(iter(self.by_request)))

    def forget(self, candidates: Iterable[Candidate]) -> None:
        """Forget the spans of candidates that have been read."""
        for candidate in candidates:
            if candidate.request in self.by_request:
                self._drop(candidate.request)

    def _drop(self, request: bytes) -> None:
        del self.by_request[request]
        self._size -= len(request)
