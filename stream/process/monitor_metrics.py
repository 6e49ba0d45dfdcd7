"""Metrics of `tracline stream monitor`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from .kafka_metrics import KafkaMetrics
from .metrics import counter, gauge
from .risk_metrics import RiskMetrics
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
        named = list(rules)
        self.judging = JudgingMetrics(registry, named)
        self.progress = ProgressMetrics(registry, dead_letter_codes)
        self.state_bytes = gauge(registry, "state_bytes", "Size of the sessions' state in bytes (estimated).")
        self.risk = RiskMetrics(registry, self.judging.labels_of)
        self.risk.add_rules(named)
        text = "Chains that rules in force name and the process lacks: it computes no risk by them."
        self.chains_lacking = gauge(registry, "chains_lacking", text)
        text = "Redelivered messages that had changed their sessions before."
        self.skipped = counter(registry, "redelivered", text)

    def add_rules(self, rules: Iterable[tuple[str, str]]) -> None:
        """Give rules counters at 0 before their first verdict and crossing."""
        named = list(rules)
        self.judging.add_rules(named)
        self.risk.add_rules(named)
