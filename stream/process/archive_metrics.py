"""Metrics of `tracline stream archive`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from .kafka_metrics import KafkaMetrics
from .metrics import counter, gauge
from .shared_metrics import ProgressMetrics


class ArchiveMetrics:
    """The metrics of `tracline stream archive`."""

    def __init__(self, reads: Iterable[str], dead_letter_codes: Iterable[str] = ()) -> None:
        self.registry = registry = CollectorRegistry()
        self.kafka = KafkaMetrics(registry, reads)
        self.progress = ProgressMetrics(registry, dead_letter_codes)
        self.rows = counter(registry, "archive_rows", "Rows written to the archive.")
        self.files = counter(registry, "archive_files", "Files finished and entered in the manifest.")
        self.bytes = counter(registry, "archive_bytes", "Bytes of finished files.")
        self.rows_waiting = gauge(registry, "archive_rows_waiting", "Rows not written to a file yet.")
        self.repeats = counter(registry, "archive_repeats", "Repeated messages of judged events, dropped.")
