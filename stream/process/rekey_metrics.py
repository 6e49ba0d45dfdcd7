"""Metrics of `tracline stream rekey`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from .kafka_metrics import KafkaMetrics
from .metrics import counter, gauge
from .shared_metrics import ProgressMetrics, SpanMetrics


class RekeyMetrics:
    """The metrics of `tracline stream rekey`."""

    def __init__(
        self, reads: Iterable[str], sends: Iterable[str], dead_letter_codes: Iterable[str] = ()
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self.kafka = KafkaMetrics(registry, reads, sends)
        self.spans = SpanMetrics(registry)
        self.progress = ProgressMetrics(registry, dead_letter_codes)
        self.spans_in = counter(registry, "rekey_spans", "Spans read.")
        self.log_records_in = counter(registry, "rekey_log_records", "Log records read.")
        self.candidates = counter(registry, "rekey_candidates", "Candidates sent to their sessions.")
        self.traces_held = gauge(registry, "rekey_traces", "Traces in the state of this process.")

    def clear(self) -> None:
        """Reset the gauges of a process that has no partition: another process shows them now."""
        self.kafka.lag({})
        self.progress.watermark(None)
        for metric in (self.spans.waiting, self.spans.log_records_waiting, self.traces_held):
            metric.set(0)
