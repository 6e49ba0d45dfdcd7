"""Metrics of `tracline serve`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry

from ...schemas.otlp.signal import Signal
from ..ingest.meter import OtlpTransport, RequestKind
from ..ingest.rejections import Reason
from ..ingest.request import Encoding
from ..messages.unjoined import Unjoined
from .metrics import counter, gauge
from .risk_metrics import RiskMetrics
from .shared_metrics import ConnectionMetrics, JudgingMetrics, ProgressMetrics, SpanMetrics

_WAYS = (
    (OtlpTransport.HTTP, Encoding.PROTOBUF),
    (OtlpTransport.HTTP, Encoding.JSON),
    (OtlpTransport.GRPC, Encoding.PROTOBUF),
)
"""The transports and encodings of requests."""


class ReceiverMetrics:
    """The `ReceiverMeter` of `tracline serve`. Any thread may count."""

    def __init__(self, registry: CollectorRegistry, spans: SpanMetrics) -> None:
        labels = ("transport", "encoding")
        self._spans = spans
        self._requests = counter(
            registry, "receiver_requests", "Acknowledged requests of spans or log records.", *labels
        )
        self._items = {
            Signal.SPANS: counter(
                registry, "receiver_spans", "Spans read in acknowledged requests.", *labels
            ),
            Signal.LOGS: counter(
                registry, "receiver_log_records", "Log records read in acknowledged requests.", *labels
            ),
        }
        self._bytes = counter(
            registry, "receiver_bytes", "Bytes of acknowledged requests after decompression.", *labels
        )
        text = "Requests of metrics, which are acknowledged and dropped."
        self._dropped = counter(registry, "receiver_metrics_dropped", text, *labels)
        self._refused = counter(registry, "receiver_refused", "Refused requests.", "reason")
        for transport, encoding in _WAYS:
            for metric in (self._requests, *self._items.values(), self._bytes, self._dropped):
                metric.labels(transport, encoding)
        for reason in Reason:
            self._refused.labels(reason)

    def received(self, kind: RequestKind, items: int, size: int) -> None:
        """Count an acknowledged request: the items read in it, and its bytes after decompression."""
        labels = (kind.transport, kind.encoding)
        self._requests.labels(*labels).inc()
        self._items[kind.signal].labels(*labels).inc(items)
        self._bytes.labels(*labels).inc(size)

    def dropped(self, kind: RequestKind) -> None:
        """Count a request that was acknowledged and dropped."""
        self._dropped.labels(kind.transport, kind.encoding).inc()

    def unlinked(self, count: int) -> None:
        """Count log records with content that name no span."""
        self._spans.unjoined(Unjoined.UNLINKED, count)

    def flawed(self, signal: Signal, rejected: int, codes: Mapping[str, int]) -> None:
        """Count the unreadable items of a request, and its flaws by code."""
        self._spans.flawed(signal, rejected, codes)

    def refused(self, reason: Reason) -> None:
        """Count a refused request."""
        self._refused.labels(reason).inc()


class ServeMetrics:
    """The metrics of `tracline serve`; `rules` are the packs and ids of the rules in force."""

    def __init__(self, rules: Iterable[tuple[str, str]] = ()) -> None:
        self.registry = registry = CollectorRegistry()
        self.spans = SpanMetrics(registry)
        self.receiver = ReceiverMetrics(registry, self.spans)
        self.connections = ConnectionMetrics(registry, OtlpTransport)
        self.progress = ProgressMetrics(registry)
        self.judging = JudgingMetrics(registry, rules)
        self.risk = RiskMetrics(registry, self.judging.labels_of)
        self.store_bytes = gauge(registry, "store_bytes", "Size of the embedded store in bytes.")
        self.console_readers = gauge(registry, "console_readers", "Console pages with an open live feed.")
