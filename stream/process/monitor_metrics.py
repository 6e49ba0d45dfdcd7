"""Metrics of `tracline stream monitor`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from .kafka_metrics import KafkaMetrics
from .metrics import counter, gauge
from .shared_metrics import JudgingMetrics, ProgressMetrics


class MonitorMetrics:
    """The metrics of `tracline stream monitor`; `rules` are the packs and ids of the rules in force."""

    def __init__(
        self,
        reads: Iterable[str],
        sends: Iterable[str],
        rules: Iterable[tuple[str, str]] = (),
        dead_letter_codes: Iterable[str] = (),
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self.kafka = KafkaMetrics(registry, reads, sends)
        self.judging = JudgingMetrics(registry, rules)
        self.progress = ProgressMetrics(registry, dead_letter_codes)
        self.state_bytes = gauge(registry, "state_bytes", "Size of the sessions' state in bytes (estimated).")
        text = "Redelivered messages that had changed their sessions before."
        self.skipped = counter(registry, "redelivered", text)
